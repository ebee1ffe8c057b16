#include "tests/hw/world/gpu.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>

#include "tests/hw/world/device_memory.h"

namespace corun::world {

Gpu* Gpu::the_ = nullptr;

Gpu::Gpu(Machine& m) : machine(m) {
  the_ = this;
  machine.process_ended = [this](Process& p) { ended(p); };
}
Gpu::~Gpu() { the_ = nullptr; }

std::uint32_t Gpu::asks(std::uint32_t stream, bool captured) {
  const int pid = machine.process()->pid;
  auto& before = of_stream_[{pid, stream}];
  Launch l;
  l.pid = pid, l.stream = stream, l.asked = machine.now(), l.captured = captured;
  const auto number = static_cast<std::uint32_t>(ledger_.size());
  if (!captured) before.push_back(number), l.number = static_cast<std::uint32_t>(before.size());
  ledger_.push_back(l);
  machine.thread()->launch = number;
  return number;
}

void Gpu::answered(std::uint32_t launch, CUresult said) {
  ledger_[launch].answered = machine.now(), ledger_[launch].said = said;
  machine.thread()->launch = 0;
}

std::size_t Gpu::unfinished(int pid) const {
  return static_cast<std::size_t>(std::ranges::count_if(ledger_, [&](const Launch& l) {
    return l.pid == pid && l.answered != kForever && l.said == CUDA_SUCCESS && !l.captured && !l.dropped && l.runs == 0;
  }));
}

bool Gpu::fails() {
  if (fail_in_ == 0 || --fail_in_ != 0) return false;
  ++refused_;
  ++machine.count("the driver refused");
  return true;
}

void Gpu::stale(const char* what) { machine.wrong(fmt::format("stale: {} of a context that has ended", what)); }

Gpu::Context& Gpu::context() {
  Context& c = contexts_[machine.process()->pid];
  if (!c.there) {
    c.there = true;
    c.common = static_cast<std::uint32_t>(streams_.size());
    new_stream(0);
  }
  return c;
}

CUstream Gpu::new_stream(int priority) {
  const int pid = machine.process()->pid;
  const auto is_free = [&](const auto& s) { return s->pid == pid && s->gone && s->ops.empty() && s->capture == nullptr; };
  auto at = std::ranges::find_if(streams_, is_free);
  if (at == streams_.end() || machine.random.one_in(2)) at = streams_.insert(streams_.end(), std::make_unique<Stream>());  // else where another was
  Stream& s = **at;
  const std::uint64_t turn = s.turn + 1;
  s = {};
  s.pid = pid, s.life = contexts_[pid].life, s.priority = priority, s.turn = turn;
  return handle_of_stream(static_cast<std::uint32_t>(at - streams_.begin()));
}

Gpu::Stream* Gpu::stream(CUstream handle, std::uint32_t* number) {
  std::uint32_t n = context().common;
  if (handle != nullptr && handle != CU_STREAM_LEGACY) n = static_cast<std::uint32_t>((reinterpret_cast<std::uintptr_t>(handle) - 0x10000) / 16);
  if (n >= streams_.size() || streams_[n]->pid != machine.process()->pid) return machine.wrong("a stream that was never made is used"), nullptr;
  Stream& s = *streams_[n];
  if (s.life != context().life) return stale("a stream"), nullptr;
  if (s.gone) return machine.wrong("a stream that was destroyed is used"), nullptr;
  if (number != nullptr) *number = n;
  return &s;
}

Gpu::Event* Gpu::event(CUevent handle) {
  const auto n = (reinterpret_cast<std::uintptr_t>(handle) - 0x20000) / 16;
  if (n >= events.size() || events[n]->pid != machine.process()->pid) return machine.wrong("an event that was never made is used"), nullptr;
  if (events[n]->life != context().life) return stale("an event"), nullptr;
  return events[n].get();
}

CUresult Gpu::enqueue(CUstream handle, Op op) {
  std::uint32_t n = 0;
  Stream* s = stream(handle, &n);
  if (s == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (Capture* capture = s->capture) {
    if (n != capture->origin) capture->open.insert(n);
    if (op.what == Op::What::kernel) {
      capture->takes += op.takes, ++capture->kernels;
      if (op.launch == 0 || !ledger_[op.launch].captured) capture->foreign = true;
    } else if (op.what != Op::What::record && op.what != Op::What::wait) {
      capture->foreign = true;
    }
    return CUDA_SUCCESS;
  }
  if (op.what == Op::What::kernel && op.launch != 0 && ledger_[op.launch].captured) machine.wrong("a launch that is captured goes to the GPU");
  s->ops.push_back(std::move(op));
  full_.insert(n);
  look();
  return CUDA_SUCCESS;
}

/// One step of a stream.
bool Gpu::go(std::uint32_t number) {
  Stream& s = *streams_[number];
  if (s.busy || s.ops.empty()) return false;
  const Op& op = s.ops.front();
  const auto word = [&] { return std::atomic_ref(*reinterpret_cast<std::uint32_t*>(op.at)); };
  switch (op.what) {
    case Op::What::kernel: begin_kernel(number, op); return true;
    case Op::What::record: events[op.event]->done = std::max(events[op.event]->done, op.ticket); break;
    case Op::What::wait:
      if (events[op.event]->done < op.ticket) return false;
      break;
    case Op::What::write:
      word().store(op.value);
      machine.note(op.value);
      break;
    case Op::What::wait_value:
      if (static_cast<std::int32_t>(word().load() - op.value) < 0) return false;
      break;
    case Op::What::call: op.call(); break;
  }
  s.ops.pop_front();
  if (s.ops.empty()) machine.wake(&s), machine.wake(this);
  return true;
}

void Gpu::begin_kernel(std::uint32_t number, const Op& op) {
  Stream& s = *streams_[number];
  s.busy = true;
  const std::uint32_t launch = op.launch;
  if (launch != 0) {
    Launch& l = ledger_[launch];
    l.begun = machine.now();
    if (++l.runs > 1) machine.wrong(fmt::format("launch {} of {} runs a second time", launch, l.pid));
    if (l.number > 1) {
      const Launch& before = ledger_[of_stream_.at({l.pid, l.stream})[l.number - 2]];
      if (before.ended == kForever && !before.dropped && before.said == CUDA_SUCCESS) machine.wrong(fmt::format("launch {} of {} begins before the one before it in its stream has ended", launch, l.pid));
    }
    if (!DeviceMemory::the().all_there(l.pid)) machine.wrong(fmt::format("launch {} of {} begins without all of its memory", launch, l.pid));
    if (machine.tells()) machine.tell(fmt::format("GPU: launch {} of {}, number {} of stream {}, begins", launch, l.pid, l.number, l.stream));
  }
  machine.at(machine.now() + op.takes, [this, number, launch, turn = s.turn] {
    Stream& of = *streams_[number];
    if (of.turn != turn) return;
    of.busy = false;
    if (launch != 0) ledger_[launch].ended = machine.now();
    of.ops.pop_front();
    if (of.ops.empty()) machine.wake(&of), machine.wake(this);
    look();
  });
}

void Gpu::look() {
  if (looks_) return;
  looks_ = true;
  for (bool any = true; any;) {
    any = false;
    for (auto at = full_.begin(); at != full_.end();) {
      while (go(*at)) any = true;
      at = streams_[*at]->ops.empty() ? full_.erase(at) : std::next(at);
    }
  }
  looks_ = false;
}

bool Gpu::idle(int pid, const Stream* one) const {
  return std::ranges::all_of(full_, [&](std::uint32_t n) { return streams_[n]->pid != pid || (one != nullptr && streams_[n].get() != one) || streams_[n]->ops.empty(); });
}

void Gpu::end_context(int pid) {
  for (const auto& s : streams_)
    if (s->pid == pid) {
      ++s->turn;
      s->busy = false, s->capture = nullptr;
      s->ops.clear();
      machine.wake(s.get());
    }
  for (Launch& l : ledger_)
    if (l.pid == pid && l.ended == kForever) l.dropped = true;
  machine.wake(this);
  Context& c = contexts_[pid];
  const std::uint32_t life = c.life + 1;
  c = {};
  c.life = life;
}

void Gpu::ended(const Process& process) {
  if (contexts_.contains(process.pid)) end_context(process.pid);
  DeviceMemory::the().ended(process.pid);
}

CUresult Gpu::capture_end(CUstream handle, CUgraph* graph) {
  std::uint32_t n = 0;
  Stream* s = stream(handle, &n);
  if (s == nullptr || s->capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  Capture* capture = s->capture;
  for (const auto& each : streams_)
    if (each->capture == capture) each->capture = nullptr;
  if (!capture->open.empty()) return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  if (capture->foreign) machine.wrong("a graph has what its program did not put there");
  ++machine.count("captured");
  return *graph = add({s->pid, capture->takes, capture->kernels}), CUDA_SUCCESS;
}

CUgraph Gpu::add(const Graph& graph) {
  graphs.push_back(graph);
  return reinterpret_cast<CUgraph>(std::uintptr_t{0x30000} + (graphs.size() - 1) * 16);
}

Ns Gpu::given_to_others(int pid) const {
  Ns all{};
  for (const Launch& l : ledger_)
    if (l.pid != pid && l.begun != kForever) all += (l.ended != kForever ? l.ended : machine.now()) - l.begun;
  return all;
}

}  // namespace corun::world
