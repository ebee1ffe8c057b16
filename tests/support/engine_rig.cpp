#include "tests/support/engine_rig.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "sim/model/kernel_model.h"

namespace corun::sim {
namespace {

Timeline& attached(Timeline& timeline, Sink& sink) {
  timeline.attach(sink);
  return timeline;
}

}  // namespace

EngineRig::EngineRig(Gpu g, EngineOptions options, bool record_blocks)
    : gpu(std::move(g)), collected(record_blocks), engine(gpu, attached(timeline_, collected), options) {
  kernels_.reserve(1024);
}

LaunchId EngineRig::accept(const Kernel& k, const Arriving& how) {
  run_to(how.at);
  if (kernels_.size() == kernels_.capacity()) throw std::logic_error("too many launches for this rig");
  const auto n = static_cast<std::uint32_t>(kernels_.size());
  const Kernel& kept = kernels_.emplace_back(k);
  Work work;
  const SmMask allowed = engine.mask_of(how.mask);
  const KernelModel model(kept, kept.solo_time.value_or(Time{}), gpu);
  work.block_alone = model.block_alone(allowed.count());
  if (kept.block_times.size() > 1) work.block_times = &kept.block_times;
  work.load = model.load(allowed.count());
  work.ctas = how.ctas;
  if (!how.ctas_per_sm.empty())
    work.ctas = std::accumulate(how.ctas_per_sm.begin(), how.ctas_per_sm.end(), std::uint32_t{0});
  work.spread.quota = how.ctas_per_sm;
  if (work.ctas != 0) work.per_task = gpu.persistent_task;
  work.record.launch = LaunchId{n, n};
  work.record.kernel = how.kernel;
  work.record.blocks = kept.blocks();
  work.record.priority = how.priority;
  work.record.queued = engine.now();
  engine.accept(std::move(work),
                static_cast<std::uint32_t>(static_cast<std::int32_t>(gpu.priority_levels) - 1 + how.priority),
                allowed, demand_of(kept, gpu.sm));
  return {n, n};
}

void EngineRig::run_to(Time t) {
  std::vector<EngineNotice> notices;
  while (engine.now() < t) {
    notices.clear();
    engine.advance(t, notices);
  }
}

void EngineRig::run() {
  std::vector<EngineNotice> notices;
  while (engine.busy()) {
    if (engine.next_time() == kNever) throw std::logic_error("the engine is busy, and nothing will happen");
    notices.clear();
    engine.advance(kNever, notices);
  }
  engine.close();
  timeline_.flush();
}

const KernelRecord& EngineRig::record(LaunchId launch) const {
  const auto found = std::find_if(collected.kernels.begin(), collected.kernels.end(),
                                  [&](const KernelRecord& k) { return k.launch == launch; });
  if (found == collected.kernels.end()) throw std::logic_error("no such record");
  return *found;
}

}  // namespace corun::sim
