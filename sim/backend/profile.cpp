#include "sim/backend/profile.h"

#include <algorithm>
#include <set>

#include "sim/model/kernel_model.h"
#include "sim/stages/compute_engine.h"

namespace corun::sim {

Profile profile_kernel(const Kernel& kernel, const Gpu& gpu) {
  const SmResources demand = demand_of(kernel, gpu.sm);
  const std::uint64_t most =
      std::min<std::uint64_t>(kernel.blocks(), std::uint64_t{gpu.sms} * room(capacity_of(gpu.sm), demand));
  std::set<std::uint64_t> counts{most};
  for (std::uint64_t c = 1; c < std::min<std::uint64_t>(gpu.sms, most); c *= 2) counts.insert(c);
  for (std::uint64_t c = gpu.sms; c < most; c += gpu.sms) counts.insert(c);

  Work work;
  const KernelModel model(kernel, kernel.solo_time.value_or(Time{}), gpu);
  work.block_alone = model.block_alone(gpu.sms);
  if (kernel.block_times.size() > 1) work.block_times = &kernel.block_times;
  work.load = model.load(gpu.sms);
  work.per_task = gpu.persistent_task;
  work.record.blocks = kernel.blocks();

  Profile profile;
  for (std::uint64_t ctas : counts) {
    Timeline nobody;
    ComputeEngine engine(gpu, nobody, {});
    work.ctas = static_cast<std::uint32_t>(ctas);
    engine.accept(work, 0, engine.mask_of(TpcMask::all()), demand);
    std::vector<EngineNotice> notices;
    while (engine.busy()) {
      notices.clear();
      engine.advance(kNever, notices);
    }
    profile.push_back(
        {work.ctas, engine.now(), std::min(work.ctas, gpu.sms), (work.ctas + gpu.sms - 1) / gpu.sms});
  }
  return profile;
}

}  // namespace corun::sim
