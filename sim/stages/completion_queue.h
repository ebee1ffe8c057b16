// Resident blocks whose end is known when they start, as of launches that contend for nothing: a block is a
// number, a resident one 16 bytes.  Those of a task whose ends come in the order of their starts, which is the
// rule, form one first-in-first-out list, of which only the head is an event; the others are strays.  The list
// that was looked at last is likely to be next: its head ("leading") is kept out of the event queue.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/engine/event_queue.h"
#include "sim/stages/task.h"
#include "traces/model/expects.h"
#include "traces/model/time.h"

namespace corun::sim {

class CompletionQueue {
 public:
  struct Resident {
    std::int64_t end;  // context time
    std::uint32_t block;
    std::uint16_t rank;   // SM
    std::uint16_t place;  // which of the SM's block places, when blocks are recorded
  };
  /// Residents of one task in the order of their ends.
  class Fifo {
   public:
    bool empty() const { return head_ == tail_; }
    std::uint32_t size() const { return tail_ - head_; }
    const Resident& front() const { return ring_[head_ & mask_]; }
    const Resident& back() const { return ring_[(tail_ - 1) & mask_]; }
    const Resident& at(std::uint32_t i) const { return ring_[(head_ + i) & mask_]; }
    /// How long the block lasts that joined last.
    Time duration() const { return duration_; }
    /// How many blocks in a row, that one included and counted back from it, last as long as it does.
    std::uint32_t uniform() const { return uniform_; }

   private:
    friend class CompletionQueue;
    Resident& at(std::uint32_t i) { return ring_[(head_ + i) & mask_]; }
    void pop() { ++head_; }
    void push(const Resident& r, Time duration) {
      if (size() == ring_.size()) grow();
      ring_[tail_++ & mask_] = r;
      // A worker that leaves (kNoBlock) begins no row of equal ones.
      uniform_ = r.block == kNoBlock ? 0 : duration == duration_ ? uniform_ + 1 : 1;
      duration_ = duration;
    }
    void clear() { head_ = tail_ = uniform_ = 0; }
    void grow();

    std::vector<Resident> ring_;
    std::uint32_t head_ = 0, tail_ = 0, mask_ = 0;
    Time duration_{};
    std::uint32_t uniform_ = 0;
    bool queued_ = false;           // its head is an event in the queue
    std::uint32_t generation_ = 0;  // heads queued for an older one are stale
  };
  /// What ends at an instant: of the task's list, from its head, or a stray.
  struct Due {
    TaskId task;
    std::optional<std::uint32_t> stray;
  };

  /// Must precede the first block of a task of this number.
  void introduce(TaskId task) {
    if (task.value >= fifos_.size()) fifos_.resize(task.value + 1);
    CORUN_EXPECTS(fifos_[task.value].empty());
    fifos_[task.value].clear();
    fifos_[task.value].duration_ = Time{};
  }
  void add(TaskId task, const Resident& resident, Time duration);

  const Fifo& fifo(TaskId task) const {
    CORUN_EXPECTS_SLOW(task.value < fifos_.size());
    return fifos_[task.value];
  }
  std::optional<TaskId> leading() const { return leading_; }
  Time next_time() const {
    const Time queued = next_queued();
    return leads() ? std::min(queued, Time{front_of_leading().end}) : queued;
  }
  /// But for the leading list.
  Time next_queued() const { return queue_.empty() ? kNever : queue_.next_time(); }
  bool leading_due(Time now) const { return leads() && front_of_leading().end == now.count(); }

  /// f(due) for what is due now, unordered.  The leading list leads no longer if it is `with_leading`.
  template <typename F>
  void take_due(Time now, bool with_leading, F&& f);
  /// The next of the task's list that ends now.
  std::optional<Resident> pop(TaskId task, Time now) {
    Fifo& fifo = fifos_[task.value];
    if (fifo.empty() || fifo.front().end != now.count()) {
      CORUN_EXPECTS(fifo.empty() || fifo.front().end > now.count());  // else its end was missed
      return std::nullopt;
    }
    const Resident resident = fifo.front();
    fifo.pop();
    return resident;
  }
  Resident take_stray(std::uint32_t stray) {
    CORUN_EXPECTS(stray < strays_.size() && !strays_[stray].gone);
    strays_[stray].gone = true;
    free_strays_.push_back(stray);
    return strays_[stray].resident;
  }
  /// The list, which is no event (any more), is the leading one now.
  void lead(TaskId task) {
    CORUN_EXPECTS(task.value < fifos_.size() && !fifos_[task.value].queued_);
    if (leading_ && *leading_ != task) queue_head(*leading_);
    leading_ = task;
  }

  /// The task has ended.
  void end(TaskId task) {
    CORUN_EXPECTS(fifos_[task.value].empty());
    if (leading_ == task) leading_.reset();
    fifos_[task.value].clear();
  }
  /// Takes out all residents of the task, into `gone`.
  void remove(TaskId task, std::vector<Resident>& gone);

  /// Each of the leading list ends later by `time`, and they are now the blocks from `first_block` on.
  void skip(TaskId task, std::int64_t time, std::uint64_t first_block) {
    CORUN_EXPECTS(leading_ == task && time >= 0);
    Fifo& fifo = fifos_[task.value];
    for (std::uint32_t i = 0; i < fifo.size(); ++i) {
      Resident& r = fifo.at(i);
      r.end += time;
      r.block = static_cast<std::uint32_t>(first_block + i);
    }
  }

  /// f(task, resident) for each.
  template <typename F>
  void for_each(F&& f) const {
    for (std::uint32_t i = 0; i < fifos_.size(); ++i)
      for (std::uint32_t k = 0; k < fifos_[i].size(); ++k) f(TaskId{i}, fifos_[i].at(k));
    for (const Stray& stray : strays_)
      if (!stray.gone) f(stray.task, stray.resident);
  }

 private:
  struct Stray {
    TaskId task;
    Resident resident;
    bool gone = false;  // ended or taken off: then its event is stale
  };
  struct Event {
    TaskId task;
    bool stray;
    std::uint32_t number;  // generation of the list, or index of the stray
  };

  bool leads() const { return leading_ && !fifos_[leading_->value].empty(); }
  const Resident& front_of_leading() const { return fifos_[leading_->value].front(); }
  void queue_head(TaskId task);

  std::vector<Fifo> fifos_;  // by TaskId
  std::optional<TaskId> leading_;
  mutable EventQueue<Event> queue_;  // which looking may regroup
  std::vector<Stray> strays_;
  std::vector<std::uint32_t> free_strays_;
};

template <typename F>
void CompletionQueue::take_due(Time now, bool with_leading, F&& f) {
  if (with_leading) {
    CORUN_EXPECTS(leading_due(now));
    f(Due{*leading_, std::nullopt});
    leading_.reset();
  }
  while (!queue_.empty() && queue_.next_time() == now) {
    const Event event = queue_.pop().payload;
    if (event.stray) {
      if (strays_[event.number].gone)
        free_strays_.push_back(event.number);
      else
        f(Due{event.task, event.number});
    } else if (Fifo& fifo = fifos_[event.task.value]; event.number == fifo.generation_) {
      fifo.queued_ = false;
      f(Due{event.task, std::nullopt});
    }
  }
}

}  // namespace corun::sim
