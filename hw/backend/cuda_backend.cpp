#include "hw/backend/cuda_backend.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <set>
#include <utility>

#include "traces/model/error.h"

namespace corun::hw {

CapabilitySet cuda_capabilities() {
  return {Capability::order,    Capability::priority, Capability::tpc_mask,         Capability::cta_quota,
          Capability::sm_quota, Capability::progress, Capability::preempt_at_block, Capability::padding,
          Capability::memory_swap};
}

// ---- setting up -------------------------------------------------------------------------------------------

CudaBackend::CudaBackend(const Trace& trace, const Gpu& gpu, const Requirements& needed, Timeline& timeline,
                         Workbench& work, CudaOptions options)
    : trace_(trace),
      topology_{gpu, cuda_capabilities()},
      timeline_(timeline),
      work_(work),
      driver_(work.driver()),
      options_(options),
      preemptive_(needed.capabilities.has(Capability::preempt_at_block)),
      sizes_(needed.capabilities.has(Capability::cta_quota) ||
             needed.capabilities.has(Capability::sm_quota)) {
  if (needed.capabilities.has(Capability::preempt_reset))
    throw InputError("", "--backend=cuda",
                     "the policy kills running blocks, which NVIDIA's driver does not allow",
                     "use a policy that stops kernels between blocks, as reef-n");
  check_gpu();
  try {
    control_stream_ = driver_.stream(driver_.facts().highest_priority, {});
    controls_ = driver_.allocate(kControls * sizeof(Control));
    driver_.fill(control_stream_, controls_, 0, kControls * sizeof(Control));
    progress_ = driver_.allocate_host(kControls * sizeof(Progress));
    tickets_ = driver_.allocate_host(4 * kControls * 4);
    for (std::uint32_t i = kControls; i-- > 0;) free_controls_.push_back(i);
    for (std::uint32_t i = 4 * kControls; i-- > 0;) free_tickets_.push_back(i);
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
    lanes_.emplace_back(program.streams.size());
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
  if (preemptive_ && code.stoppable.code == nullptr)
    code.stoppable = work_.fastest(instance, takings_for(k.blocks(), room, solo), sms, control_stream_);
  if (!sizes_ || code.sized.code != nullptr) return;
  const Taking taking = taking_for(k.blocks(), room, solo);
  code.sized = code.whole = {taking, &work_.persistent(k, taking)};
  const Taking takings[] = {taking, {1, false, true}};
  if (k.blocks() <= sms * code.sized.code->workers_per_sm)
    code.whole = work_.fastest(instance, takings, sms, control_stream_);
}

/// Each kernel of a real-time client with each of a best-effort one.
void CudaBackend::load_padded() {
  std::set<std::uint32_t> real_time, best_effort;
  for (std::uint32_t c = 0; c < trace_.clients.size(); ++c)
    for (const auto& [kernel, buffers] : buffers_[c])
      (trace_.clients[c].service_class == ServiceClass::real_time ? real_time : best_effort).insert(kernel);
  for (std::uint32_t a : real_time)
    for (std::uint32_t b : best_effort) try {
        padded_[{a, b}] = &work_.padded(*code_[a].kernel, *code_[b].kernel);
      } catch (
          const InputError&) {  // more shared memory than a block has, or not to be rewritten: refused later
      }
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
  flights_.clear(), free_flights_.clear(), active_.clear(), flight_of_.clear();
  clearing_.clear(), used_controls_.clear(), told_.clear();
  for (std::vector<Lane>& of_client : lanes_)
    for (Lane& of : of_client) of = {};
  free_events_ = events_;
  free_controls_.clear(), free_tickets_.clear();
  for (std::uint32_t i = kControls; i-- > 0;) free_controls_.push_back(i);
  for (std::uint32_t i = 4 * kControls; i-- > 0;) free_tickets_.push_back(i);
  driver_.fill(control_stream_, controls_, 0, kControls * sizeof(Control));
  for (std::map<std::uint32_t, Buffers>& of_client : buffers_)
    for (auto& [kernel, b] : of_client) {
      b.launches = 0;
      work_.poison(*b.instance, 0xa5, control_stream_);
    }
  driver_.synchronize(control_stream_);
  blocks_ = 0;
}

// ---- decisions --------------------------------------------------------------------------------------------

Outcome CudaBackend::apply(const Decision& decision, const LaunchView& view,
                           std::span<const LaunchId> follows) {
  if (const auto* d = std::get_if<decide::Launch>(&decision)) return launch(*d, view, follows);
  if (const auto* d = std::get_if<decide::Resize>(&decision)) return resize(*d, view);
  if (const auto* d = std::get_if<decide::Preempt>(&decision)) return preempt(*d, view, follows);
  if (std::holds_alternative<decide::Query>(decision)) return query(view);
  if (std::holds_alternative<decide::Allocate>(decision)) return memory_->allocate(view);
  if (const auto* d = std::get_if<decide::Checkpoint>(&decision)) return checkpoint(d->buffer);
  if (const auto* d = std::get_if<decide::Restore>(&decision)) return memory_->restore(d->buffer);
  return Refused{"not possible on this backend"};
}

Outcome CudaBackend::launch(const decide::Launch& d, const LaunchView& l, std::span<const LaunchId> follows) {
  const Code& code = code_[l.kernel_id.value];
  if (d.priority > 0 || d.priority < driver_.facts().highest_priority) return Refused{"no such priority"};
  if (free_controls_.empty() || free_tickets_.size() < 16) return Refused{"too many launches are under way"};
  Flight f;
  f.launch = l;
  f.follows.assign(follows.begin(), follows.end());
  f.priority = d.priority;
  if (d.tpc_mask) {
    f.groups = groups_of(*d.tpc_mask);
    if (f.groups.empty()) return Refused{"the mask has no TPC of this GPU"};
    if (f.groups.size() == topology_.gpu.tpcs()) f.groups.clear();
  }
  const auto blocks = static_cast<std::uint32_t>(l.kernel->blocks());
  const auto first = static_cast<std::uint32_t>(l.blocks_done);
  // Of a launch with numbers per SM, d.ctas may be left out; the view has their sum.
  if (l.ctas != 0 || stoppable(l) || first != 0) {
    f.way = l.ctas == 0                                         ? &code.stoppable
            : d.ctas_per_sm.empty() && l.ctas + first >= blocks ? &code.whole
                                                                : &code.sized;
    if (f.way->code == nullptr) return Refused{"the policy has not said that it needs this"};
    const std::uint32_t room = room_for(f), fit = l.ctas != 0 ? std::min(l.ctas, room) : room;
    f.parameters = launch_parameters(first, blocks, f.way->taking, fit);
    f.workers = l.ctas != 0 && !f.way->taking.once ? l.ctas : workers_of(f.parameters, f.way->taking, room);
    if (!d.ctas_per_sm.empty()) {
      if (d.ctas_per_sm.size() > topology_.gpu.sms) return Refused{"a quota for an SM that this GPU has not"};
      f.per_sm = d.ctas_per_sm;
      f.parameters.seated = 1, f.parameters.single = 0;
      f.workers = room;  // whoever finds no seat leaves
    }
    control(f);
  }
  KernelRecord& r = f.record;
  r.launch = l.id, r.client = l.client, r.stream = l.stream, r.op = l.op, r.kernel = l.kernel_id,
  r.request = l.request;
  r.priority = d.priority, r.ctas = l.ctas, r.ready = l.ready_at, r.submitted = now_, r.blocks = blocks;
  Lane& to = lane(l);
  to.waiting.push_back(add(std::move(f)));
  pump(to);
  return Applied{};
}

Outcome CudaBackend::pad(const decide::LaunchPadded& d, const LaunchView& l, const LaunchView& padding,
                         std::span<const LaunchId> follows) {
  const auto found = padded_.find({l.kernel_id.value, padding.kernel_id.value});
  if (found == padded_.end()) return Refused{"these kernels are not compiled as one"};
  const Padded& how = *found->second;
  const std::uint32_t sms = topology_.gpu.sms;
  if (d.priority > 0 || d.priority < driver_.facts().highest_priority) return Refused{"no such priority"};
  if (d.sms == 0 || d.sms >= sms || d.padding_blocks == 0)
    return Refused{"one of them has no SM or no block"};
  if (free_controls_.size() < 2 || free_tickets_.size() < 16)
    return Refused{"too many launches are under way"};
  const auto blocks = static_cast<std::uint32_t>(l.kernel->blocks()),
             others = static_cast<std::uint32_t>(padding.kernel->blocks()),
             first = static_cast<std::uint32_t>(l.blocks_done),
             from = static_cast<std::uint32_t>(padding.blocks_done);
  const auto end = static_cast<std::uint32_t>(std::min<std::uint64_t>(others, from + d.padding_blocks));
  const std::uint32_t alone = std::min(work_.plain(*code_[l.kernel_id.value].kernel).blocks_per_sm,
                                       (blocks - first + sms - 1) / sms),
                      on_each = (blocks - first + d.sms - 1) / d.sms;
  if (how.workers_per_sm < alone) return Refused{"as one kernel they have less room than the first alone"};
  Flight f, g;
  for (const auto& [flight, view, at, to] :
       {std::tuple(&f, &l, first, blocks), std::tuple(&g, &padding, from, end)}) {
    flight->launch = *view;
    flight->priority = d.priority;
    flight->parameters = launch_parameters(at, to, {}, 1);
    control(*flight);
    KernelRecord& r = flight->record;
    r.launch = view->id, r.client = view->client, r.stream = view->stream, r.op = view->op,
    r.kernel = view->kernel_id, r.request = view->request, r.priority = d.priority, r.ready = view->ready_at,
    r.submitted = now_, r.blocks = view->kernel->blocks();
  }
  f.follows.assign(follows.begin(), follows.end());
  f.padded = &how, f.padded_sms = d.sms;
  f.padded_on_each = std::min(on_each, how.workers_per_sm);
  g.stopping = g.pads = true;  // so that how far it came is asked for
  const std::uint32_t other = add(std::move(g));
  f.padding = other;
  Lane& to = lane(l);
  to.waiting.push_back(add(std::move(f)));
  pump(to);
  return Applied{};
}

void CudaBackend::control(Flight& f) {
  f.controlled = true;
  f.control = take_control();
  f.parameters.control = control_at(f.control);
  f.parameters.progress = progress_.device + sizeof(Progress) * f.control;
  progress(f.control).taken = 0;
  for (volatile std::uint32_t& at : progress(f.control).stopped_at) at = kNotStopped;
}

std::uint32_t CudaBackend::room_for(const Flight& f) const {
  const Gpu& gpu = topology_.gpu;
  const auto sms = f.groups.empty() ? gpu.sms : static_cast<std::uint32_t>(f.groups.size()) * gpu.sms_per_tpc;
  return sms * f.way->code->workers_per_sm;
}

Outcome CudaBackend::copy(const LaunchView& l, std::span<const LaunchId> follows) {
  if (free_tickets_.size() < 16) return Refused{"too many copies are under way"};
  Flight f;
  f.launch = l;
  f.follows.assign(follows.begin(), follows.end());
  f.is_copy = true;
  CopyRecord& r = f.copied;
  r.launch = l.id, r.client = l.client, r.stream = l.stream, r.op = l.op, r.request = l.request;
  const Copy& copy = std::get<Copy>(l.operation->what);
  r.bytes = copy.bytes;
  r.engine = static_cast<std::uint32_t>(copy.direction);
  Lane& to = lane(l);
  to.waiting.push_back(add(std::move(f)));
  pump(to);
  return Applied{};
}

Outcome CudaBackend::resize(const decide::Resize& d, const LaunchView& l) {
  Flight* f = find(l.id);
  if (f == nullptr || f->launch.ctas == 0) return Refused{"not a persistent kernel"};
  const std::uint32_t ctas =
      std::accumulate(d.ctas_per_sm.begin(), d.ctas_per_sm.end(), d.ctas_per_sm.empty() ? d.ctas : 0u);
  if (ctas == 0) return Refused{"a persistent kernel keeps at least one CTA"};
  if (f->stopping) return Refused{"it is being stopped"};
  if (d.ctas_per_sm.empty() != f->per_sm.empty())
    return Refused{"a launch keeps to quotas per SM or to a total"};
  if (f->state == Flight::State::waiting) {  // nothing of it is on the device yet
    f->launch.ctas = ctas;
    if (f->per_sm.empty() && !f->way->taking.once) f->workers = ctas;
    f->per_sm = d.ctas_per_sm;
    return Applied{};
  }
  if (f->state != Flight::State::on_device) return Refused{"it has ended"};
  const std::uint32_t room = room_for(*f);
  bool more = false, fewer = false;
  if (!f->per_sm.empty()) {
    for (std::size_t sm = 0; sm < topology_.gpu.sms; ++sm) {
      const auto of = [sm](const decide::CtasPerSm& q) { return sm < q.size() ? q[sm] : 0; };
      more |= of(d.ctas_per_sm) > of(f->per_sm);
      fewer |= of(d.ctas_per_sm) < of(f->per_sm);
    }
    std::vector<std::uint32_t> quotas(d.ctas_per_sm.begin(), d.ctas_per_sm.end());
    quotas.resize(kMostSms);
    driver_.copy_to_device(control_stream_, control_at(f->control) + offsetof(Control, quota), quotas.data(),
                           4 * kMostSms);
    driver_.synchronize(control_stream_);  // the copy reads our memory
    f->per_sm = d.ctas_per_sm;
  } else {
    more = ctas > f->launch.ctas;
    fewer = ctas < f->launch.ctas;
  }
  if (fewer) {
    if (f->per_sm.empty()) {
      f->asked_to_leave += f->launch.ctas - ctas;
      driver_.write(control_stream_, control_at(f->control) + offsetof(Control, leave), f->asked_to_leave);
    }
    command(*f, ++f->commands);
  }
  if (more) {
    const std::uint32_t extra = f->per_sm.empty() ? ctas - f->launch.ctas : room;
    LaunchView at = f->launch;
    at.stream.value += 1000 * static_cast<std::uint32_t>(f->pieces.size());
    const Stream s = stream_for(at, f->priority, f->groups);
    driver_.wait(s, f->started);
    submit_workers(*f, s, extra);
    end_of_piece(*f, s);
  }
  f->launch.ctas = ctas;
  return Applied{};
}

Outcome CudaBackend::preempt(const decide::Preempt& d, const LaunchView& l,
                             std::span<const LaunchId> behind) {
  if (d.how == decide::Stop::reset) return Refused{"NVIDIA's driver does not let a running block be killed"};
  Flight* head = find(l.id);
  if (head == nullptr) return Refused{"it has ended"};
  if (!head->controlled) return Refused{"it runs as a plain kernel"};
  std::vector<LaunchId> all{l.id};
  all.insert(all.end(), behind.begin(), behind.end());
  // First what runs; what waits on the host costs the GPU nothing.
  std::vector<std::pair<DevicePointer, std::uint32_t>> stops;
  for (LaunchId id : all)
    if (Flight* f = find(id); f != nullptr && f->state == Flight::State::on_device && f->controlled) {
      f->stopping = true;
      stops.push_back({control_at(f->control) + offsetof(Control, command), kStop});
    }
  if (!stops.empty()) driver_.write(control_stream_, stops);
  Lane& of = lane(l);
  for (LaunchId id : all) {
    const auto found = flight_of_.find(id.serial);
    if (found == flight_of_.end() || flights_[found->second].state != Flight::State::waiting) continue;
    Flight& f = flights_[found->second];
    std::erase(of.waiting, found->second);
    std::erase(active_, found->second);
    if (f.controlled) free_controls_.push_back(f.control);  // never used
    f.state = Flight::State::over;
    told_.push_back(Preempted{id, f.launch.blocks_done});
    free_flights_.push_back(found->second);
    flight_of_.erase(found);
  }
  return Applied{};
}

Outcome CudaBackend::checkpoint(BufferId buffer) {
  if (options_.verify) check_results_in(buffer);
  return memory_->checkpoint(buffer);
}

void CudaBackend::freed(BufferId buffer) {
  if (options_.verify) check_results_in(buffer);
  const auto kernels = static_cast<std::uint32_t>(trace_.kernels.size());
  for (std::uint32_t key : memory_->instances_in(buffer))
    buffers_[memory_->client_of(buffer)].at(kernels + key).launches = 0;
  memory_->release(buffer);
}

/// Before the buffer leaves the device.
void CudaBackend::check_results_in(BufferId buffer) {
  const auto kernels = static_cast<std::uint32_t>(trace_.kernels.size());
  const std::uint32_t client = memory_->client_of(buffer);
  for (std::uint32_t key : memory_->instances_in(buffer))
    if (memory_->complete(key)) check_results(client, buffers_[client].at(kernels + key));
}

Outcome CudaBackend::query(const LaunchView& l) {
  const Flight* f = find(l.id);
  if (f == nullptr || !f->controlled) return Refused{"a plain kernel does not tell its progress"};
  const std::uint64_t taken = blocks_taken(*f), running = std::uint64_t{f->launch.ctas} * f->parameters.chunk;
  const std::uint64_t before = f->parameters.first;
  const Time now = driver_.now() - epoch_;
  told_.push_back(ProgressReported{l.id, before + (taken > running ? taken - running : 0), now});
  return Applied{};
}

std::uint64_t CudaBackend::blocks_taken(const Flight& f) const {
  return blocks_in(f.parameters, std::min(std::uint32_t{progress(f.control).taken}, f.parameters.chunks));
}

void CudaBackend::command(Flight& f, std::uint32_t value) {
  driver_.write(control_stream_, control_at(f.control) + offsetof(Control, command), value);
}

// ---- towards the device -----------------------------------------------------------------------------------

std::uint32_t CudaBackend::add(Flight f) {
  std::uint32_t i = static_cast<std::uint32_t>(flights_.size());
  flight_of_[f.launch.id.serial] = free_flights_.empty() ? i : free_flights_.back();
  if (free_flights_.empty()) {
    flights_.push_back(std::move(f));
  } else {
    i = free_flights_.back();
    free_flights_.pop_back();
    flights_[i] = std::move(f);
  }
  active_.push_back(i);
  return i;
}

CudaBackend::Flight* CudaBackend::find(LaunchId id) {
  const auto found = flight_of_.find(id.serial);
  return found == flight_of_.end() ? nullptr : &flights_[found->second];
}

bool CudaBackend::may_go(const Flight& f, const Lane& of) const {
  for (LaunchId id : f.follows)
    if (const auto other = flight_of_.find(id.serial); other != flight_of_.end()) {
      const Flight& g = flights_[other->second];
      // What may be stopped or grow must have ended; else its event does.
      if (stoppable(g.launch) || g.launch.ctas != 0 || g.state == Flight::State::waiting) return false;
    }
  for (std::uint32_t i : of.device)
    if (flights_[i].launch.ctas != 0) return false;
  if (!stoppable(f.launch)) return true;
  if (f.is_copy) return of.device.empty();
  if (!of.device.empty() && flights_[of.device.back()].is_copy) return false;
  // A launch on the device's queue takes a few us to come off: no more than keep the GPU busy.
  if (of.device.size() >= options_.device_queue) return false;
  Time behind{};
  for (std::size_t i = 1; i < of.device.size(); ++i) behind += flights_[of.device[i]].launch.solo_time;
  return of.device.size() < 2 || behind < options_.queued_work;
}

void CudaBackend::pump(Lane& of) {
  while (!of.waiting.empty() && may_go(flights_[of.waiting.front()], of)) {
    const std::uint32_t i = of.waiting.front();
    of.waiting.pop_front();
    submit(flights_[i], of);
    of.device.push_back(i);
  }
}

void CudaBackend::submit(Flight& f, Lane& of) {
  const Stream s = stream_for(f.launch, f.priority, f.groups);
  if (of.last && !(of.last == s) && of.last_ended) driver_.wait(s, of.last_ended);
  for (LaunchId id : f.follows)
    if (Flight* before = find(id)) driver_.wait(s, before->ended);
  memory_->before(s, f.launch.uses);
  f.stream = s;
  f.started = take_event();
  f.ended = take_event();
  if (!f.per_sm.empty()) {
    std::vector<std::uint32_t> quotas(f.per_sm.begin(), f.per_sm.end());
    quotas.resize(kMostSms);
    driver_.copy_to_device(s, control_at(f.control) + offsetof(Control, quota), quotas.data(), 4 * kMostSms);
  }
  driver_.record(f.started, s);
  if (f.is_copy) {
    const Copy& c = std::get<Copy>(f.launch.operation->what);
    const DevicePointer device = scratch_[f.launch.client.value];
    const HostMemory& host = host_scratch_[f.launch.client.value];
    if (c.direction == CopyDirection::host_to_device) driver_.copy_to_device(s, device, host.host, c.bytes);
    if (c.direction == CopyDirection::device_to_host) driver_.copy_to_host(s, host.host, device, c.bytes);
    if (c.direction == CopyDirection::device_to_device)
      driver_.copy_on_device(s, device + c.bytes, device, c.bytes);
  } else if (f.padded != nullptr) {
    submit_padded(f, flights_[f.padding], s);
  } else if (f.way == nullptr) {
    work_.launch(*buffers_of(f.launch).instance, s);
  } else {
    const std::uint32_t workers = f.workers;
    f.workers = 0;
    submit_workers(f, s, workers);
  }
  f.state = Flight::State::on_device;
  driver_.record(f.ended, s);
  end_of_piece(f, s);
  if (f.padded != nullptr) {
    Flight& g = flights_[f.padding];
    driver_.record(g.ended, s);
    end_of_piece(g, s);
  }
  of.last = s;
  of.last_ended = f.ended;
}

void CudaBackend::submit_padded(Flight& f, Flight& g, Stream s) {
  PaddedParameters p;
  p.first = f.parameters, p.second = g.parameters;
  p.sms = f.padded_sms, p.per_sm = f.padded_on_each, p.seats = f.padded->workers_per_sm > f.padded_on_each;
  const auto instance = [&](const Flight& of) -> Instance& {
    return *buffers_of(of.launch).instance;
  };
  g.started = take_event(), g.ended = take_event();
  driver_.record(g.started, s);
  work_.launch(instance(f), instance(g), *f.padded, topology_.gpu.sms * f.padded->workers_per_sm, p, s);
  f.workers = g.workers = topology_.gpu.sms * f.padded->workers_per_sm;
  g.state = Flight::State::on_device;
}

void CudaBackend::submit_workers(Flight& f, Stream s, std::uint32_t workers) {
  work_.launch(*buffers_of(f.launch).instance, *f.way->code, workers, f.parameters, s);
  f.workers += workers;
}

/// The GPU writes a word when it gets here.
void CudaBackend::end_of_piece(Flight& f, Stream s) {
  f.pieces.push_back({take_ticket()});
  driver_.write(s, tickets_.device + 4 * f.pieces.back().ticket, 1);
}

Stream CudaBackend::stream_for(const LaunchView& l, std::int32_t priority,
                               const std::vector<std::uint32_t>& groups) {
  Stream& s = streams_[{l.client.value, l.stream.value, priority, groups}];
  if (s) return s;
  return s = driver_.stream(priority, groups.empty() ? Partition{} : work_.partition(groups));
}

std::vector<std::uint32_t> CudaBackend::groups_of(const TpcMask& mask) const {
  std::vector<std::uint32_t> groups;
  for (std::uint32_t tpc = 0; tpc < topology_.gpu.tpcs(); ++tpc)
    if (mask.allows(TpcId{tpc}) && tpc < group_of_tpc_.size()) groups.push_back(group_of_tpc_[tpc]);
  std::sort(groups.begin(), groups.end());
  return groups;
}

Event CudaBackend::take_event() {
  if (free_events_.empty()) {
    events_.push_back(driver_.event());
    return events_.back();
  }
  const Event e = free_events_.back();
  free_events_.pop_back();
  return e;
}
std::uint32_t CudaBackend::take_ticket() {
  if (free_tickets_.empty())
    throw DriverError("more launches and copies are under way than there are tickets");
  const std::uint32_t i = free_tickets_.back();
  free_tickets_.pop_back();
  ticket(i) = 0;
  return i;
}
std::uint32_t CudaBackend::take_control() {
  const std::uint32_t i = free_controls_.back();
  free_controls_.pop_back();
  return i;
}

// ---- from the device --------------------------------------------------------------------------------------

void CudaBackend::wait(Time until, std::vector<Notice>& notices) {
  const std::size_t before = notices.size();
  for (;;) {
    if (options_.interrupted != nullptr && options_.interrupted->load()) throw Interrupted("interrupted");
    const Time now = driver_.now() - epoch_;
    notices.insert(notices.end(), told_.begin(), told_.end());
    told_.clear();
    look(notices);
    if (notices.size() != before) {
      now_ = last_event_ = std::max(now_, now);
      return;
    }
    const bool idle = active_.empty() && !memory_->moving();
    if (idle)
      last_event_ = now;
    else if (now - last_event_ > options_.patience)
      throw Stalled(what_it_waits_for());
    if (now >= until) {
      now_ = std::max(now_, now);
      return;
    }
    if (idle && until == kNever) return;
    driver_.pause();
  }
}

/// All that have been used, at once: each filling is a launch of its own.
void CudaBackend::clear_controls() {
  clearing_.swap(used_controls_);
  std::sort(clearing_.begin(), clearing_.end());
  for (std::size_t from = 0, to = 0; from < clearing_.size(); from = to) {
    for (to = from + 1; to < clearing_.size() && clearing_[to] == clearing_[to - 1] + 1;) ++to;
    driver_.fill(control_stream_, control_at(clearing_[from]), 0, (to - from) * sizeof(Control));
  }
  clearing_ticket_ = take_ticket();
  driver_.write(control_stream_, tickets_.device + 4 * clearing_ticket_, 1);
}

void CudaBackend::look(std::vector<Notice>& notices) {
  memory_->look(notices);
  if (!clearing_.empty() && ticket(clearing_ticket_) != 0) {
    free_tickets_.push_back(clearing_ticket_);
    free_controls_.insert(free_controls_.end(), clearing_.begin(), clearing_.end());
    clearing_.clear();
  }
  for (std::size_t a = 0; a < active_.size();) {
    const std::uint32_t i = active_[a];
    Flight& f = flights_[i];
    if (f.state == Flight::State::waiting) {
      ++a;
      continue;
    }
    if (f.controlled && !f.last_told && !f.stopping && progress(f.control).taken == f.parameters.chunks) {
      f.last_told = true;
      f.record.last_block = driver_.now() - epoch_;
      notices.push_back(LastBlockStarted{f.launch.id});
    }
    if (!pieces_ended(f)) {
      ++a;
      continue;
    }
    active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(a));
    over(i, notices);
  }
}

bool CudaBackend::pieces_ended(Flight& f) {
  bool all = true;
  for (Piece& p : f.pieces) {
    if (!p.ended && ticket(p.ticket) != 0) {
      p.ended = true;
      free_tickets_.push_back(p.ticket);
    }
    all &= p.ended;
  }
  return all;
}

void CudaBackend::over(std::uint32_t index, std::vector<Notice>& notices) {
  Flight& f = flights_[index];
  const LaunchId id = f.launch.id;
  const Time started = gpu_time(f.started), ended = std::max(gpu_time(f.ended), started);
  bool done = true;
  if (f.controlled) {
    if (f.stopping) {
      const std::uint32_t chunks = chunks_done(progress(f.control), f.parameters.chunks);
      done = f.parameters.first + blocks_in(f.parameters, chunks) == f.launch.kernel->blocks();
      blocks_ += blocks_in(f.parameters, chunks);
      if (!done)
        notices.push_back(Preempted{id, f.parameters.first + std::uint64_t{blocks_in(f.parameters, chunks)}});
    }
    used_controls_.push_back(f.control);
    if (free_controls_.size() < kControls / 4 && clearing_.empty()) clear_controls();
  }
  if (done && f.is_copy) {
    f.copied.started = started, f.copied.finished = ended;
    timeline_.record(f.copied);
    notices.push_back(CopyFinished{id});
  } else if (done) {
    KernelRecord& r = f.record;
    r.queued = r.slotted = r.started = started;
    r.finished = ended;
    if (r.last_block == Time{} || r.last_block > ended) r.last_block = ended;
    timeline_.record(r);
    if (!f.stopping) blocks_ += r.blocks - f.parameters.first;
    ++buffers_of(f.launch).launches;
    notices.push_back(KernelFinished{id});
  }
  Lane& of = lane(f.launch);
  std::erase(of.device, index);
  if (of.last_ended == f.ended) of.last = {}, of.last_ended = {};  // nothing is before what comes next
  free_events_.push_back(f.started);
  free_events_.push_back(f.ended);
  f.state = Flight::State::over;
  flight_of_.erase(id.serial);
  free_flights_.push_back(index);
  // Its end may be what others wait for, in any stream of its client.
  for (Lane& other : lanes_[f.launch.client.value]) pump(other);
}

Time CudaBackend::gpu_time(Event e) { return base_at_ + from_ns(driver_.milliseconds(base_, e) * 1e6); }

void CudaBackend::close() {
  for (std::uint32_t i : active_) {
    Flight& f = flights_[i];
    if (f.state == Flight::State::on_device && f.controlled && (!f.stopping || f.pads)) {
      f.stopping = true;
      command(f, kStop);
    }
  }
  for (const auto& [key, s] : streams_) driver_.synchronize(s);
  if (control_stream_) driver_.synchronize(control_stream_);
  for (std::uint32_t i : active_)
    if (Flight& f = flights_[i]; !f.is_copy && f.state != Flight::State::over) {
      f.record.finished = kNever;
      timeline_.record(f.record);
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

std::string CudaBackend::what_it_waits_for() const {
  std::string text =
      fmt::format("the GPU has made no progress for {:.0f} s; waiting for", to_seconds(options_.patience));
  if (memory_->moving()) text += " " + memory_->what_moves() + (active_.empty() ? "" : ",");
  std::uint32_t listed = 0;
  for (std::uint32_t i : active_) {
    const Flight& f = flights_[i];
    if (++listed > 8) return text + " and more";
    text +=
        fmt::format("{} {} of client {} ({}", listed > 1 ? "," : "",
                    f.is_copy ? "a copy" : f.launch.kernel->name, trace_.clients[f.launch.client.value].name,
                    f.state == Flight::State::waiting ? "held on the host"
                    : f.stopping                      ? "stopping"
                                                      : "on the device");
    if (f.controlled && f.state != Flight::State::waiting)
      text += fmt::format(", {} of {} blocks taken", f.parameters.first + blocks_taken(f),
                          f.launch.kernel->blocks());
    text += ")";
  }
  return text;
}

}  // namespace corun::hw
