#include "sim/model/solo_length.h"

#include <algorithm>

#include "traces/model/expects.h"
#include "traces/model/occupancy.h"

namespace corun::sim {

Time solo_length(std::uint64_t blocks, std::uint64_t places, Time block, Time interval) {
  CORUN_EXPECTS(blocks != 0 && places != 0);
  CORUN_EXPECTS(block >= Time{} && interval >= Time{});
  // The first wave leaves the dispatcher one interval apart; each place is taken again as its block ends.  If
  // blocks are so short that the first places free up before the wave is out, the dispatcher never rests.
  if (blocks <= places || block < interval * static_cast<std::int64_t>(places))
    return interval * static_cast<std::int64_t>(blocks - 1) + block;
  const auto waves = static_cast<std::int64_t>((blocks - 1) / places);
  const auto last = static_cast<std::int64_t>((blocks - 1) % places);
  return std::max(interval * last + block * (waves + 1),
                  interval * static_cast<std::int64_t>(places - 1) + block * waves);
}

Time solo_block_time(const Kernel& kernel, Time solo_time, const Gpu& gpu, std::uint32_t sms) {
  const std::uint64_t n =
      std::uint64_t{sms} * max_active_blocks(capacity_of(gpu.sm), demand_of(kernel, gpu.sm));
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
