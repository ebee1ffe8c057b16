#include "hw/backend/cuda_backend.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "traces/model/error.h"

namespace corun::hw {
namespace {

constexpr std::size_t kReadBytes = 32;  // of a Control: all but the seats

std::string shape(Dim3 d) { return fmt::format("{} x {} x {}", d.x, d.y, d.z); }

}  // namespace

CapabilitySet cuda_capabilities() {
  return {Capability::order,    Capability::priority, Capability::tpc_mask,        Capability::cta_quota,
          Capability::sm_quota, Capability::progress, Capability::preempt_at_block};
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
      preemptive_(needed.capabilities.has(Capability::preempt_at_block)) {
  if (needed.capabilities.has(Capability::preempt_reset))
    throw InputError("", "--backend=cuda",
                     "the policy kills running blocks, which NVIDIA's driver does not allow",
                     "use a policy that stops kernels between blocks, as reef-n");
  check_gpu();
  try {
    control_stream_ = driver_.stream(driver_.facts().highest_priority, {});
    controls_ = driver_.allocate(kControls * sizeof(Control));
    driver_.fill(control_stream_, controls_, 0, kControls * sizeof(Control));
    progress_ = driver_.allocate_host(kControls * 4);
    tickets_ = driver_.allocate_host(4 * kControls * 4);
    read_back_ = driver_.allocate_host(kControls * kReadBytes);
    for (std::uint32_t i = kControls; i-- > 0;) free_controls_.push_back(i);
    for (std::uint32_t i = 4 * kControls; i-- > 0;) free_tickets_.push_back(i);
    driver_.synchronize(control_stream_);
    if (needed.capabilities.has(Capability::tpc_mask)) map_groups();
    load_kernels();
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
  if (f.sms == gpu.sms && f.capability_major == gpu.compute_capability_major &&
      f.capability_minor == gpu.compute_capability_minor)
    return;
  throw InputError(
      "", "--backend=cuda",
      fmt::format("the trace is for {} ({} SMs), this GPU is {} ({} SMs)", gpu.name, gpu.sms, f.name, f.sms),
      "pass --gpu=NAME of the GPU in this machine");
}

/// Which group of SMs, as the driver splits them, is which TPC: asked of a block in each.
void CudaBackend::map_groups() {
  const std::uint32_t groups = driver_.sm_groups();
  const Gpu& gpu = topology_.gpu;
  group_of_tpc_.assign(gpu.tpcs(), groups);
  for (std::uint32_t g = 0; g < groups; ++g) {
    const Partition p = driver_.partition(std::span(&g, 1));
    const Stream s = driver_.stream(0, p);
    DevicePointer to = tickets_.device;
    void* parameters[] = {&to};
    driver_.launch(work_.tool("where"), {1, 1, 1}, {32, 1, 1}, 0, s, parameters);
    driver_.synchronize(s);
    const std::uint32_t tpc = ticket(0) / gpu.sms_per_tpc;
    ticket(0) = 0;
    driver_.destroy(s);
    driver_.destroy(p);
    if (tpc < group_of_tpc_.size()) group_of_tpc_[tpc] = g;
  }
}

void CudaBackend::load_kernels() {
  code_.resize(trace_.kernels.size());
  buffers_.resize(trace_.clients.size());
  const std::uint32_t sms = topology_.gpu.sms;
  for (std::uint32_t c = 0; c < trace_.clients.size(); ++c) {
    const Program& program = trace_.programs[trace_.clients[c].program.value];
    lanes_.emplace_back(program.streams.size());
    std::uint64_t most = 0;
    for (const Op& op : program.ops) {
      if (const auto* copy = std::get_if<Copy>(&op.what)) most = std::max(most, copy->bytes);
      const auto* launch = std::get_if<corun::Launch>(&op.what);
      if (launch == nullptr) continue;
      const Kernel& kernel = trace_.kernels[launch->kernel.value];
      Code& code = code_[launch->kernel.value];
      if (code.kernel == nullptr) {
        code.kernel = find_kernel(kernel.name);
        if (code.kernel == nullptr)
          throw InputError(kernel.origin.file, kernel.origin.place,
                           fmt::format("there is no device code for kernel {}", kernel.name),
                           fmt::format("use one of {}", fmt::join(
                                                            [&] {
                                                              std::vector<std::string> names;
                                                              for (const LibraryKernel& k : kernel_library())
                                                                names.push_back(k.name);
                                                              return names;
                                                            }(),
                                                            ", ")));
        if (!(code.kernel->grid == kernel.grid) || !(code.kernel->block == kernel.block))
          throw InputError(kernel.origin.file, kernel.origin.place,
                           fmt::format("kernel {} has {} blocks of {} here and {} of {} in the library",
                                       kernel.name, shape(kernel.grid), shape(kernel.block),
                                       shape(code.kernel->grid), shape(code.kernel->block)),
                           "give it the library's shape");
        const Plain& plain = work_.plain(*code.kernel);
        code.taking =
            taking_for(code.kernel->blocks(), sms * plain.blocks_per_sm, kernel.solo_time.value_or(Time{}));
        code.persistent = &work_.persistent(*code.kernel, code.taking);
      }
      Buffers& b = buffers_[c][launch->kernel.value];
      if (b.instance) continue;
      b.instance = std::make_unique<Instance>(driver_, *code.kernel);
      work_.prepare(*b.instance, c + 1, control_stream_);
      work_.launch(*b.instance, control_stream_);
      b.expected = work_.digest(*b.instance, control_stream_);
      if (const std::string wrong = work_.check(*b.instance, c + 1, control_stream_); !wrong.empty())
        throw DriverError(
            fmt::format("kernel {}, alone and plain, gives wrong results: {}", kernel.name, wrong));
      work_.poison(*b.instance, 0xa5, control_stream_);
    }
    scratch_.push_back(most == 0 ? 0 : driver_.allocate(2 * most));
    host_scratch_.push_back(most == 0 ? HostMemory{} : driver_.allocate_host(most));
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
  for (auto& of_client : buffers_) attempt([&] { of_client.clear(); });
  for (DevicePointer p : scratch_)
    if (p != 0) attempt([&] { driver_.free(p); });
  for (const HostMemory& m : host_scratch_)
    if (m.host != nullptr) attempt([&] { driver_.free(m); });
  for (const auto& [key, s] : streams_) attempt([&] { driver_.destroy(s); });
  if (control_stream_) attempt([&] { driver_.destroy(control_stream_); });
  for (const auto& [groups, p] : partitions_) attempt([&] { driver_.destroy(p); });
  for (Event e : events_) attempt([&] { driver_.destroy(e); });
  if (base_) attempt([&] { driver_.destroy(base_); });
  if (controls_ != 0) attempt([&] { driver_.free(controls_); });
  for (const HostMemory* m : {&tickets_, &progress_, &read_back_})
    if (m->host != nullptr) attempt([&] { driver_.free(*m); });
  scratch_.clear(), host_scratch_.clear(), streams_.clear(), partitions_.clear(), events_.clear();
  control_stream_ = {}, base_ = {}, controls_ = 0, tickets_ = progress_ = read_back_ = {};
}

void CudaBackend::start() {
  driver_.record(base_, control_stream_);
  driver_.synchronize(control_stream_);
  epoch_ = driver_.now();
  base_at_ = now_ = last_event_ = Time{};
}

// ---- decisions --------------------------------------------------------------------------------------------

Outcome CudaBackend::apply(const Decision& decision, const LaunchView& view,
                           std::span<const LaunchId> follows) {
  if (const auto* d = std::get_if<decide::Launch>(&decision)) return launch(*d, view, follows);
  if (const auto* d = std::get_if<decide::Resize>(&decision)) return resize(*d, view);
  if (const auto* d = std::get_if<decide::Preempt>(&decision)) return preempt(*d, view, follows);
  if (std::holds_alternative<decide::Query>(decision)) return query(view);
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
  std::uint32_t sms = topology_.gpu.sms;
  if (d.tpc_mask) {
    f.groups = groups_of(*d.tpc_mask);
    if (f.groups.empty()) return Refused{"the mask has no TPC of this GPU"};
    if (f.groups.size() == topology_.gpu.tpcs()) f.groups.clear();
    if (!f.groups.empty()) sms = static_cast<std::uint32_t>(f.groups.size()) * topology_.gpu.sms_per_tpc;
  }
  const std::uint32_t room = sms * code.persistent->workers_per_sm;
  const auto blocks = static_cast<std::uint32_t>(l.kernel->blocks());
  const auto first = static_cast<std::uint32_t>(l.blocks_done);
  if (d.ctas != 0 || preemptive_ || first != 0) {
    f.workers = d.ctas != 0 ? d.ctas : std::min(room, blocks - first);
    f.parameters = launch_parameters(first, blocks, code.taking, std::min(f.workers, room));
    if (!d.ctas_per_sm.empty()) {
      if (d.ctas_per_sm.size() > topology_.gpu.sms) return Refused{"a quota for an SM that this GPU has not"};
      f.per_sm = d.ctas_per_sm;
      f.parameters.seated = 1, f.parameters.single = 0;
      f.workers = room;  // whoever finds no seat leaves
    }
    f.control = take_control();
    f.parameters.control = control_at(f.control);
    f.parameters.progress = progress_.device + 4 * f.control;
    progress(f.control) = 0;
  }
  KernelRecord& r = f.record;
  r.launch = l.id, r.client = l.client, r.stream = l.stream, r.op = l.op, r.kernel = l.kernel_id,
  r.request = l.request;
  r.priority = d.priority, r.ctas = d.ctas, r.ready = l.ready_at, r.submitted = now_, r.blocks = blocks;
  Lane& to = lane(l);
  to.waiting.push_back(add(std::move(f)));
  pump(to);
  return Applied{};
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
  if (d.ctas == 0) return Refused{"a persistent kernel keeps at least one CTA"};
  if (f->stopping) return Refused{"it is being stopped"};
  if (d.ctas_per_sm.empty() != f->per_sm.empty())
    return Refused{"a launch keeps to quotas per SM or to a total"};
  const Code& code = code_[l.kernel_id.value];
  if (f->state == Flight::State::waiting) {  // nothing of it is on the device yet
    f->launch.ctas = d.ctas;
    if (f->per_sm.empty()) f->workers = d.ctas;
    f->per_sm = d.ctas_per_sm;
    return Applied{};
  }
  if (f->state != Flight::State::on_device) return Refused{"it has ended"};
  const std::uint32_t room = topology_.gpu.sms * code.persistent->workers_per_sm;
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
    more = d.ctas > f->launch.ctas;
    fewer = d.ctas < f->launch.ctas;
  }
  if (fewer) {
    if (f->per_sm.empty()) {
      f->asked_to_leave += f->launch.ctas - d.ctas;
      driver_.write(control_stream_, control_at(f->control) + offsetof(Control, leave), f->asked_to_leave);
    }
    command(*f, ++f->commands);
  }
  if (more) {
    const std::uint32_t extra = f->per_sm.empty() ? d.ctas - f->launch.ctas : room;
    LaunchView at = f->launch;
    at.stream.value += 1000 * static_cast<std::uint32_t>(f->pieces.size());
    const Stream s = stream_for(at, f->priority, f->groups);
    driver_.wait(s, f->started);
    submit_workers(*f, s, extra);
    end_of_piece(*f, s);
  }
  f->launch.ctas = d.ctas;
  return Applied{};
}

Outcome CudaBackend::preempt(const decide::Preempt& d, const LaunchView& l,
                             std::span<const LaunchId> behind) {
  if (d.how == decide::Stop::reset) return Refused{"NVIDIA's driver does not let a running block be killed"};
  Flight* head = find(l.id);
  if (head == nullptr) return Refused{"it has ended"};
  if (head->workers == 0) return Refused{"it runs as a plain kernel"};
  std::vector<LaunchId> all{l.id};
  all.insert(all.end(), behind.begin(), behind.end());
  // First what runs; what waits on the host costs the GPU nothing.
  for (LaunchId id : all)
    if (Flight* f = find(id); f != nullptr && f->state == Flight::State::on_device && f->workers != 0) {
      f->stopping = true;
      command(*f, kStop);
    }
  Lane& of = lane(l);
  for (LaunchId id : all) {
    const auto found = flight_of_.find(id.serial);
    if (found == flight_of_.end() || flights_[found->second].state != Flight::State::waiting) continue;
    Flight& f = flights_[found->second];
    std::erase(of.waiting, found->second);
    std::erase(active_, found->second);
    if (f.workers != 0) free_controls_.push_back(f.control);  // never used
    f.state = Flight::State::over;
    told_.push_back(Preempted{id, f.launch.blocks_done});
    free_flights_.push_back(found->second);
    flight_of_.erase(found);
  }
  return Applied{};
}

Outcome CudaBackend::query(const LaunchView& l) {
  const Flight* f = find(l.id);
  if (f == nullptr || f->workers == 0) return Refused{"a plain kernel does not tell its progress"};
  const std::uint64_t taken = blocks_taken(*f), running = std::uint64_t{f->launch.ctas} * f->parameters.chunk;
  const std::uint64_t before = f->parameters.first;
  const Time now = driver_.now() - epoch_;
  told_.push_back(ProgressReported{l.id, before + (taken > running ? taken - running : 0), now});
  return Applied{};
}

std::uint64_t CudaBackend::blocks_taken(const Flight& f) const {
  return blocks_in(f.parameters, std::min(std::uint32_t{progress(f.control)}, f.parameters.chunks));
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
      if (preemptive_ || g.launch.ctas != 0 || g.state == Flight::State::waiting) return false;
    }
  for (std::uint32_t i : of.device)
    if (flights_[i].launch.ctas != 0) return false;
  if (!preemptive_) return true;
  if (f.is_copy) return of.device.empty();
  if (!of.device.empty() && flights_[of.device.back()].is_copy) return false;
  return of.device.size() < options_.device_queue;
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
  } else if (f.workers == 0) {
    work_.launch(*buffers_[f.launch.client.value].at(f.launch.kernel_id.value).instance, s);
  } else {
    const std::uint32_t workers = f.workers;
    f.workers = 0;
    submit_workers(f, s, workers);
  }
  f.state = Flight::State::on_device;
  driver_.record(f.ended, s);
  end_of_piece(f, s);
  of.last = s;
  of.last_ended = f.ended;
}

void CudaBackend::submit_workers(Flight& f, Stream s, std::uint32_t workers) {
  const Code& code = code_[f.launch.kernel_id.value];
  work_.launch(*buffers_[f.launch.client.value].at(f.launch.kernel_id.value).instance, *code.persistent,
               workers, f.parameters, s);
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
  Partition p;
  if (!groups.empty()) {
    Partition& known = partitions_[groups];
    if (!known) known = driver_.partition(groups);
    p = known;
  }
  return s = driver_.stream(priority, p);
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
    if (now >= until) {
      now_ = std::max(now_, now);
      return;
    }
    if (active_.empty()) {
      if (until == kNever) return;
      last_event_ = now;
    } else if (now - last_event_ > options_.patience) {
      throw Stalled(what_it_waits_for());
    }
    driver_.pause();
  }
}

