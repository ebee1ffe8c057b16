// The dispatcher: which task of the WDU's table starts blocks next, on which SMs, and when.  The first that
// has room, on the SMs with the most of it, a block an interval.
#include "sim/stages/compute_engine.h"

#include <algorithm>

namespace corun::sim {
namespace {

/// Of a launch of more waves than that, blocks are spread over time, and each is started on its own.
constexpr std::uint64_t kFewWaves = 8;

}  // namespace

void ComputeEngine::dispatch() {
  TaskId task;
  const SmMask* ready;
  bool found = choose(task, ready);
  while (found && dispatcher_free_ <= now_ + tasks_[task.value].early) {
    dispatch_slot_ = std::max(dispatcher_free_, now_);
    const std::uint32_t started = start(task, ready);
    dispatcher_free_ = std::max(dispatcher_free_, now_) + started * gpu_.dispatch_interval;
    found = choose(task, ready);
  }
  dispatch_at_ = found ? dispatcher_free_ : kNever;
}

/// The first task of the table that may use an SM which no task before it may use and which has room for it,
/// and the SMs that are left to it, if these are not all that it may use.
inline bool ComputeEngine::choose(TaskId& task, const SmMask*& ready) {
  SmMask claimed;
  ready = nullptr;
  for (TaskId id : wdu_.table()) {
    bring_up_to_date(id);
    const SmMask& allowed = tasks_[id.value].allowed;
    if (ready != nullptr) ready_ = allowed.minus(claimed);
    if (placements_[id.value].most_room(ready) != 0) {
      task = id;
      return true;
    }
    claimed |= allowed;
    if (claimed == all_sms_) return false;
    ready = &ready_;
  }
  return false;
}

/// How long before the dispatcher gets to them blocks of this task may start: a small share of their time, so
/// that those of a launch of few waves start together.
Time ComputeEngine::early(const Work& work) const {
  const bool few_waves = work.blocks() - work.first <= kFewWaves * work.load.places;
  return work.load.contends() && !work.spreads() && few_waves ? work.block_alone : Time{};
}

std::uint32_t ComputeEngine::sms_of(const SmMask& heads) const {
  std::uint32_t sms = 0;
  heads.for_each([&](std::uint32_t head) { sms += cohorts_.size(head); });
  return sms;
}

/// Launches that do not contend, or have a number of CTAs per SM, go block by block.  Of others each of the
/// SMs with the most room takes a block at this instant: a lap.  Further laps follow at once while they are
/// early enough.  Returns how many blocks have started.
std::uint32_t ComputeEngine::start(TaskId id, const SmMask* ready) {
  const Work& work = works_[tasks_[id.value].work.value];
  const Placement& placement = placements_[id.value];
  const Task& task = tasks_[id.value];
  const std::uint64_t pending = task.laps ? task.pending : 1;
  std::uint32_t room = placement.most_room(ready);
  SmMask heads = placement.with_room(room, ready);
  std::uint32_t sms = sms_of(heads);
  if (sms <= pending && (task.plain || !differ(work, sms))) {
    // Laps while it is early enough; once others have as much room, they get blocks too.
    const std::uint64_t most = work.persistent() ? std::min(pending, work.blocks() - work.next) : pending;
    const Time latest = now_ + task.early;
    Time free = std::max(dispatcher_free_, now_);
    std::uint64_t taken = 0;
    while (true) {
      const std::uint32_t next = placement.most_room(ready, room - 1);
      const Time lap = sms * gpu_.dispatch_interval;
      std::uint64_t laps = std::min<std::uint64_t>(room - next, (most - taken) / sms);
      if (free + lap * static_cast<std::int64_t>(laps - 1) > latest)
        laps = static_cast<std::uint64_t>((latest - free) / lap) + 1;
      taken += laps * sms;
      free += lap * static_cast<std::int64_t>(laps);
      room -= static_cast<std::uint32_t>(laps);
      if (room != next || room == 0 || free > latest) break;
      const SmMask more = placement.with_room(next, ready);
      const std::uint32_t all = sms + sms_of(more);
      if (taken + all > most) break;
      sms = all;
      heads |= more;
    }
    heads.for_each([&](std::uint32_t head) { start_blocks(id, head, placement.room_at(head) - room); });
    return static_cast<std::uint32_t>(taken);
  }
  SmMask all;
  heads.for_each([&](std::uint32_t head) { all |= cohorts_.members(head); });
  const auto n = static_cast<std::uint32_t>(std::min<std::uint64_t>(sms, pending));
  all = all.first(n);
  if (differ(work, n)) {
    heads.for_each([&](std::uint32_t head) { scatter(head); });
    all.for_each([&](std::uint32_t rank) { start_blocks(id, rank, 1); });
  } else {
    heads.for_each([&](std::uint32_t head) {
      const SmMask part = cohorts_.members(head) & all;
      if (!part.none()) start_blocks(id, single_out(head, part), 1);
    });
  }
  return n;
}

/// Whether CTAs of this launch that take their next blocks together may go different ways.
bool ComputeEngine::differ(const Work& work, std::uint64_t ctas) {
  return work.block_times != nullptr || work.spreads() ||
         (work.persistent() && (work.workers > work.ctas || work.blocks() - work.next < ctas));
}

std::uint32_t ComputeEngine::room_on(std::uint32_t rank, const Task& task) const {
  if (!cohorts_.heads().test(rank)) return 0;
  const bool empty = free_[rank].blocks == gpu_.sm.max_blocks;
  return empty || task.division <= division_[rank] ? room(free_[rank], task.demand) : 0;
}

inline void ComputeEngine::bring_up_to_date(TaskId id) {
  Placement& placement = placements_[id.value];
  if (placement.seen == journal_end_) return;
  const Task& task = tasks_[id.value];
  if (journal_end_ - placement.seen > kJournal) {
    placement.clear();
    for (const std::uint32_t head : cohorts_.list()) placement.set_room(head, room_on(head, task));
  } else {
    for (std::uint64_t i = placement.seen; i < journal_end_; ++i) {
      const std::uint32_t rank = journal_[i % kJournal];
      placement.set_room(rank, room_on(rank, task));
    }
  }
  placement.seen = journal_end_;
}

}  // namespace corun::sim
