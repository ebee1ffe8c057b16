// Taking launches off the simulated GPU, and padded launches.
//
// A Preempt sets a flag that every block reads when it starts, and, for a reset, makes the driver kill what
// runs then (Han et al., REEF, OSDI 2022, section 4; block by block: Basaran and Kang, ECRTS 2012). The
// host's queues are emptied; launches that have reached the GPU pass it, one by one and doing nothing, when
// what is before them in their stream is off. The streams' queues are emptied side by side.
//
// A padded launch is one grid: the launch on the first SMs, the padding on the others, both with the
// resources of the larger; it ends as a whole (section 5).
//
// Leaves out: the time of reading the flag while it is not set (under 0.3 %: section 4.1); that a padded
// launch takes one task slot, not two.
#include <algorithm>

#include "sim/backend/sim_backend.h"

namespace corun::sim {

/// From the host's write until the blocks see it.
Time SimBackend::flag_delay(std::uint32_t context, LaunchId launch) const {
  const Gpu& gpu = topology_.gpu;
  const PreemptionCosts& costs = gpu.preemption;
  switch (costs.flag_place) {
    case PreemptionCosts::FlagPlace::host: {
      const std::uint32_t polling = contexts_[context].engine->resident_blocks(launch);
      return costs.flag_host + costs.flag_host_block * (polling > 1 ? polling - 1 : 0);
    }
    case PreemptionCosts::FlagPlace::relay:
      return gpu.stop_flag;
    case PreemptionCosts::FlagPlace::copied:
      return costs.flag_copied;
  }
  return {};
}

Outcome SimBackend::preempt(const decide::Preempt& decision, const LaunchView& l,
                            std::span<const LaunchId> behind) {
  if (l.kernel == nullptr) return Refused{"a copy cannot be taken off the GPU"};
  const bool reset = decision.how == decide::Stop::reset;
  std::vector<LaunchId> launches{l.id};
  launches.insert(launches.end(), behind.begin(), behind.end());
  for (const LaunchId id : launches) {
    if (fates_[id.slot].padded) return Refused{"a padded launch cannot be taken off the GPU"};
    if (const Kernel* kernel = fates_[id.slot].kernel; reset && kernel != nullptr && !kernel->idempotent)
      return Refused{"kernel " + kernel->name + " is not idempotent"};
  }
  // What is held on the host comes off at once.
  const std::size_t all = launches.size();
  std::vector<LaunchId> held;
  std::erase_if(launches, [&](LaunchId id) { return take_held(id) && (held.push_back(id), true); });
  for (const LaunchId id : held) {
    told_.tell_now(Preempted{id, fates_[id.slot].done});
    ++fates_[id.slot].preemptions;
  }
  if (launches.empty()) {
    timeline_.record(
        PreemptionRecord{l.client, l.stream, reset, now_, now_, static_cast<std::uint32_t>(all)});
    return Applied{};
  }
  const std::uint32_t n = preemptions_.add({});
  Preemption& p = preemptions_[n];
  p.context = place(l).context;
  p.left = static_cast<std::uint32_t>(launches.size());
  p.record = PreemptionRecord{l.client, l.stream, reset, now_, kNever, static_cast<std::uint32_t>(all)};
  for (const LaunchId id : launches) fates_[id.slot].preemption = n;
  p.launches = std::move(launches);
  const PreemptionCosts& costs = topology_.gpu.preemption;
  const Time flag = flag_delay(p.context, l.id);
  queue_.schedule(now_ + costs.host_queue_reset, 1, PreemptionDue{PreemptionDue::Step::evict_host, n});
  queue_.schedule(now_ + flag, 0, PreemptionDue{PreemptionDue::Step::stop, n});
  if (reset)
    queue_.schedule(now_ + std::max(flag, costs.host_queue_reset) + costs.kill, 0, PreemptionDue{PreemptionDue::Step::kill, n});
  p.events = reset ? 3 : 2;
  return Applied{};
}

void SimBackend::handle(const PreemptionDue& event) {
  switch (event.step) {
    case PreemptionDue::Step::evict_host: return evict_host(event.preemption);
    case PreemptionDue::Step::stop: return stop(event.preemption);
    case PreemptionDue::Step::kill: return kill(event.preemption);
  }
}

/// The host's queues are empty: what had not reached the GPU will not.
void SimBackend::evict_host(std::uint32_t n) {
  const Preemption& p = preemptions_[n];
  std::vector<LaunchId> vanished;
  contexts_[p.context].host->evict(still_of(n), now_, false, vanished);
  for (const LaunchId id : vanished) {
    told_.tell_now(Preempted{id, fates_[id.slot].done});
    ++fates_[id.slot].preemptions;
    cleared(id);
  }
  pump_all(p.context);
  release(n);
}

/// The flag is seen: no further block starts, and what waits in the queues will pass.
void SimBackend::stop(std::uint32_t n) {
  const std::uint32_t context = preemptions_[n].context;
  const bool reset = preemptions_[n].record.reset;
  const std::vector<LaunchId> launches = still_of(n);
  std::vector<LaunchId> vanished;
  // Nothing vanishes: whatever is in a channel now passes, or the host evicts it yet.
  contexts_[context].host->evict(launches, kNever, true, vanished);
  for (const LaunchId id : launches)
    if (contexts_[context].engine->stop(id, reset)) taken_off(id);
  pump_all(context);
  release(n);
}

void SimBackend::kill(std::uint32_t n) {
  const std::uint32_t context = preemptions_[n].context;
  for (const LaunchId id : still_of(n))
    if (contexts_[context].engine->kill(id)) taken_off(id);
  release(n);
}

void SimBackend::carry_out(const EvictedPassed& passed) {
  Fate& fate = fates_[passed.launch.slot];
  ++fate.preemptions;
  tell_later(Preempted{passed.launch, fate.done});
  cleared(passed.launch);
  leave(passed.launch, passed.context, passed.stream, Time{});
}

/// A launch has left the SMs with blocks not done: by a Preempt, or as the padding of another.
void SimBackend::taken_off(LaunchId launch) {
  Fate& fate = fates_[launch.slot];
  const TakenOff off = contexts_[fate.context].engine->collect(launch);
  fate.record = std::make_unique<KernelRecord>(off.record);
  fate.done = off.done;
  fate.preemptions += !fate.padded;
  tell_later(Preempted{launch, off.done});
  cleared(launch);
  leave(launch, fate.context, fate.stream, next_late(fate.context, fate.stream));
}

/// Its launches that are neither off nor ended: others may have been launched again since.
std::vector<LaunchId> SimBackend::still_of(std::uint32_t n) const {
  std::vector<LaunchId> still;
  for (const LaunchId id : preemptions_[n].launches)
    if (fates_[id.slot].launch == id && fates_[id.slot].preemption == n) still.push_back(id);
  return still;
}

/// One launch of a preemption less to wait for.
void SimBackend::cleared(LaunchId launch) {
  const std::uint32_t n = fates_[launch.slot].preemption;
  if (n == Fate::kNone) return;
  fates_[launch.slot].preemption = Fate::kNone;
  Preemption& p = preemptions_[n];
  if (--p.left != 0) return;
  p.record.cleared = now_;
  timeline_.record(p.record);
  if (p.events == 0) preemptions_.take(n);
}

/// One event of a preemption is over.
void SimBackend::release(std::uint32_t n) {
  if (--preemptions_[n].events == 0 && preemptions_[n].left == 0) preemptions_.take(n);
}

Outcome SimBackend::pad(const decide::LaunchPadded& decision, const LaunchView& l, const LaunchView& padding,
                        std::span<const LaunchId> follows) {
  const Gpu& gpu = topology_.gpu;
  if (decision.priority > 0 || decision.priority <= -levels()) return Refused{"no such priority"};
  if (decision.sms == 0 || decision.sms >= gpu.sms) return Refused{"one of the two would have no SM"};
  if (decision.padding_blocks == 0) return Refused{"no blocks to pad with"};
  const StreamPlace at = place(l);
  if (place(padding).context != at.context) return Refused{"the padding is of another context"};
  if (contexts_[at.context].host->full(at.stream)) return Refused{"the stream's hardware channel is full", true};
  SmMask mine, rest;
  for (std::uint32_t rank = 0; rank < gpu.sms; ++rank) (rank < decision.sms ? mine : rest).set(rank);
  Submission submission;
  auto& kernel = std::get<Submission::Kernel>(submission.what);
  auto other = std::make_unique<Submission::Kernel>();
  prepare(kernel, l, shapes_->of(l, mine.count()), decision.priority, mine, now_);
  prepare(*other, padding, shapes_->of(padding, rest.count()), decision.priority, rest, now_);
  const SmResources larger = larger_of(kernel.demand, other->demand);
  if (max_active_blocks(capacity_of(gpu.sm), larger) == 0)
    return Refused{"no SM holds a block as large as either needs"};
  other->last = std::min(other->first + decision.padding_blocks, other->record.blocks);
  for (Submission::Kernel* k : {&kernel, other.get()}) {
    k->demand = larger;
    k->controlled = true;
    const double extra =
        static_cast<double>(k->block_alone.count()) * (gpu.preemption.padding_cost_ratio - 1);
    k->per_task = Time{static_cast<std::int64_t>(extra)};
  }
  kernel.padding = std::move(other);
  submit(l, follows, std::move(submission));
  fates_.renew(padding, at.context, place(padding).stream);
  for (const LaunchId id : {l.id, padding.id}) fates_[id.slot].padded = true;
  contexts_[at.context].host->hold(place(padding).stream);
  return Applied{};
}

}  // namespace corun::sim
