#include "traces/model/mig.h"

#include <algorithm>

namespace corun {
namespace {

/// Tries the places of each of `instances` in turn beside those that are taken, a bit a memory slice.
bool place(std::span<const MigProfile* const> instances, std::uint32_t slices, std::uint64_t taken) {
  if (instances.empty()) return true;
  const MigProfile& profile = *instances.front();
  return std::ranges::any_of(profile.places, [&](std::uint32_t first) {
    if (first + profile.memory_slices > slices) return false;
    const std::uint64_t all = ~std::uint64_t{0};
    const std::uint64_t its = all >> (64 - profile.memory_slices) << first;
    return (taken & its) == 0 && place(instances.subspan(1), slices, taken | its);
  });
}

}  // namespace

const MigProfile* MigGeometry::find(const std::string& name) const {
  const auto found = std::ranges::find(profiles, name, &MigProfile::name);
  return found == profiles.end() ? nullptr : &*found;
}

bool MigGeometry::places(std::span<const MigProfile* const> instances) const {
  // The largest first: they have the fewest places.
  std::vector<const MigProfile*> sorted(instances.begin(), instances.end());
  std::ranges::stable_sort(sorted, {}, [](const MigProfile* p) { return p->places.size(); });
  return place(sorted, memory_slices, 0);
}

Gpu instance_of(const Gpu& whole, const MigGeometry& geometry, const MigProfile& profile) {
  Gpu gpu = whole;
  gpu.sms = profile.sms;
  gpu.placement_order.clear();
  for (std::uint32_t sm = 0; sm < profile.sms; ++sm) gpu.placement_order.push_back(SmId{sm});
  gpu.gpc_of_tpc.clear();
  gpu.memory_bytes = std::min(profile.memory_bytes, whole.memory_bytes);  // CUDA shows less than nvidia-smi
  gpu.copy_engines = profile.copy_engines;
  const auto share = [&](auto& value) {
    value = static_cast<std::remove_reference_t<decltype(value)>>(
        static_cast<double>(value) * profile.memory_slices / geometry.memory_slices);
  };
  share(gpu.l2_bytes);
  share(gpu.dram_bytes_per_second);
  Contention& c = gpu.contention;
  share(c.dram_read_bytes_per_second);
  share(c.dram_write_bytes_per_second);
  share(c.l2_read_bytes_per_second);
  share(c.l2_write_bytes_per_second);
  share(c.l2_own_bytes);
  share(c.l2_shared_bytes);
  share(c.l2_first_loss_bytes);
  share(c.l2_dirty_bytes);
  return gpu;
}

}  // namespace corun
