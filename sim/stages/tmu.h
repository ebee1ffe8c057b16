// Task Management Unit: keeps tasks that wait for a slot of the WDU, one first-in-first-out list a priority
// level, and gives out the head of the highest list that is not empty (Bakita and Anderson, RTAS 2023,
// section V).
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "sim/stages/task.h"
#include "traces/model/expects.h"

namespace corun::sim {

class Tmu {
 public:
  explicit Tmu(std::uint32_t priority_levels) : lists_(priority_levels) {
    CORUN_EXPECTS(priority_levels != 0);
  }

  void accept(TaskId task, std::uint32_t level) {
    CORUN_EXPECTS(level < lists_.size());
    lists_[level].push_back(task);
  }
  /// A task that the WDU evicted goes to the head of its list.
  void take_back(TaskId task, std::uint32_t level) {
    CORUN_EXPECTS(level < lists_.size());
    lists_[level].push_front(task);
  }

  /// Highest level with a waiting task (0 is the highest priority).
  std::optional<std::uint32_t> highest() const {
    for (std::uint32_t level = 0; level < lists_.size(); ++level)
      if (!lists_[level].empty()) return level;
    return std::nullopt;
  }
  TaskId give(std::uint32_t level) {
    CORUN_EXPECTS(level < lists_.size() && !lists_[level].empty());
    const TaskId task = lists_[level].front();
    lists_[level].pop_front();
    return task;
  }
  /// A task that is not to run after all, wherever it waits.
  void forget(TaskId task, std::uint32_t level) {
    CORUN_EXPECTS(level < lists_.size());
    std::erase(lists_[level], task);
  }
  std::size_t size() const {
    std::size_t n = 0;
    for (const auto& list : lists_) n += list.size();
    return n;
  }

 private:
  std::vector<std::deque<TaskId>> lists_;
};

}  // namespace corun::sim
