// A host program that issues for all clients with one thread, as hw/backend does: decisions, hand-overs and
// ends take its time, one after the other, and it hears of nothing meanwhile.  Under a policy that stops
// launches those of best-effort clients go through the host's queue (policies/session/host_queue.h).  Where
// clients are processes, each hands over by itself.
//
// Leaves out: what stopping, resizing and asking for progress cost the thread.
#include <algorithm>

#include "sim/backend/sim_backend.h"

namespace corun::sim {

/// When the call begins that hands the launch over; of one that is held, what deciding it takes.
Time SimBackend::call(const LaunchView& l) {
  if (!thread_) return now_;
  const Time from = std::max(now_, host_free_);
  if (process_free_.empty()) {
    host_free_ = from + (held_on_host(l) ? thread_->held_call : thread_->launch_call);
    return from;
  }
  host_free_ = from + thread_->held_call;
  Time& free = process_free_[l.client.value];
  const Time begins = std::max(host_free_, free);
  free = begins + thread_->hand_over;
  return begins;
}

void SimBackend::hold(const LaunchView& l, Submission&& submission) {
  HostLaunch held{l.id, l.solo_time, l.kernel == nullptr, true, l.ctas != 0, submission.follows};
  held_.hold(l.client, l.stream, std::move(held), std::move(submission));
}

void SimBackend::hand_over_held(ClientId client, Submission submission) {
  const Time from = std::max(now_, host_free_);
  host_free_ = from + thread_->hand_over;
  hand_over(std::move(submission), contexts_.place(client, StreamId{0}).context, from);
}

void SimBackend::heard(const Notice& notice) {
  if (!thread_) return;
  const auto over = [&](LaunchId launch) {
    host_free_ = std::max(now_, host_free_) + thread_->end_call;
    if (const auto client = held_.over(launch)) held_.hand_over_needed(*client);
  };
  if (const auto* kernel = std::get_if<KernelFinished>(&notice)) over(kernel->launch);
  if (const auto* copy = std::get_if<CopyFinished>(&notice)) over(copy->launch);
  if (const auto* preempted = std::get_if<Preempted>(&notice))
    if (!fates_[preempted->launch.slot].was_held) over(preempted->launch);
}

/// Whether it was held on the host, where it is no longer.
bool SimBackend::take_held(LaunchId launch) {
  if (!held_.take_back(launch)) return false;
  host_free_ = std::max(now_, host_free_) + thread_->take_back;
  return fates_[launch.slot].was_held = true;
}

}  // namespace corun::sim
