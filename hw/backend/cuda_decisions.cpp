// What a CudaBackend makes of each decision.
#include "hw/backend/cuda_backend.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace corun::hw {

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
  InFlight f;
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
    f.way = l.ctas == 0                ? &code.stoppable
            : !d.ctas_per_sm.empty()   ? &code.seated
            : l.ctas + first >= blocks ? &code.whole
                                       : &code.sized;
    if (f.way->code == nullptr) return Refused{"the policy has not said that it needs this"};
    const std::uint32_t room = places_for(f), fit = l.ctas != 0 ? std::min(l.ctas, room) : room;
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
  begin_record(f);
  hold(std::move(f));
  return Applied{};
}

void CudaBackend::begin_record(InFlight& f) const {
  const LaunchView& l = f.launch;
  KernelRecord& r = f.record;
  r.launch = l.id, r.client = l.client, r.stream = l.stream, r.op = l.op, r.kernel = l.kernel_id,
  r.request = l.request, r.priority = f.priority, r.ctas = l.ctas, r.ready = l.ready_at, r.submitted = now_,
  r.blocks = l.kernel->blocks();
}

Outcome CudaBackend::pad(const decide::LaunchPadded& d, const LaunchView& l, const LaunchView& padding,
                         std::span<const LaunchId> follows) {
  const auto found = padded_.find({l.kernel_id.value, padding.kernel_id.value});
  if (found == padded_.end()) return Refused{"these kernels are not compiled as one"};
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
  const auto& [looping, once] = found->second;
  const Padded& how = once != nullptr && once->workers_per_sm >= on_each ? *once : *looping;
  if (how.workers_per_sm < alone) return Refused{"as one kernel they have less room than the first alone"};
  InFlight f, g;
  for (const auto& [each, view, at, to] :
       {std::tuple(&f, &l, first, blocks), std::tuple(&g, &padding, from, end)}) {
    each->launch = *view;
    each->priority = d.priority;
    each->parameters = launch_parameters(at, to, {}, 1);
    control(*each);
    begin_record(*each);
  }
  f.follows.assign(follows.begin(), follows.end());
  f.padded = &how, f.padded_sms = d.sms;
  f.padded_on_each = std::min(on_each, how.workers_per_sm);
  g.stopping = g.pads = true;  // so that how far it came is asked for
  const std::uint32_t other = add(std::move(g));
  f.padding = other;
  hold(std::move(f));
  return Applied{};
}

void CudaBackend::control(InFlight& f) {
  f.controlled = true;
  f.control = take_control();
  f.parameters.control = control_at(f.control);
  f.parameters.progress = progress_.device + sizeof(Progress) * f.control;
  progress(f.control).taken = 0;
  progress(f.control).all_taken = 0;
  for (volatile std::uint32_t& at : progress(f.control).stopped_at) at = kNotStopped;
  for (volatile std::uint64_t& at : progress(f.control).seats) at = 0;
}

std::uint32_t CudaBackend::places_for(const InFlight& f) const {
  const Gpu& gpu = topology_.gpu;
  const auto sms = f.groups.empty() ? gpu.sms : static_cast<std::uint32_t>(f.groups.size()) * gpu.sms_per_tpc;
  return sms * f.way->code->workers_per_sm;
}

Outcome CudaBackend::copy(const LaunchView& l, std::span<const LaunchId> follows) {
  if (free_tickets_.size() < 16) return Refused{"too many copies are under way"};
  InFlight f;
  f.launch = l;
  f.follows.assign(follows.begin(), follows.end());
  f.is_copy = true;
  CopyRecord& r = f.copied;
  r.launch = l.id, r.client = l.client, r.stream = l.stream, r.op = l.op, r.request = l.request;
  const Copy& copy = std::get<Copy>(l.operation->what);
  r.bytes = copy.bytes;
  r.engine = static_cast<std::uint32_t>(copy.direction);
  hold(std::move(f));
  return Applied{};
}

