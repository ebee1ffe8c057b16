// How long a block runs beside others: the first contention model.
//
// A block alone at its kernel's solo residency takes the kernel's solo block time.  Every resident block
// demands a share of its SM's issue slots and of the GPU's DRAM bandwidth; where the shares that are resident
// when a block starts add up to more than there is, the block takes that much longer.  Integers throughout,
// so that results are the same anywhere.
//
// Leaves out: that arrival order decides who gets issue slots, caches, and a change of residents while a
// block runs. This is the seam at which a better model enters: everything else asks only `demand_of_block`
// and `block_time`.
#pragma once

#include <cstdint>

#include "traces/model/gpu.h"
#include "traces/model/kernel.h"
#include "traces/model/occupancy.h"
#include "traces/model/time.h"

namespace corun::sim {

struct BlockDemand {
  std::uint32_t issue = 0;  // of one SM's issue slots, 2^-20
  std::uint32_t dram = 0;   // of the GPU's DRAM bandwidth, 2^-32
};
inline constexpr std::uint64_t kFullIssue = std::uint64_t{1} << 20;
inline constexpr std::uint64_t kFullDram = std::uint64_t{1} << 32;

/// Warps on an SM at which a kernel without counters is taken to fill the issue slots: half of an H200's 64.
inline constexpr double kWarpsToFillIssue = 32;

/// A block's demand at the kernel's solo residency.  From the counters where there are any (issue_active_pct;
/// dram bytes over solo time); without them issue grows with resident warps up to kWarpsToFillIssue, and DRAM
/// is 0.
BlockDemand demand_of_block(const Kernel& kernel, Time solo_time, const Gpu& gpu);

/// `issue` and `dram` are the sums over the blocks resident on the SM and on the GPU, this one included.
inline Time block_time(Time alone, std::uint64_t issue, std::uint64_t dram) {
  if (issue <= kFullIssue && dram <= kFullDram) [[likely]]
    return alone;
  const double slow = issue * kFullDram > dram * kFullIssue ? static_cast<double>(issue) / kFullIssue
                                                            : static_cast<double>(dram) / kFullDram;
  return Time{static_cast<std::int64_t>(static_cast<double>(alone.count()) * slow)};
}

/// Time of one block such that the kernel alone on `sms` SMs lasts `solo_time`, given the dispatch rate and
/// the waves that its residency makes.  At least 1 ps: a kernel that ends faster than its blocks can be
/// dispatched is dispatch-bound.
Time solo_block_time(const Kernel& kernel, Time solo_time, const Gpu& gpu);

/// Length of a kernel alone whose blocks all take `block`: the inverse of the above.
Time solo_length(std::uint64_t blocks, std::uint64_t places, Time block, Time dispatch_interval);

}  // namespace corun::sim
