// A host program that issues for all clients with one thread, as hw/backend does: decisions, hand-overs and
// ends take its time, one after the other, and it hears of nothing meanwhile.  Under a policy that stops
// launches those of best-effort clients are held on the host until few are before them in their stream; what
// the GPU has no need of yet is handed over when nothing else is to be done.  Where clients are processes,
// each hands over by itself.
//
// Leaves out: what stopping, resizing and asking for progress cost the thread.
#include <algorithm>

#include "sim/backend/sim_backend.h"

namespace corun::sim {
namespace {

// Of a stream, so many launches, or, but two, so much work, are on the device: hw/backend's `CudaOptions`.
constexpr std::size_t kDeviceQueue = 3;
constexpr Time kQueuedWork = std::chrono::microseconds(25);

}  // namespace

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

bool SimBackend::may_go(const Lane& lane) const {
  if (lane.held.empty()) return false;
  const auto& [next, submission] = lane.held.front();
  // What it follows in other streams may be stopped, so it must have ended.
  for (LaunchId id : submission.follows)
    if (const Fate& fate = fates_[id.slot]; fate.launch == id && fate.end == kNever) return false;
  if (next.copy) return lane.device.empty();
  if (!lane.device.empty() && lane.device.back().copy) return false;
  if (lane.device.size() >= kDeviceQueue) return false;
  Time behind{};
  for (std::size_t i = 1; i < lane.device.size(); ++i) behind += lane.device[i].solo;
  return lane.device.size() < 2 || behind < kQueuedWork;
}

bool SimBackend::can_wait(const Lane& lane) const {
  Time work{};
  for (const Lane::OnDevice& on : lane.device) work += on.solo;
  return work >= kQueuedWork;
}

void SimBackend::hand_over(std::uint32_t client, Lane& lane) {
  const Time from = std::max(now_, host_free_);
  host_free_ = from + thread_->hand_over;
  auto [next, submission] = std::move(lane.held.front());
  lane.held.pop_front();
  lane.device.push_back(next);
  hand_over(std::move(submission), contexts_.place(ClientId{client}, StreamId{0}).context, from);
}

void SimBackend::hand_over_what_is_needed(std::uint32_t client) {
  for (Lane& lane : lanes_[client])
    while (may_go(lane) && !can_wait(lane)) hand_over(client, lane);
}

/// One of those that can wait.  False: there is none.
bool SimBackend::hand_over_one() {
  for (std::uint32_t client = 0; client < lanes_.size(); ++client)
    for (Lane& lane : lanes_[client])
      if (may_go(lane)) {
        hand_over(client, lane);
        return true;
      }
  return false;
}

void SimBackend::heard(const Notice& notice) {
  if (lanes_.empty()) return;
  const auto over = [&](LaunchId launch) {
    host_free_ = std::max(now_, host_free_) + thread_->end_call;
    for (std::uint32_t client = 0; client < lanes_.size(); ++client)
      for (Lane& lane : lanes_[client])
        if (std::erase_if(lane.device, [&](const Lane::OnDevice& on) { return on.launch == launch; }) != 0)
          hand_over_what_is_needed(client);
  };
  if (const auto* kernel = std::get_if<KernelFinished>(&notice)) over(kernel->launch);
  if (const auto* copy = std::get_if<CopyFinished>(&notice)) over(copy->launch);
  if (const auto* preempted = std::get_if<Preempted>(&notice))
    if (!fates_[preempted->launch.slot].was_held) over(preempted->launch);
}

/// Whether it was held on the host, where it is no longer.
bool SimBackend::take_held(LaunchId launch) {
  for (std::vector<Lane>& of_client : lanes_)
    for (Lane& lane : of_client)
      if (std::erase_if(lane.held, [&](const auto& h) { return h.first.launch == launch; }) != 0)
        return host_free_ = std::max(now_, host_free_) + thread_->take_back,
               fates_[launch.slot].was_held = true;
  return false;
}

}  // namespace corun::sim
