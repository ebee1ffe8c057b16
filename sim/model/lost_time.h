// Which resource a block loses its time to, beside others: issue slots, a pipe behind them, L2, DRAM or the clock.
//
// What is lost is the block's time less its time if the others were not there, with its launch's own blocks
// where they are.  Each subset of the resources gives a time between these two: the block shares what is in
// the subset, and has the rest as if the others were not there.  A resource is charged with what it adds to
// the time, in the mean over all orders in which the resources may be added (the value of Shapley).  So what
// is charged adds up to what is lost, and two resources that hide each other share it.
//
// Leaves out: where a block has fewer neighbours of its own launch than alone (that is a matter of places on
// SMs), and what others cost it before its first block starts.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "sim/model/contention.h"

namespace corun::sim {

/// Indices of `LostShares`.
inline constexpr std::size_t kAtIssue = 0, kAtPipes = 1, kAtL2 = 2, kAtDram = 3, kAtClock = 4;
inline constexpr std::size_t kSharedResources = 5;
/// Shares of a block's time, by resource.
using LostShares = std::array<double, kSharedResources>;

/// Blocks of one launch on an SM.
struct Sharer {
  const BlockLoad* load;
  std::uint32_t blocks;
  Met alone, beside;  // what they meet at the memory if the others were not there, and as it is
};
/// Of `sharers[which]`; the one with the older blocks first, `apart` as of `share_sm`.
LostShares lost_shares(std::span<const Sharer> sharers, std::size_t which, std::uint32_t apart,
                       const MemoryLimits& limits);

}  // namespace corun::sim
