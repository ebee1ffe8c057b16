// A task as the hardware sees it (a TMD): a grid, or one instance of a persistent kernel, with what is left
// of it to dispatch.  And the launch it belongs to, whose blocks several instances may share.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/model/contention.h"
#include "sim/stages/sm_mask.h"
#include "traces/model/occupancy.h"
#include "traces/timeline/timeline.h"

namespace corun::sim {

using WorkId = Id<struct WorkTag>;  // index into ComputeEngine's launches
using TaskId = Id<struct TaskTag>;  // index into ComputeEngine's tasks

/// One launch on the GPU: which blocks have been taken and done.
struct Work {
  KernelRecord record;
  Time block_alone{};                              // time of one block when the launch is alone
  const std::vector<Time>* block_times = nullptr;  // where they differ by block
  BlockLoad load;
  Time per_task{};                   // a persistent worker's cost of taking a block
  std::vector<Time> starts;          // by block, when blocks are recorded
  std::uint64_t next = 0, done = 0;  // blocks
  std::uint32_t ctas = 0;            // persistent: CTAs wanted; 0: plain
  std::uint32_t workers = 0;         // persistent: workers dispatched or about to be
  std::uint32_t instances = 0;       // tasks of this launch that have not ended
  std::uint32_t resident = 0;        // CTAs on SMs
  std::vector<bool> ran;             // audit: by block

  bool persistent() const { return ctas != 0; }
  std::uint64_t blocks() const { return record.blocks; }
};

struct Task {
  WorkId work;
  std::uint32_t level = 0;    // 0 is the highest priority
  std::uint64_t arrival = 0;  // number of its arrival at the TMU
  SmMask allowed;
  SmResources demand;          // of one block
  std::uint32_t division = 0;  // of L1 and shared memory that it needs (`division_of`)
  std::uint64_t pending = 0;   // CTAs not dispatched
  std::uint32_t resident = 0;  // CTAs on SMs
  Time duration{};             // of the block that joined the row of residents last
  std::uint32_t uniform = 0;   // how many of the row's, back from that one, last as long
};

}  // namespace corun::sim