void CudaBackend::look(std::vector<Notice>& notices) {
  for (std::size_t c = 0; c < clearing_.size();) {
    if (ticket(clearing_[c].ticket) == 0) {
      ++c;
      continue;
    }
    free_tickets_.push_back(clearing_[c].ticket);
    free_controls_.push_back(clearing_[c].control);
    clearing_.erase(clearing_.begin() + static_cast<std::ptrdiff_t>(c));
  }
  for (std::size_t a = 0; a < active_.size();) {
    const std::uint32_t i = active_[a];
    Flight& f = flights_[i];
    if (f.state == Flight::State::waiting) {
      ++a;
      continue;
    }
    if (f.workers != 0 && !f.last_told && !f.stopping && progress(f.control) == f.parameters.chunks) {
      f.last_told = true;
      f.record.last_block = driver_.now() - epoch_;
      notices.push_back(LastBlockStarted{f.launch.id});
    }
    if (!pieces_ended(f)) {
      ++a;
      continue;
    }
    if (f.stopping && f.state == Flight::State::on_device) {
      // How far it came: read once all its workers have left.
      f.state = Flight::State::reading;
      driver_.copy_to_host(control_stream_, static_cast<char*>(read_back_.host) + f.control * kReadBytes,
                           control_at(f.control), kReadBytes);
      end_of_piece(f, control_stream_);
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
  if (f.workers != 0) {
    if (f.stopping) {
      Control c;
      std::memcpy(static_cast<void*>(&c), static_cast<char*>(read_back_.host) + f.control * kReadBytes,
                  kReadBytes);
      const std::uint32_t chunks = chunks_done(c, f.workers, f.parameters.chunks);
      done = chunks == f.parameters.chunks;
      blocks_ += blocks_in(f.parameters, chunks);
      if (!done)
        notices.push_back(Preempted{id, f.parameters.first + std::uint64_t{blocks_in(f.parameters, chunks)}});
    }
    driver_.fill(control_stream_, control_at(f.control), 0, sizeof(Control));
    const std::uint32_t t = take_ticket();
    driver_.write(control_stream_, tickets_.device + 4 * t, 1);
    clearing_.push_back({f.control, t});
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
    ++buffers_[f.launch.client.value].at(f.launch.kernel_id.value).launches;
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
    if (f.state == Flight::State::on_device && f.workers != 0 && !f.stopping) {
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
  std::vector<std::string> wrong;
  for (std::uint32_t c = 0; c < buffers_.size(); ++c)
    for (auto& [kernel, b] : buffers_[c]) {
      if (b.launches == 0) continue;
      ++verified_;
      if (work_.digest(*b.instance, control_stream_) == b.expected) continue;
      const std::string how = work_.check(*b.instance, c + 1, control_stream_);
      wrong.push_back(fmt::format("client {}, kernel {}: results differ from the plain kernel's{}{}",
                                  trace_.clients[c].name, trace_.kernels[kernel].name,
                                  how.empty() ? "" : ": ", how));
    }
  return wrong;
}

std::string CudaBackend::what_it_waits_for() const {
  std::string text =
      fmt::format("the GPU has made no progress for {:.0f} s; waiting for", to_seconds(options_.patience));
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
    if (f.workers != 0 && f.state != Flight::State::waiting)
      text += fmt::format(", {} of {} blocks taken", f.parameters.first + blocks_taken(f),
                          f.launch.kernel->blocks());
    text += ")";
  }
  return text;
}

}  // namespace corun::hw
