#include "sim/stages/wdu.h"

#include <algorithm>

namespace corun::sim {

namespace {

auto sooner(const TaskTable& tasks) {
  return [&tasks](TaskId a, TaskId b) {
    const Task &x = tasks[a], &y = tasks[b];
    return x.level != y.level ? x.level < y.level : x.arrival < y.arrival;
  };
}

}  // namespace

/// The newest task of the lowest priority, if that is lower than `level`.
std::optional<TaskId> Wdu::victim(std::uint32_t level, const TaskTable& tasks) const {
  CORUN_EXPECTS(!held_.empty());
  const auto last = std::max_element(held_.begin(), held_.end(), sooner(tasks));
  return tasks[*last].level > level ? std::optional(*last) : std::nullopt;
}

void Wdu::refill(Tmu& tmu, const TaskTable& tasks, std::vector<TaskId>& entered, std::vector<TaskId>& evicted) {
  while (const auto level = tmu.highest()) {
    if (draining_) return;
    if (used() == slots_) {
      const auto out = victim(*level, tasks);
      if (!out) return;
      const Task& task = tasks[*out];
      if (task.pending != 0) {
        std::erase(table_, *out);
        tmu.take_back(*out, task.level);
        evicted.push_back(*out);
      }
      if (task.resident != 0) {
        draining_ = out;
        return;
      }
      std::erase(held_, *out);
    }
    const TaskId task = tmu.give(*level);
    CORUN_EXPECTS(tasks[task].pending != 0 && tasks[task].resident == 0);
    held_.push_back(task);
    table_.insert(std::upper_bound(table_.begin(), table_.end(), task, sooner(tasks)), task);
    entered.push_back(task);
  }
}

bool Wdu::release(TaskId task, const TaskTable& tasks) {
  CORUN_EXPECTS(tasks[task].resident == 0);
  if (tasks[task].pending != 0 && draining_ != task) return false;
  if (draining_ == task) draining_.reset();
  std::erase(table_, task);
  std::erase(held_, task);
  return true;
}

}  // namespace corun::sim
