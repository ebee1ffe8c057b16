#include "sim/run/profile.h"

#include <algorithm>

#include "policies/session/profile_points.h"
#include "sim/model/kernel_model.h"
#include "sim/stages/compute_engine.h"

namespace corun::sim {
namespace {

Work work_of(const Kernel& kernel, const Gpu& gpu, const Shape* shape) {
  Work work;
  work.record.blocks = kernel.blocks();
  if (kernel.block_times.size() > 1) work.block_times = &kernel.block_times;
  if (shape != nullptr) {
    work.block_alone = shape->block_alone;
    work.load = shape->load;
    work.per_task = shape->persistent_task;
    return work;
  }
  const KernelModel model(kernel, kernel.solo_time.value_or(Time{}), gpu);
  work.block_alone = model.block_alone(gpu.sms);
  work.load = model.load(gpu.sms);
  work.per_task = model.persistent_task();
  return work;
}

Time length(const Work& work, const SmResources& demand, const Gpu& gpu, bool contention) {
  Timeline nobody;
  ComputeEngine engine(gpu, nobody, {.contention = contention});
  return length_alone(engine, work, engine.mask_of(TpcMask::all()), demand);
}

constexpr std::uint64_t kRounds = 16;

}  // namespace

Profile profile_kernel(const Kernel& kernel, const Gpu& gpu, const Profile& known, const Shape* shape, bool contention) {
  const SmResources demand = demand_of(kernel, gpu.sm);
  const std::uint64_t most = std::min<std::uint64_t>(
      kernel.blocks(), std::uint64_t{gpu.sms} * max_active_blocks(capacity_of(gpu.sm), demand));
  Work work = work_of(kernel, gpu, shape);
  Profile profile;
  Timeline nobody;
  ComputeEngine engine(gpu, nobody, {.contention = contention});
  for (ProfilePoint point : points_by_total(gpu.sms, static_cast<std::uint32_t>(most))) {
    work.ctas = point.ctas;
    if (std::any_of(known.begin(), known.end(), [&](const ProfilePoint& k) {
          return k.ctas == point.ctas && k.sms == point.sms && k.ctas_per_sm == point.ctas_per_sm;
        }))
      continue;
    point.time = length_alone(engine, work, engine.mask_of(TpcMask::all()), demand);
    profile.push_back(point);
  }
  return profile;
}

Profile profile_by_sm(const Kernel& kernel, const Gpu& gpu, const Shape* shape, bool contention) {
  const SmResources demand = demand_of(kernel, gpu.sm);
  const std::uint32_t most = max_active_blocks(capacity_of(gpu.sm), demand);
  Work work = work_of(kernel, gpu, shape);
  Profile profile = points_by_sm(gpu.sms, most, kernel.blocks());
  for (ProfilePoint& point : profile) {
    work.ctas = point.ctas;
    work.spread.quota.assign(gpu.sms, 0);
    std::fill_n(work.spread.quota.begin(), point.sms, static_cast<std::uint16_t>(point.ctas_per_sm));
    if (work.block_times != nullptr || kernel.blocks() <= 3 * kRounds * work.ctas) {
      work.record.blocks = kernel.blocks();
      point.time = length(work, demand, gpu, contention);
      continue;
    }
    work.record.blocks = kRounds * work.ctas;
    const Time once = length(work, demand, gpu, contention);
    work.record.blocks *= 2;
    const Time twice = length(work, demand, gpu, contention);
    const double more =
        static_cast<double>(kernel.blocks() - work.record.blocks) / static_cast<double>(kRounds * work.ctas);
    point.time = twice + Time{static_cast<std::int64_t>(static_cast<double>((twice - once).count()) * more)};
  }
  return profile;
}

}  // namespace corun::sim
