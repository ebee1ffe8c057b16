// The dispatcher: which task of the WDU's table starts blocks next, on which SMs, and when.  The first that
// has room, on the SMs with the most of it, a block an interval.  It answers; who starts the blocks is the
// pipeline.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "sim/stages/launch_table.h"
#include "sim/stages/placement.h"
#include "sim/stages/sm_array.h"
#include "sim/stages/wdu.h"
#include "traces/model/expects.h"
#include "traces/model/gpu.h"

namespace corun::sim {

class Dispatcher {
 public:
  explicit Dispatcher(const Gpu& gpu)
      : interval_(gpu.dispatch_interval), tmu_(gpu.priority_levels), wdu_(gpu.task_slots) {
    CORUN_EXPECTS(interval_ >= Time{});
  }

  // ---- from the TMU to the table ----
  void accept(TaskId id, const Task& task);
  struct Refilled {
    std::span<const TaskId> entered;  // took a slot
    std::span<const TaskId> evicted;  // stopped dispatching
  };
  /// Fills free slots.  What it returns is valid until the next call.
  Refilled refill(Time now, const TaskTable& tasks) {
    entered_.clear();
    evicted_.clear();
    wdu_.refill(tmu_, tasks, entered_, evicted_);
    if (!entered_.empty()) wake(now);
    return {entered_, evicted_};
  }
  /// The task starts no further block.
  void forget(TaskId id, const Task& task) {
    tmu_.forget(id, task.level);
    wdu_.dispatched(id);
  }
  void all_dispatched(TaskId id) { wdu_.dispatched(id); }
  /// As `Wdu::release`.
  bool release(TaskId id, const TaskTable& tasks) { return wdu_.release(id, tasks); }

  std::size_t waiting() const { return tmu_.size(); }
  std::uint32_t used_slots() const { return wdu_.used(); }
  const std::vector<TaskId>& table() const { return wdu_.table(); }

  // ---- when ----
  /// When it looks again; kNever: it rests.
  Time next_time() const { return at_; }
  /// When it can start the next block.
  Time free() const { return free_; }
  /// There may be something to start.
  void wake(Time now) { at_ = std::min(at_, std::max(now, free_)); }
  void wake_if_any(Time now) {
    if (!wdu_.table().empty()) wake(now);
  }
  void started(std::uint32_t blocks, Time now) {
    CORUN_EXPECTS_SLOW(blocks != 0);
    free_ = std::max(free_, now) + blocks * interval_;
  }
  /// Its own time for each of the blocks that start now, one after the other.
  void begin_slots(Time now) { slot_ = std::max(free_, now); }
  Time take_slot() { return std::exchange(slot_, slot_ + interval_); }
  void rest_until(Time at) { at_ = at; }
  /// What it dispatched was not simulated.
  void skip_to(Time free) {
    CORUN_EXPECTS(free >= free_);
    free_ = free;
  }

  // ---- what ----
  struct Choice {
    TaskId task;
    /// SMs of the task that no task before it may use; none: all of its SMs.
    std::optional<SmMask> left;
    const SmMask* ready() const { return left ? &*left : nullptr; }
  };
  /// The first task of the table that may use an SM which no task before it may use and which has room for it.
  std::optional<Choice> choose(const TaskTable& tasks, const SmArray& sms);
  /// Blocks that start at one instant.
  struct Lap {
    SmMask heads;              // of the cohorts that take blocks
    std::uint32_t blocks = 0;  // in all
    /// With whole cohorts each SM takes blocks until it has room for this number more.  Else the first SMs take one
    /// each, as many SMs as there are blocks.
    std::uint32_t leaves = 0;
    bool whole_cohorts = true;
  };
  /// At most `most` blocks; those of more than `alike` SMs may go different ways (`Work::alike`).
  Lap lap(const Choice& choice, const Task& task, std::uint64_t most, std::uint64_t alike, const Cohorts& cohorts,
          Time now) const;
  std::uint32_t free_at(TaskId id, std::uint32_t head) const { return placements_[id.value].free_at(head); }

  /// The SM, of which all changes but this one are known to the task, has room for `difference` blocks more of it,
  /// or less.
  bool knows_all(TaskId id, const SmArray& sms) const { return placements_[id.value].seen == sms.changes(); }
  void change_free(TaskId id, std::uint32_t rank, int difference, const SmArray& sms) {
    Placement& placement = placements_[id.value];
    CORUN_EXPECTS_SLOW(placement.seen + 1 == sms.changes() && sms.changed(placement.seen) == rank);
    placement.set_free(rank, placement.free_at(rank) + static_cast<std::uint32_t>(difference));
    placement.seen = sms.changes();
  }

 private:
  void bring_up_to_date(TaskId id, const Task& task, const SmArray& sms);

  Time interval_;
  Tmu tmu_;
  Wdu wdu_;
  std::vector<TaskId> entered_, evicted_;
  std::vector<Placement> placements_;  // by TaskId
  Time at_ = kNever;
  Time free_{};
  Time slot_{};
};

}  // namespace corun::sim
