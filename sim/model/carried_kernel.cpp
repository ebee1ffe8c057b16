#include "sim/model/carried_kernel.h"

#include <algorithm>

#include "sim/model/kernel_fit.h"
#include "sim/model/other_card.h"

namespace corun::sim {
namespace {

constexpr int kSurvivalRounds = 10;
/// Of what L2 may keep dirty, from which on a launch is taken to have left as much as it may.
constexpr double kLeftAll = 0.999;

/// Bytes that DRAM moves more than here.
struct Traffic {
  double read = 0, written = 0;

  Counters with(Counters c) const {
    if (c.dram_read_bytes) *c.dram_read_bytes += read;
    if (c.dram_write_bytes) *c.dram_write_bytes += written;
    if (c.l2_bytes) *c.l2_bytes += kFillsCounted * (read + written);
    return c;
  }
};

/// What an L2 of another size makes of one launch: more or fewer of its re-reads survive there, and more or
/// less of what it has written is still there at its end.
Traffic traffic_there(const KernelFeatures& here, const Gpu& to) {
  Traffic more;
  const Counters& c = here.kernel.counters;
  const BlockLoad& load = here.load;
  if (!c.dram_read_bytes || !c.dram_write_bytes || load.memory.l2_read_bytes <= 0) return more;
  const MemoryLimits there = limits_of(to);

  const double left = std::max(0.0, load.memory.write_bytes * load.extent.blocks - *c.dram_write_bytes);
  const bool all = left >= kLeftAll * here.limits.l2.dirty_bytes;
  const double left_there = all ? there.l2.dirty_bytes : std::min(left, there.l2.dirty_bytes);
  more.written = std::max(left - left_there, -*c.dram_write_bytes);

  if (load.memory.reread_bytes <= 0) return more;
  const double moved = *c.dram_read_bytes + load.memory.write_bytes * load.extent.blocks;
  const double before = here.spared(moved, here.measured_sms, here.limits);
  for (int i = 0; i < kSurvivalRounds; ++i)
    more.read = load.memory.reread_bytes * load.extent.blocks * (before - here.spared(moved + more.read, to.sms, there));
  return more;
}

/// Of a lone access.
double l2_latency(const MemoryLimits& m) { return m.dram.latency_ps / m.dram.over_l2_ratio; }

/// What bytes cost beside streamed ones is the opening of rows, which takes DRAM of any data rate as long.
double dram_cost_there(double cost, const MemoryLimits& here, const MemoryLimits& there) {
  return cost > 1 ? 1 + (cost - 1) * there.dram.read_bytes_per_ps / here.dram.read_bytes_per_ps : cost;
}

Kernel with(Kernel kernel, const Counters& counters) {
  kernel.counters = counters;
  return kernel;
}

/// Without what its launch takes.
double work(const KernelFeatures& f, const BlockLoad& load, std::uint32_t sms) {
  return length(f, load, sms) - f.limits.sm.launch_cost_ps;
}

}  // namespace

CarriedKernel::CarriedKernel(const Kernel& kernel, Time alone, Time about, const Gpu& from, const Gpu& to)
    : here_(kernel, alone, from),
      counters_(traffic_there(here_.features(), to).with(kernel.counters)),
      there_(with(kernel, traffic_there(here_.features(), to).with(here_.features().kernel.counters)), about,
             to),
      load_(there_.load) {
  const BlockLoad &found = here_.fitted(), &told = here_.features().load;
  if (!here_.features().counted() || !there_.counted() || told.memory.l2_ps <= 0 || load_.memory.l2_ps <= 0 ||
      there_.max_active_blocks == 0)
    return;
  const double clock = from.clock_hz / to.clock_hz;
  PipeUse uses = found.sm.uses;
  uses[kFp64] *= ratios_of(from, to).fp64;
  const double most = *std::ranges::max_element(uses);
  for (double& use : uses) use /= most;
  load_.sm.issue_ps = found.sm.issue_ps * clock * most;
  load_.sm.fixed_ps = found.sm.fixed_ps * clock;
  load_.memory.wait_ps = found.memory.wait_ps * l2_latency(there_.limits) / l2_latency(here_.features().limits);
  load_.memory.l2_ps *= found.memory.l2_ps / told.memory.l2_ps;
  if (found.memory.uncached_share > told.memory.uncached_share) load_.memory.uncached_share = 1, load_.memory.staged = false;  // nor is it in L2 there
  load_.memory.dram_cost_ratio = dram_cost_there(found.memory.dram_cost_ratio, here_.features().limits, there_.limits);
  load_.sm.arrival_randomness = found.sm.arrival_randomness;
  load_.sm.uses = uses;
  load_.sm.processor_sharing = found.sm.processor_sharing;
  known_ = work(here_.features(), found, from.sms) > 0 && work(there_, load_, to.sms) > 0;
}

double CarriedKernel::ratio(std::uint32_t had, std::uint32_t has) const {
  return work(there_, load_, has) / work(here_.features(), here_.fitted(), had);
}

}  // namespace corun::sim
