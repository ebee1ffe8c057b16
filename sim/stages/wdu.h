// Work Distribution Unit: a limited number of task slots and a table of the tasks that still have blocks to dispatch,
// sorted by priority, then arrival.  The head dispatches; a task further back gets only SMs that no task before it may
// use (TPC masks); a waiting task of higher priority evicts the last one of the lowest priority from a full table.
// After Bakita and Anderson, RTAS 2023, section V.
//
// Leaves out: eviction of tasks whose blocks are all dispatched (they keep their slot until the last block ends).
#pragma once

#include <cstdint>
#include <vector>

#include "sim/stages/tmu.h"

namespace corun::sim {

class Wdu {
 public:
  Wdu(std::uint32_t task_slots, std::vector<Task>& tasks) : slots_(task_slots), tasks_(tasks) {}

  /// Fills free slots from the TMU and lets higher priorities evict.  `entered` gets the tasks that took a slot,
  /// `evicted` those that lost one.
  void refill(Tmu& tmu, std::vector<TaskId>& entered, std::vector<TaskId>& evicted);

  /// Tasks with blocks to dispatch, first to be served first.
  const std::vector<TaskId>& table() const { return table_; }
  /// All its blocks are dispatched: it leaves the table, not its slot.
  void dispatched(TaskId task) { std::erase(table_, task); }
  /// Its last block has ended.
  void release(TaskId task) {
    std::erase(table_, task);
    --used_;
  }
  std::uint32_t used() const { return used_; }

 private:
  bool before(TaskId a, TaskId b) const;

  std::uint32_t slots_;
  std::uint32_t used_ = 0;
  std::vector<Task>& tasks_;
  std::vector<TaskId> table_;
};

}  // namespace corun::sim
