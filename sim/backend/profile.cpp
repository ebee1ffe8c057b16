#include "sim/backend/profile.h"

#include <algorithm>
#include <set>

#include "sim/model/kernel_model.h"
#include "sim/stages/compute_engine.h"

namespace corun::sim {
namespace {

Work work_of(const Kernel& kernel, const Gpu& gpu) {
  Work work;
  const KernelModel model(kernel, kernel.solo_time.value_or(Time{}), gpu);
  work.block_alone = model.block_alone(gpu.sms);
  if (kernel.block_times.size() > 1) work.block_times = &kernel.block_times;
  work.load = model.load(gpu.sms);
  work.per_task = model.persistent_task();
  work.record.blocks = kernel.blocks();
  return work;
}

Time length(const Work& work, const SmResources& demand, const Gpu& gpu) {
  Timeline nobody;
  ComputeEngine engine(gpu, nobody, {});
  engine.accept(work, 0, engine.mask_of(TpcMask::all()), demand);
  std::vector<EngineNotice> notices;
  while (engine.busy()) {
    notices.clear();
    engine.advance(kNever, notices);
  }
  return engine.now();
}

std::set<std::uint32_t> sm_counts(const Gpu& gpu) {
  std::set<std::uint32_t> counts{gpu.sms};
  for (std::uint32_t n = 1; n < gpu.sms; n *= 2) counts.insert(n);
  const std::uint32_t step = gpu.sms % 5 == 0 ? 5 : std::max(1u, gpu.sms / 8);
  for (std::uint32_t n = step; n < gpu.sms; n += step) counts.insert(n);
  return counts;
}

/// All up to 4, then two in each doubling; on the whole GPU all.
std::set<std::uint32_t> ctas_on_each(std::uint32_t most, bool whole_gpu) {
  std::set<std::uint32_t> counts{most};
  for (std::uint32_t n = 1; n < most; n = whole_gpu ? n + 1 : 2 * n) counts.insert(n);
  for (std::uint32_t n = 3; n < most; n *= 2) counts.insert(n);
  return counts;
}

constexpr std::uint64_t kRounds = 16;

}  // namespace

Profile profile_kernel(const Kernel& kernel, const Gpu& gpu, const Profile& known) {
  const SmResources demand = demand_of(kernel, gpu.sm);
  const std::uint64_t most =
      std::min<std::uint64_t>(kernel.blocks(), std::uint64_t{gpu.sms} * room(capacity_of(gpu.sm), demand));
  std::set<std::uint64_t> counts{most};
  for (std::uint64_t c = 1; c < std::min<std::uint64_t>(gpu.sms, most); c *= 2) counts.insert(c);
  for (std::uint64_t c = gpu.sms; c < most; c += gpu.sms) counts.insert(c);

  Work work = work_of(kernel, gpu);
  Profile profile;
  for (std::uint64_t ctas : counts) {
    work.ctas = static_cast<std::uint32_t>(ctas);
    ProfilePoint point{work.ctas, {}, std::min(work.ctas, gpu.sms), (work.ctas + gpu.sms - 1) / gpu.sms};
    if (std::any_of(known.begin(), known.end(), [&](const ProfilePoint& k) {
          return k.ctas == point.ctas && k.sms == point.sms && k.ctas_per_sm == point.ctas_per_sm;
        }))
      continue;
    point.time = length(work, demand, gpu);
    profile.push_back(point);
  }
  return profile;
}

Profile profile_by_sm(const Kernel& kernel, const Gpu& gpu) {
  const SmResources demand = demand_of(kernel, gpu.sm);
  const std::uint32_t most = room(capacity_of(gpu.sm), demand);
  Work work = work_of(kernel, gpu);
  Profile profile;
  for (const std::uint32_t sms : sm_counts(gpu)) {
    for (const std::uint32_t each : ctas_on_each(most, sms == gpu.sms)) {
      work.ctas = sms * each;
      work.spread.quota.assign(gpu.sms, 0);
      std::fill_n(work.spread.quota.begin(), sms, static_cast<std::uint16_t>(each));
      Time time;
      if (work.block_times != nullptr || kernel.blocks() <= 3 * kRounds * work.ctas) {
        work.record.blocks = kernel.blocks();
        time = length(work, demand, gpu);
      } else {
        work.record.blocks = kRounds * work.ctas;
        const Time once = length(work, demand, gpu);
        work.record.blocks *= 2;
        const Time twice = length(work, demand, gpu);
        const double more = static_cast<double>(kernel.blocks() - work.record.blocks) /
                            static_cast<double>(kRounds * work.ctas);
        time = twice + Time{static_cast<std::int64_t>(static_cast<double>((twice - once).count()) * more)};
      }
      profile.push_back({work.ctas, time, sms, each});
      if (work.ctas >= kernel.blocks()) break;  // more would find no block
    }
  }
  std::sort(profile.begin(), profile.end(), [](const ProfilePoint& a, const ProfilePoint& b) {
    return std::pair(a.ctas, a.sms) < std::pair(b.ctas, b.sms);
  });
  return profile;
}

}  // namespace corun::sim
