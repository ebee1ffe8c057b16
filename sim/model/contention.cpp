#include "sim/model/contention.h"

#include <algorithm>
#include <cmath>

namespace corun::sim {
namespace {

/// Blocks of the kernel that the GPU holds at once, alone.
std::uint64_t places(const Kernel& kernel, const Gpu& gpu) {
  return std::uint64_t{gpu.sms} * room(capacity_of(gpu.sm), demand_of(kernel, gpu.sm));
}

}  // namespace

BlockDemand demand_of_block(const Kernel& kernel, Time solo_time, const Gpu& gpu) {
  const std::uint64_t resident = std::min(kernel.blocks(), places(kernel, gpu));
  if (resident == 0) return {};
  const double per_sm = std::ceil(static_cast<double>(resident) / gpu.sms);
  const double warps = demand_of(kernel, gpu.sm).warps;
  const Counters& c = kernel.counters;
  const double issue =
      c.issue_active_pct ? *c.issue_active_pct / 100 : std::min(1.0, per_sm * warps / kWarpsToFillIssue);
  BlockDemand demand;
  demand.issue = static_cast<std::uint32_t>(issue / per_sm * static_cast<double>(kFullIssue));
  if (const double bytes = c.dram_read_bytes.value_or(0) + c.dram_write_bytes.value_or(0);
      bytes > 0 && solo_time.count() > 0 && gpu.dram_bytes_per_second > 0) {
    const double share = std::min(1.0, bytes / to_seconds(solo_time) / gpu.dram_bytes_per_second);
    demand.dram = static_cast<std::uint32_t>(share / static_cast<double>(resident) *
                                             (static_cast<double>(kFullDram) - 1));
  }
  return demand;
}

Time solo_length(std::uint64_t blocks, std::uint64_t places, Time block, Time interval) {
  // The first wave leaves the dispatcher one interval apart; each place is taken again as its block ends.  If
  // blocks are so short that the first places free up before the wave is out, the dispatcher never rests.
  if (blocks <= places || block < interval * static_cast<std::int64_t>(places))
    return interval * static_cast<std::int64_t>(blocks - 1) + block;
  const auto waves = static_cast<std::int64_t>((blocks - 1) / places);
  const auto last = static_cast<std::int64_t>((blocks - 1) % places);
  return std::max(interval * last + block * (waves + 1),
                  interval * static_cast<std::int64_t>(places - 1) + block * waves);
}

Time solo_block_time(const Kernel& kernel, Time solo_time, const Gpu& gpu) {
  const std::uint64_t n = places(kernel, gpu);
  Time low{1}, high = std::max(solo_time, low);  // solo_length grows with the block time: bisect
  while (low < high) {
    const Time middle = low + (high - low) / 2;
    if (solo_length(kernel.blocks(), n, middle, gpu.dispatch_interval) < solo_time)
      low = middle + Time{1};
    else
      high = middle;
  }
  return low;
}

}  // namespace corun::sim
