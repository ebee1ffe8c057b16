#include "sim/stages/dispatcher.h"

namespace corun::sim {

void Dispatcher::accept(TaskId id, const Task& task) {
  CORUN_EXPECTS(!task.allowed.none());
  CORUN_EXPECTS(task.pending != 0 && task.resident == 0);
  if (id.value >= placements_.size()) placements_.resize(id.value + 1);
  placements_[id.value].reset(task.allowed);
  tmu_.accept(id, task.level);
}

bool Dispatcher::choose(const TaskTable& tasks, const SmArray& sms, TaskId& task, const SmMask*& ready) {
  SmMask claimed;
  ready = nullptr;
  for (const TaskId id : wdu_.table()) {
    bring_up_to_date(id, tasks[id], sms);
    const SmMask& allowed = tasks[id].allowed;
    if (ready != nullptr) ready_ = allowed.minus(claimed);
    if (placements_[id.value].most_room(ready) != 0) {
      task = id;
      return true;
    }
    claimed |= allowed;
    if (claimed == sms.all()) return false;
    ready = &ready_;
  }
  return false;
}

inline void Dispatcher::bring_up_to_date(TaskId id, const Task& task, const SmArray& sms) {
  Placement& placement = placements_[id.value];
  const std::uint64_t changes = sms.changes();
  if (placement.seen == changes) return;
  const auto look = [&](std::uint32_t rank) {
    placement.set_room(rank, sms.room_for(rank, task.demand, task.carveout));
  };
  if (changes - placement.seen > SmArray::kRemembered) {
    placement.clear();
    for (const std::uint32_t head : sms.cohorts().list()) look(head);
  } else {
    for (std::uint64_t change = placement.seen; change < changes; ++change) look(sms.changed(change));
  }
  placement.seen = changes;
}

}  // namespace corun::sim
