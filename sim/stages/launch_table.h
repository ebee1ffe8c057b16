// The launches on the GPU, each under a number that a later one may get again.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "sim/stages/task.h"
#include "traces/model/expects.h"

namespace corun::sim {

/// A launch that left the GPU with blocks not done.
struct TakenOff {
  KernelRecord record;  // so far
  std::uint64_t done = 0;
};

class LaunchTable {
 public:
  WorkId add(Work work) {
    WorkId id{static_cast<std::uint32_t>(works_.size())};
    if (free_.empty()) {
      works_.emplace_back();
    } else {
      id.value = free_.back();
      free_.pop_back();
    }
    const LaunchId launch = work.record.launch;
    CORUN_EXPECTS(!holds(launch.slot));
    if (launch.slot >= of_slot_.size()) of_slot_.resize(launch.slot + 1, kNone);
    of_slot_[launch.slot] = id.value;
    ++unfinished_;
    persistent_ += work.persistent();
    with_quotas_ += work.has_quotas();
    works_[id.value] = std::move(work);
    return id;
  }
  /// It has ended, or left the GPU.
  void remove(WorkId id) {
    CORUN_EXPECTS(id.value < works_.size());
    Work& work = works_[id.value];
    CORUN_EXPECTS(find(work.record.launch) == id);
    last_ = {work.record.started, work.record.last_block, work.record.finished};
    of_slot_[work.record.launch.slot] = kNone;
    --unfinished_;
    persistent_ -= work.persistent();
    with_quotas_ -= work.has_quotas();
    work.spread.quota.clear();  // the rest is overwritten by the next launch
    free_.push_back(id.value);
  }

  Work& operator[](WorkId id) {
    CORUN_EXPECTS_SLOW(id.value < works_.size());
    return works_[id.value];
  }
  const Work& operator[](WorkId id) const {
    CORUN_EXPECTS_SLOW(id.value < works_.size());
    return works_[id.value];
  }
  std::optional<WorkId> find(LaunchId launch) const {
    if (!holds(launch.slot)) return std::nullopt;
    const WorkId id{of_slot_[launch.slot]};
    return works_[id.value].record.launch == launch ? std::optional(id) : std::nullopt;
  }

  /// It left with blocks not done, and somebody will ask how far it came.
  void keep(TakenOff off) {
    CORUN_EXPECTS(off.done <= off.record.blocks);
    taken_off_.push_back(std::move(off));
  }
  /// Once.
  TakenOff collect(LaunchId launch) {
    const auto found = std::ranges::find_if(
        taken_off_, [&](const TakenOff& t) { return t.record.launch == launch; });
    CORUN_EXPECTS(found != taken_off_.end());
    TakenOff off = *found;
    taken_off_.erase(found);
    return off;
  }

  /// Of the one that was removed last.
  struct Course {
    Time started{}, last_block{}, finished{};
  };
  const Course& last() const { return last_; }

  /// Those that have ended too: they have no block on an SM, and no instance.
  const std::vector<Work>& all() const { return works_; }

  std::uint32_t unfinished() const { return unfinished_; }
  std::uint32_t persistent() const { return persistent_; }
  std::uint32_t with_quotas() const { return with_quotas_; }

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  bool holds(std::uint32_t slot) const { return slot < of_slot_.size() && of_slot_[slot] != kNone; }

  std::vector<Work> works_;            // by WorkId
  std::vector<std::uint32_t> free_;    // numbers of those that have ended
  std::vector<std::uint32_t> of_slot_;  // by LaunchId::slot
  std::vector<TakenOff> taken_off_;
  Course last_;
  std::uint32_t unfinished_ = 0, persistent_ = 0, with_quotas_ = 0;
};

/// The same of their tasks.
class TaskTable {
 public:
  TaskId add(Task task) {
    TaskId id{static_cast<std::uint32_t>(tasks_.size())};
    task.arrival = arrivals_++;
    if (free_.empty()) {
      tasks_.push_back(task);
    } else {
      id.value = free_.back();
      free_.pop_back();
      tasks_[id.value] = task;
    }
    return id;
  }
  void remove(TaskId id) {
    CORUN_EXPECTS(id.value < tasks_.size());
    CORUN_EXPECTS(tasks_[id.value].pending == 0 && tasks_[id.value].resident == 0);
    CORUN_EXPECTS_SLOW(!removed(id));
    free_.push_back(id.value);
  }
  bool removed(TaskId id) const { return std::find(free_.begin(), free_.end(), id.value) != free_.end(); }

  Task& operator[](TaskId id) {
    CORUN_EXPECTS_SLOW(id.value < tasks_.size());
    return tasks_[id.value];
  }
  const Task& operator[](TaskId id) const {
    CORUN_EXPECTS_SLOW(id.value < tasks_.size());
    return tasks_[id.value];
  }
  /// Those that have ended too: nothing of them is pending or resident.
  const std::vector<Task>& all() const { return tasks_; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(tasks_.size()); }

 private:
  std::vector<Task> tasks_;  // by TaskId
  std::vector<std::uint32_t> free_;
  std::uint64_t arrivals_ = 0;
};

}  // namespace corun::sim
