// The simulated host as one thread (HostThread): what it decides, holds and hears of.  Under a policy that stops
// launches those of best-effort clients go through the host's queue (policies/session/host_queue.h).
#include "sim/backend/sim_backend.h"

namespace corun::sim {

void SimBackend::hold(const LaunchView& l, Submission&& submission) {
  HostLaunch held{l.id, l.solo_time, l.kernel == nullptr, true, l.ctas != 0, submission.follows};
  held_.hold(l.client, l.stream, std::move(held), std::move(submission));
}

void SimBackend::hand_over_held(ClientId client, Submission submission) {
  hand_over(std::move(submission), contexts_.place(client, StreamId{0}).context, thread_.hand_over(now_));
}

void SimBackend::heard(const Notice& notice) {
  if (!thread_.takes_time()) return;
  const auto over = [&](LaunchId launch) {
    thread_.hear_of_end(now_);
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
  thread_.take_back(now_);
  return fates_[launch.slot].was_held = true;
}

}  // namespace corun::sim