Outcome CudaBackend::resize(const decide::Resize& d, const LaunchView& l) {
  InFlight* f = find(l.id);
  if (f == nullptr || f->launch.ctas == 0) return Refused{"not a persistent kernel"};
  const std::uint32_t ctas =
      std::accumulate(d.ctas_per_sm.begin(), d.ctas_per_sm.end(), d.ctas_per_sm.empty() ? d.ctas : 0u);
  if (ctas == 0) return Refused{"a persistent kernel keeps at least one CTA"};
  if (f->stopping) return Refused{"it is being stopped"};
  if (d.ctas_per_sm.empty() != f->per_sm.empty())
    return Refused{"a launch keeps to quotas per SM or to a total"};
  if (f->state == InFlight::State::waiting) {  // nothing of it is on the device yet
    f->launch.ctas = ctas;
    if (f->per_sm.empty() && !f->way->taking.once) {
      f->workers = ctas;
      f->parameters.single = f->parameters.chunks <= ctas;
    }
    f->per_sm = d.ctas_per_sm;
    return Applied{};
  }
  if (f->state != InFlight::State::on_device) return Refused{"it has ended"};
  const std::uint32_t room = places_for(*f);
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
    f->seats_taken = 0;
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
  if (more) send_workers(*f, f->per_sm.empty() ? ctas - f->launch.ctas : room);
  f->launch.ctas = ctas;
  return Applied{};
}

Outcome CudaBackend::preempt(const decide::Preempt& d, const LaunchView& l,
                             std::span<const LaunchId> behind) {
  if (d.how == decide::Stop::reset) return Refused{"NVIDIA's driver does not let a running block be killed"};
  InFlight* head = find(l.id);
  if (head == nullptr) return Refused{"it has ended"};
  if (!head->controlled) return Refused{"it runs as a plain kernel"};
  std::vector<LaunchId> all{l.id};
  all.insert(all.end(), behind.begin(), behind.end());
  // First what runs; what waits on the host costs the GPU nothing.
  std::vector<std::pair<DevicePointer, std::uint32_t>> stops;
  for (LaunchId id : all)
    if (InFlight* f = find(id); f != nullptr && f->state == InFlight::State::on_device && f->controlled) {
      f->stopping = true;
      stops.push_back({control_at(f->control) + offsetof(Control, command), kStop});
    }
  if (!stops.empty()) driver_.write(control_stream_, stops);
  for (LaunchId id : all) {
    const auto found = index_of_.find(id.serial);
    if (found == index_of_.end() || in_flight_[found->second].state != InFlight::State::waiting) continue;
    InFlight& f = in_flight_[found->second];
    held_.take_back(id);
    std::erase(active_, found->second);
    if (f.controlled) free_controls_.push_back(f.control);  // never used
    f.state = InFlight::State::over;
    told_.push_back(Preempted{id, f.launch.blocks_done});
    free_indices_.push_back(found->second);
    index_of_.erase(found);
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
  const InFlight* f = find(l.id);
  if (f == nullptr || !f->controlled) return Refused{"a plain kernel does not tell its progress"};
  const std::uint64_t taken = blocks_taken(*f), running = std::uint64_t{f->launch.ctas} * f->parameters.chunk;
  const std::uint64_t before = f->parameters.first;
  const Time now = driver_.now() - epoch_;
  told_.push_back(ProgressReported{l.id, before + (taken > running ? taken - running : 0), now});
  return Applied{};
}

std::uint64_t CudaBackend::blocks_taken(const InFlight& f) const {
  return blocks_in(f.parameters, std::min(std::uint32_t{progress(f.control).taken}, f.parameters.chunks));
}

void CudaBackend::command(InFlight& f, std::uint32_t value) {
  driver_.write(control_stream_, control_at(f.control) + offsetof(Control, command), value);
}

}  // namespace corun::hw
