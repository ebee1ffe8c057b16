#include "hw/backend/cuda_backend.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "traces/model/error.h"

namespace corun::hw {

CapabilitySet cuda_capabilities() {
  return {Capability::order,      Capability::priority, Capability::tpc_mask,         Capability::cta_quota,
          Capability::sm_quota,   Capability::progress, Capability::preempt_at_block, Capability::padding,
          Capability::memory_swap};
}

CudaBackend::CudaBackend(const Trace& trace, const Gpu& gpu, const Requirements& needed, Timeline& timeline,
                         Workbench& work, CudaOptions options)
    : trace_(trace),
      topology_{gpu, cuda_capabilities()},
      timeline_(&timeline),
      work_(work),
      driver_(work.driver()),
      options_(options),
      preemptive_(needed.capabilities.has(Capability::preempt_at_block)),
      sizes_(needed.capabilities.has(Capability::cta_quota)),
      seats_(needed.capabilities.has(Capability::sm_quota)) {
  if (needed.capabilities.has(Capability::preempt_reset))
    throw InputError("", "--backend=cuda",
                     "the policy kills running blocks, which NVIDIA's driver does not allow",
                     "use a policy that stops kernels between blocks, as reef-n");
  check_gpu();
  try {
    control_stream_ = driver_.stream(driver_.facts().highest_priority, {});
    controls_ = driver_.allocate(kControls * sizeof(Control));
    progress_ = driver_.allocate_host(kControls * sizeof(Progress));
    tickets_ = driver_.allocate_host(4 * kControls * 4);
    free_all();
    driver_.synchronize(control_stream_);
    if (needed.capabilities.has(Capability::tpc_mask))
      group_of_tpc_ = work_.group_of_tpc(gpu.tpcs(), gpu.sms_per_tpc);
    memory_ = std::make_unique<TraceMemory>(
        trace, gpu.memory_bytes, needed.capabilities.has(Capability::memory_swap), options.verify, work);
    load_kernels();
    if (needed.capabilities.has(Capability::padding)) load_padded();
    base_ = driver_.event();
  } catch (...) {
    release();
    throw;
  }
}

CudaBackend::~CudaBackend() { release(); }

/// No launch has a control or a ticket.
void CudaBackend::free_all() {
  free_controls_.clear(), free_tickets_.clear();
  for (std::uint32_t i = kControls; i-- > 0;) free_controls_.push_back(i);
  for (std::uint32_t i = 4 * kControls; i-- > 0;) free_tickets_.push_back(i);
  driver_.fill(control_stream_, controls_, 0, kControls * sizeof(Control));
}

void CudaBackend::check_gpu() const {
  const DeviceFacts f = driver_.facts();
  const Gpu& gpu = topology_.gpu;
  if ((f.sms == gpu.sms || (options_.part_of_gpu && f.sms < gpu.sms)) &&
      f.capability_major == gpu.compute_capability_major &&
      f.capability_minor == gpu.compute_capability_minor)
    return;
  throw InputError(
      "", "--backend=cuda",
      fmt::format("the trace is for {} ({} SMs), this GPU is {} ({} SMs)", gpu.name, gpu.sms, f.name, f.sms),
      "pass --gpu=NAME of the GPU in this machine");
}

void CudaBackend::load_kernels() {
  code_.resize(trace_.kernels.size());
  buffers_.resize(trace_.clients.size());
  for (std::uint32_t c = 0; c < trace_.clients.size(); ++c) {
    const Program& program = trace_.programs[trace_.clients[c].program.value];
    tails_.emplace_back(program.streams.size());
    held_.add_client(program.streams.size());
    std::uint64_t most = 0;
    key_of_op_.emplace_back(program.ops.size());
    for (std::uint32_t o = 0; o < program.ops.size(); ++o) {
      const Op& op = program.ops[o];
      if (const auto* copy = std::get_if<Copy>(&op.what)) most = std::max(most, copy->bytes);
      const auto* launch = std::get_if<corun::Launch>(&op.what);
      if (launch == nullptr) continue;
      const Kernel& kernel = trace_.kernels[launch->kernel.value];
      Code& code = code_[launch->kernel.value];
      if (code.kernel == nullptr) code.kernel = &work_.device_kernel(kernel);
      TraceMemory::Placed placed{launch->kernel.value, {}};
      if (memory_->has(c)) {
        placed = memory_->place(c, OpId{o}, kernel, *code.kernel);
        placed.key += static_cast<std::uint32_t>(trace_.kernels.size());
      }
      key_of_op_[c][o] = placed.key;
      Buffers& b = buffers_[c][placed.key];
      if (b.instance != nullptr) continue;
      const Workbench::Prepared& prepared = work_.prepared(*code.kernel, c + 1, control_stream_);
      b.instance = prepared.instance.get();
      b.expected = prepared.expected;
      prepare_ways(code, *b.instance, kernel.solo_time.value_or(Time{}));
      if (memory_->has(c)) {
        b.own = std::make_unique<Instance>(driver_, *code.kernel, std::move(placed.at));
        b.instance = b.own.get();
        memory_->fill_for(placed.key - static_cast<std::uint32_t>(trace_.kernels.size()), *b.instance, c + 1);
      } else {
        work_.poison(*b.instance, 0xa5, control_stream_);
      }
    }
    scratch_.push_back(most == 0 ? 0 : driver_.allocate(2 * most));
    host_scratch_.push_back(most == 0 ? HostMemory{} : driver_.allocate_host(most));
  }
}

/// Compiles what the policy may ask for, and tries what it leaves open.
void CudaBackend::prepare_ways(Code& code, Instance& instance, Time solo) {
  const LibraryKernel& k = *code.kernel;
  const std::uint32_t sms = topology_.gpu.sms, room = sms * work_.plain(k).blocks_per_sm;
  const auto fastest = [&](std::vector<Taking> takings) {
    return work_.fastest(instance, takings, sms, control_stream_);
  };
  if (preemptive_ && code.stoppable.code == nullptr)
    code.stoppable = fastest(stoppable_takings_for(k.blocks(), room, solo));
  if (seats_ && code.seated.code == nullptr)
    code.seated = fastest(sized_takings_for(k.blocks(), room, solo, true));
  if (!sizes_ || code.sized.code != nullptr) return;
  code.sized = code.whole = fastest(sized_takings_for(k.blocks(), room, solo));
  if (k.blocks() <= sms * code.sized.code->workers_per_sm)
    code.whole = fastest({code.sized.taking, {1, false, true}});
}

/// Each kernel of a real-time client with each of a best-effort one.
void CudaBackend::load_padded() {
  std::map<std::uint32_t, Instance*> real_time, best_effort;  // by KernelId
  for (std::uint32_t c = 0; c < trace_.clients.size(); ++c) {
    const std::vector<Op>& ops = trace_.programs[trace_.clients[c].program.value].ops;
    auto& of_class = trace_.clients[c].service_class == ServiceClass::real_time ? real_time : best_effort;
    for (std::size_t o = 0; o < ops.size(); ++o)
      if (const auto* launch = std::get_if<corun::Launch>(&ops[o].what))
        of_class.emplace(launch->kernel.value, buffers_[c].at(key_of_op_[c][o]).instance);
  }
  for (const auto& [a, instance] : real_time)
    for (const auto& [b, other] : best_effort) try {
        const LibraryKernel &first = *code_[a].kernel, &second = *code_[b].kernel;
        Pair pair{&work_.padded(first, second, false), nullptr};
        if (work_.faster_once(*instance, topology_.gpu.sms, control_stream_))
          pair.once = &work_.padded(first, second, true);
        padded_[{a, b}] = pair;
      } catch (
          const InputError&) {  // more shared memory than a block has, or not to be rewritten: refused later
      }
  for (const auto& [a, instance] : real_time) work_.poison(*instance, 0xa5, control_stream_);  // it was tried
}

void CudaBackend::release() noexcept {
  const auto attempt = [](auto&& what) {
    try {
      what();
    } catch (const std::exception&) {  // the context may be lost; the process gives all back at its end
    }
  };
  attempt([&] { close(); });
  memory_.reset();
  for (auto& of_client : buffers_) attempt([&] { of_client.clear(); });
  for (DevicePointer p : scratch_)
    if (p != 0) attempt([&] { driver_.free(p); });
  for (const HostMemory& m : host_scratch_)
    if (m.host != nullptr) attempt([&] { driver_.free(m); });
  for (const auto& [key, s] : streams_) attempt([&] { driver_.destroy(s); });
  if (control_stream_) attempt([&] { driver_.destroy(control_stream_); });
  for (Event e : events_) attempt([&] { driver_.destroy(e); });
  if (base_) attempt([&] { driver_.destroy(base_); });
  if (controls_ != 0) attempt([&] { driver_.free(controls_); });
  for (const HostMemory* m : {&tickets_, &progress_})
    if (m->host != nullptr) attempt([&] { driver_.free(*m); });
  scratch_.clear(), host_scratch_.clear(), streams_.clear(), events_.clear();
  control_stream_ = {}, base_ = {}, controls_ = 0, tickets_ = progress_ = {};
}

void CudaBackend::start() {
  driver_.record(base_, control_stream_);
  driver_.synchronize(control_stream_);
  epoch_ = driver_.now();
  now_ = last_event_ = Time{};
  // Where the GPU's times are on the host's clock: at the latest when the host sees what was written next.
  constexpr int kTries = 20;
  const Event e = take_event();
  base_at_ = kNever;
  for (int i = 0; i < kTries; ++i) {
    const std::uint32_t t = take_ticket();
    driver_.record(e, control_stream_);
    driver_.write(control_stream_, tickets_.device + 4 * t, 1);
    while (ticket(t) == 0) driver_.pause();
    const Time seen = driver_.now() - epoch_;
    driver_.synchronize(control_stream_);
    base_at_ = std::min(base_at_, seen - from_ns(driver_.milliseconds(base_, e) * 1e6));
    free_tickets_.push_back(t);
  }
  free_events_.push_back(e);
  const Time begin = driver_.now();
  base_at_ -= begin - epoch_;
  epoch_ = begin;
}

void CudaBackend::reset() {
  checks_each_ = false, begun_.clear();
  in_flight_.clear(), free_indices_.clear(), active_.clear(), index_of_.clear();
  clearing_.clear(), used_controls_.clear(), told_.clear();
  held_.clear();
  for (std::vector<Tail>& of_client : tails_) std::ranges::fill(of_client, Tail{});
  free_events_ = events_;
  free_all();
  for (std::map<std::uint32_t, Buffers>& of_client : buffers_)
    for (auto& [kernel, b] : of_client) {
      b.launches = 0;
      work_.poison(*b.instance, 0xa5, control_stream_);
    }
  driver_.synchronize(control_stream_);
  blocks_ = 0;
}

void CudaBackend::close() {
  for (std::uint32_t i : active_) {
    InFlight& f = in_flight_[i];
    if (f.state == InFlight::State::on_device && f.controlled && (!f.stopping || f.pads)) {
      f.stopping = true;
      command(f, kStop);
    }
  }
  for (const auto& [key, s] : streams_) driver_.synchronize(s);
  if (control_stream_) driver_.synchronize(control_stream_);
  for (std::uint32_t i : active_)
    if (InFlight& f = in_flight_[i]; !f.is_copy && f.state != InFlight::State::over) {
      f.record.finished = kNever;
      timeline_->record(f.record);
    }
  active_.clear();
}

std::vector<std::string> CudaBackend::verify() {
  memory_->bring_back();
  for (std::uint32_t c = 0; c < buffers_.size(); ++c)
    for (auto& [key, b] : buffers_[c]) check_results(c, b);
  wrong_.insert(wrong_.end(), memory_->wrong().begin(), memory_->wrong().end());
  return std::exchange(wrong_, {});
}

void CudaBackend::check_results(std::uint32_t client, Buffers& b) {
  if (b.launches == 0) return;
  ++verified_;
  if (work_.digest(*b.instance, control_stream_) == b.expected) return;
  const std::string how = work_.check(*b.instance, client + 1, control_stream_);
  wrong_.push_back(fmt::format("client {}, kernel {}: results differ from the plain kernel's{}{}",
                               trace_.clients[client].name, b.instance->kernel().name,
                               how.empty() ? "" : ": ", how));
}

/// Outputs are not cleared while a launch of another stream has part of its results there.
void CudaBackend::begin_check(const InFlight& f, Stream s) {
  Instance& instance = *buffers_of(f.launch).instance;
  auto& begun = begun_[&instance];
  const bool ours =
      std::ranges::all_of(begun, [&](const auto& other) { return other.second == f.launch.stream; });
  const std::vector<Buffer>& buffers = instance.kernel().buffers;
  for (std::uint32_t i = 0; ours && f.launch.blocks_done == 0 && i < buffers.size(); ++i)
    if (!buffers[i].input) work_.fill(instance, i, 0, s);
  begun[f.launch.id.serial] = f.launch.stream;
}

void CudaBackend::end_check(const InFlight& f) {
  Buffers& b = buffers_of(f.launch);
  auto& begun = begun_[b.instance];
  begun.erase(f.launch.id.serial);
  if (begun.empty()) check_results(f.launch.client.value, b);  // else the next may have cleared them
}

std::string CudaBackend::what_it_waits_for() const {
  std::string text =
      fmt::format("the GPU has made no progress for {:.0f} s; waiting for", to_seconds(options_.patience));
  if (memory_->moving()) text += " " + memory_->what_moves() + (active_.empty() ? "" : ",");
  std::uint32_t listed = 0;
  for (std::uint32_t i : active_) {
    const InFlight& f = in_flight_[i];
    if (++listed > 8) return text + " and more";
    text +=
        fmt::format("{} {} of client {} ({}", listed > 1 ? "," : "",
                    f.is_copy ? "a copy" : f.launch.kernel->name, trace_.clients[f.launch.client.value].name,
                    f.state == InFlight::State::waiting ? "held on the host"
                    : f.stopping                      ? "stopping"
                                                      : "on the device");
    if (f.controlled && f.state != InFlight::State::waiting)
      text += fmt::format(", {} of {} blocks taken", f.parameters.first + blocks_taken(f),
                          f.launch.kernel->blocks());
    text += ")";
  }
  return text;
}

}  // namespace corun::hw
