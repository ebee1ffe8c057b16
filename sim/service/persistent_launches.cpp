#include "sim/service/persistent_launches.h"

#include <algorithm>

#include "sim/backend/shapes.h"
#include "sim/service/service_view.h"

namespace corun::sim {

std::uint32_t attempts_of(Time solo) {
  constexpr Time kLong = std::chrono::microseconds(300), kEach = std::chrono::microseconds(500);
  return solo < kLong ? 0 : static_cast<std::uint32_t>(std::clamp<std::int64_t>(1 + solo / kEach, 2, 6));
}

std::uint32_t PersistentLaunches::workers(const Kernel& kernel) const {
  return gpu_.sms * max_active_blocks(capacity_of(gpu_.sm), demand_of_worker(kernel, gpu_));
}

void PersistentLaunches::called(const LaunchView& l) {
  if (l.kernel == nullptr || !l.kernel->ptx || l.kernel->cluster.count() != 1 || in_graph(trace_, l) ||
      trace_.clients[l.client.value].service_class != ServiceClass::best_effort ||
      !known_.contains({l.client.value, l.kernel_id.value}) || l.kernel->blocks() <= workers(*l.kernel))
    return;
  const auto* launch = l.operation == nullptr ? nullptr : std::get_if<Launch>(&l.operation->what);
  if (launch == nullptr || launch->dependent) return;
  if (const std::uint32_t attempts = attempts_of(l.solo_time); attempts != 0) left_[l.id.serial] = attempts - 1;
}

void PersistentLaunches::ended(const LaunchView& l) {
  if (l.kernel != nullptr && l.kernel->ptx) known_.insert({l.client.value, l.kernel_id.value});
  left_.erase(l.id.serial);
}

void PersistentLaunches::next_attempt(LaunchId launch) {
  if (const auto at = left_.find(launch.serial); at != left_.end() && at->second != 0) --at->second;
}

std::uint32_t PersistentLaunches::left(LaunchId launch) const {
  const auto at = left_.find(launch.serial);
  return at == left_.end() ? 0 : at->second;
}

}  // namespace corun::sim
