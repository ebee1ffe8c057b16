// A task as the hardware sees it (a TMD): a grid, or one instance of a persistent kernel, with what is left
// of it to dispatch.  And the launch it belongs to, whose blocks several instances may share.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/model/contention.h"
#include "sim/stages/sm_mask.h"
#include "traces/model/occupancy.h"
#include "traces/timeline/timeline.h"

namespace corun::sim {

using WorkId = Id<struct WorkTag>;  // index into LaunchTable
using TaskId = Id<struct TaskTag>;  // index into TaskTable

constexpr TaskId kNoTask{~std::uint32_t{0}};
constexpr std::uint32_t kNoBlock = ~std::uint32_t{0};  // of a worker that finds none to take

/// A persistent launch with a number of CTAs per SM, by fulfil and retreat (Chen, smCompactor,
/// section 4.3.4): instances of one full residency of workers are placed by the hardware as it likes; a
/// worker that lands on an SM where it is not wanted gives its place back.
struct Spread {
  std::vector<std::uint16_t> quota;    // by SmId as given, by rank once accepted; empty: no such launch
  std::vector<std::uint16_t> held;     // by rank: workers that stay
  std::vector<std::uint16_t> running;  // by rank: blocks
  std::uint32_t level = 0;             // what further instances are like
  SmMask allowed;
  SmResources demand;
  std::uint32_t carveout = 0;
  std::uint32_t workers = 0;  // of an instance
  /// How far workers of the newest instance have come: one has found a place, and one is where it is wanted.
  enum class Newest : std::uint8_t { waiting, landed, stayed } newest = Newest::waiting;
  bool trying = false;        // an instance is under way
  Time came{-1};              // when the newest instance reached the TMU
  Time filled{};              // by when the dispatcher has placed the newest instance if there is room

  bool wanted(std::uint32_t rank) const { return held[rank] < quota[rank]; }
  bool missing() const {
    for (std::size_t rank = 0; rank < held.size(); ++rank)
      if (held[rank] < quota[rank]) return true;
    return false;
  }
  bool surplus() const {
    for (std::size_t rank = 0; rank < held.size(); ++rank)
      if (held[rank] > quota[rank]) return true;
    return false;
  }
};

/// A block's time alone as the GPU's condition made it longer, ps: at the highest clock, and at the clock that
/// the launch met.  What is in L2 makes it what the load has.  Zero where the launch does not contend.
struct TimesAlone {
  double fast = 0, slow = 0;
};

/// One launch on the GPU: which blocks have been taken and done.
struct Work {
  KernelRecord record;
  Time block_alone{};                              // time of one block when the launch is alone
  const std::vector<Time>* block_times = nullptr;  // where they differ by block
  BlockLoad load;
  TimesAlone times_alone;
  Time per_task{};  // a persistent worker's cost of taking a block
  /// The blocks of this run: those before were done in earlier ones, those from `last` on are not (yet) to
  /// run.  `last` 0: all.
  std::uint64_t first = 0, last = 0;
  std::uint64_t next = 0, done = 0;  // blocks
  std::uint32_t ctas = 0;            // persistent: CTAs wanted; 0: plain
  std::uint32_t workers = 0;         // persistent: workers dispatched or about to be
  std::uint32_t instances = 0;       // tasks of this launch that have not ended
  std::uint32_t resident = 0;        // CTAs on SMs
  Spread spread;
  bool tells_last = true;  // that its last block has started
  bool resumed = false;    // the record tells of earlier runs too
  bool reset = false;      // what it has done is void: it starts anew
  /// The launch that is one grid with this one: both end with the later.
  std::optional<WorkId> partner;

  bool persistent() const { return ctas != 0; }
  bool all_started() const { return next == blocks(); }
  /// The most CTAs of this launch of which, when they take their next blocks together, none leaves or goes on alone.
  std::uint64_t alike() const {
    if (block_times != nullptr || has_quotas()) return 0;
    if (!persistent()) return ~std::uint64_t{0};
    return workers > ctas ? 0 : blocks() - next;
  }
  bool has_quotas() const { return !spread.quota.empty(); }
  std::uint64_t blocks() const { return last; }
};

/// Issue slots go by the age of a persistent worker, not of the block that it has: so on an H200
/// (experiments/h200/policies).  Earlier generations, of which that is not known, keep the block's.
inline bool by_age_of_workers(const Gpu& gpu) { return gpu.compute_capability_major >= 9; }

struct Task {
  WorkId work;
  std::uint32_t level = 0;    // 0 is the highest priority
  std::uint64_t arrival = 0;  // number of its arrival at the TMU
  SmMask allowed;
  SmResources demand;          // of one block
  std::uint32_t carveout = 0;  // of shared memory that it needs (`carveout_of`)
  std::uint64_t pending = 0;   // CTAs not dispatched
  std::uint32_t resident = 0;  // CTAs on SMs
  Time started{-1};            // when its first CTA was dispatched
  bool laps = false;           // its CTAs start lap by lap (`Dispatcher::lap`); false: one by one
  bool plain = false;          // its CTAs are alike: no worker, no quota, one time for all blocks
  Time early{};                // its blocks may start so long before the dispatcher gets to them
};

}  // namespace corun::sim
