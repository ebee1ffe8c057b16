// Work Distribution Unit: a limited number of task slots and a table of the tasks that still have blocks to
// dispatch, sorted by priority, then arrival.  The head dispatches; a task further back gets only SMs that no
// task before it may use (TPC masks).  After Bakita and Anderson, RTAS 2023, section V.
//
// When all slots are taken and a task of higher priority waits, the newest task of the lowest priority is
// forced out: it stops dispatching, its slot is free once its running blocks have ended, and it goes back to
// the head of its TMU list. Until then the table takes in nothing else.  As measured in
// experiments/h200/launch_path, question 9.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/stages/launch_table.h"
#include "sim/stages/tmu.h"
#include "traces/model/expects.h"

namespace corun::sim {

class Wdu {
 public:
  explicit Wdu(std::uint32_t task_slots) : slots_(task_slots) {
    CORUN_EXPECTS(task_slots != 0);
  }

  /// Fills free slots from the TMU and forces tasks out for higher priorities.  `entered` gets the tasks that
  /// took a slot, `evicted` those that stopped dispatching.
  void refill(Tmu& tmu, const TaskTable& tasks, std::vector<TaskId>& entered, std::vector<TaskId>& evicted);

  /// Tasks with blocks to dispatch, first to be served first.
  const std::vector<TaskId>& table() const { return table_; }
  /// All its blocks are dispatched: it leaves the table, not its slot.
  void dispatched(TaskId task) { std::erase(table_, task); }
  /// Its last running block has ended, and it has none to dispatch or was forced out: its slot is free.  True
  /// if so.
  bool release(TaskId task, const TaskTable& tasks);
  std::uint32_t used() const { return static_cast<std::uint32_t>(held_.size()); }

 private:
  std::optional<TaskId> victim(std::uint32_t level, const TaskTable& tasks) const;

  std::uint32_t slots_;
  std::vector<TaskId> held_;  // tasks in slots
  std::vector<TaskId> table_;
  std::optional<TaskId> draining_;  // forced out, its blocks still run
};

}  // namespace corun::sim
