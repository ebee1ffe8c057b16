#include "policies/session/host_queue.h"

namespace corun {

bool must_have_ended(const HostLaunch& followed) { return followed.stoppable || followed.grows; }

bool may_go(const HostLaunch& next, std::span<const HostLaunch> device) {
  for (const HostLaunch& l : device)
    if (l.grows) return false;
  if (!next.stoppable) return true;
  if (next.copy) return device.empty();
  if (!device.empty() && device.back().copy) return false;
  if (device.size() >= kDeviceQueue) return false;
  Time behind{};
  for (std::size_t i = 1; i < device.size(); ++i) behind += device[i].solo;
  return device.size() < 2 || behind < kQueuedWork;
}

bool can_wait(const HostLaunch& next, std::span<const HostLaunch> device) {
  Time work{};
  for (const HostLaunch& l : device) work += l.solo;
  return next.stoppable && work >= kQueuedWork;
}

}  // namespace corun
