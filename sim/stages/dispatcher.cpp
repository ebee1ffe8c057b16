#include "sim/stages/dispatcher.h"

namespace corun::sim {

void Dispatcher::accept(TaskId id, const Task& task) {
  CORUN_EXPECTS(!task.allowed.none());
  CORUN_EXPECTS(task.pending != 0 && task.resident == 0);
  if (id.value >= placements_.size()) placements_.resize(id.value + 1);
  placements_[id.value].reset(task.allowed);
  tmu_.accept(id, task.level);
}

std::optional<Dispatcher::Choice> Dispatcher::choose(const TaskTable& tasks, const SmArray& sms) {
  std::optional<Choice> choice(std::in_place);
  SmMask claimed;
  for (const TaskId id : wdu_.table()) {
    bring_up_to_date(id, tasks[id], sms);
    const SmMask& allowed = tasks[id].allowed;
    if (!claimed.none()) choice->left = allowed.minus(claimed);
    if (placements_[id.value].most_free(choice->ready()) != 0) {
      choice->task = id;
      return choice;
    }
    claimed |= allowed;
    if (claimed == sms.all()) break;
  }
  choice.reset();
  return choice;
}

inline void Dispatcher::bring_up_to_date(TaskId id, const Task& task, const SmArray& sms) {
  Placement& placement = placements_[id.value];
  const std::uint64_t changes = sms.changes();
  if (placement.seen == changes) return;
  const auto look = [&](std::uint32_t rank) {
    placement.set_free(rank, sms.free_places(rank, task.demand, task.carveout));
  };
  if (changes - placement.seen > SmArray::kRemembered) {
    placement.clear();
    for (const std::uint32_t head : sms.cohorts().list()) look(head);
  } else {
    for (std::uint64_t change = placement.seen; change < changes; ++change) look(sms.changed(change));
  }
  placement.seen = changes;
}

Dispatcher::Lap Dispatcher::lap(const Choice& choice, const Task& task, std::uint64_t most, std::uint64_t alike,
                                const Cohorts& cohorts, Time now) const {
  const Placement& placement = placements_[choice.task.value];
  const SmMask* const ready = choice.ready();
  const auto sms_of = [&](const SmMask& heads) {
    std::uint32_t sms = 0;
    heads.for_each([&](std::uint32_t head) { sms += cohorts.size(head); });
    return sms;
  };
  const std::uint64_t pending = task.laps ? task.pending : 1;
  std::uint32_t free_places = placement.most_free(ready);
  CORUN_EXPECTS_SLOW(free_places != 0 && pending != 0);
  CORUN_EXPECTS_SLOW(free_ <= now + task.early);
  Lap lap;
  lap.heads = placement.with_free(free_places, ready);
  if (pending == 1 && (lap.heads.count() > 1 || cohorts.size(lap.heads.first()) > 1)) {  // one SM of several
    lap.whole_cohorts = false;
    lap.blocks = 1;
    return lap;
  }
  std::uint32_t sms = sms_of(lap.heads);
  if (sms > pending || (!task.plain && sms > alike)) {
    lap.whole_cohorts = false;
    lap.blocks = static_cast<std::uint32_t>(std::min<std::uint64_t>(sms, pending));
    return lap;
  }
  // Laps while it is early enough; once others have as many free places, they get blocks too.
  most = std::min(most, pending);
  CORUN_EXPECTS_SLOW(sms <= most);
  const Time latest = now + task.early;
  Time free = std::max(free_, now);
  std::uint64_t taken = 0;
  while (true) {
    const std::uint32_t next = placement.most_free(ready, free_places - 1);
    const Time one = sms * interval_;
    std::uint64_t laps = std::min<std::uint64_t>(free_places - next, (most - taken) / sms);
    if (free + one * static_cast<std::int64_t>(laps - 1) > latest)
      laps = static_cast<std::uint64_t>((latest - free) / one) + 1;
    taken += laps * sms;
    free += one * static_cast<std::int64_t>(laps);
    free_places -= static_cast<std::uint32_t>(laps);
    if (free_places != next || free_places == 0 || free > latest) break;
    const SmMask more = placement.with_free(next, ready);
    const std::uint32_t all = sms + sms_of(more);
    if (taken + all > most) break;
    sms = all;
    lap.heads |= more;
  }
  lap.blocks = static_cast<std::uint32_t>(taken);
  lap.leaves = free_places;
  return lap;
}

}  // namespace corun::sim
