#include "sim/stages/wdu.h"

#include <algorithm>

namespace corun::sim {

bool Wdu::before(TaskId a, TaskId b) const {
  const Task &x = tasks_[a.value], &y = tasks_[b.value];
  return x.level != y.level ? x.level < y.level : x.arrival < y.arrival;
}

void Wdu::refill(Tmu& tmu, std::vector<TaskId>& entered, std::vector<TaskId>& evicted) {
  while (const auto level = tmu.highest()) {
    if (used_ == slots_) {
      // The table is sorted: its last task has the lowest priority and came last.
      if (table_.empty() || tasks_[table_.back().value].level <= *level) return;
      const TaskId victim = table_.back();
      table_.pop_back();
      tmu.take_back(victim, tasks_[victim.value].level);
      evicted.push_back(victim);
      --used_;
    }
    const TaskId task = tmu.give(*level);
    ++used_;
    table_.insert(std::upper_bound(table_.begin(), table_.end(), task,
                                   [this](TaskId a, TaskId b) { return before(a, b); }),
                  task);
    entered.push_back(task);
  }
}

}  // namespace corun::sim
