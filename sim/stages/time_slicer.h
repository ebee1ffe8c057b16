// Turns of contexts that do not share the GPU: one has all SMs for a time slice, which runs to its end
// whatever arrives meanwhile; a switch costs time; a context without work gives its turn up at once; one
// alone gets turn after turn.  As measured in experiments/h200/launch_path, question 10.
//
// Leaves out: slices of different lengths by priority.
#pragma once

#include <cstdint>
#include <optional>

#include "traces/model/gpu.h"

namespace corun::sim {

class TimeSlicer {
 public:
  TimeSlicer(const Gpu& gpu, std::uint32_t contexts)
      : gpu_(gpu), contexts_(contexts), turn_ends_(gpu.time_slice) {}

  /// The context that has the SMs, none during a switch.
  std::optional<std::uint32_t> active() const { return switching_ ? std::nullopt : std::optional(current_); }
  std::uint32_t current() const { return current_; }

  /// Looks at who has work.  True: the current context loses the SMs now, and a switch begins, which takes
  /// `switch_to(next, interrupts)`: it interrupts what is under way, or there is nothing.
  template <class HasWork, class SwitchTo>
  bool look(Time now, HasWork has_work, SwitchTo switch_to) {
    if (switching_ || contexts_ == 1) return false;
    const bool busy = has_work(current_);
    if (busy && !was_busy_) turn_ends_ = now + gpu_.time_slice;
    was_busy_ = busy;
    std::uint32_t next = current_;
    for (std::uint32_t i = 1; i < contexts_ && next == current_; ++i)
      if (has_work((current_ + i) % contexts_)) next = (current_ + i) % contexts_;
    if (next == current_ || (busy && now < turn_ends_)) {
      if (busy && now >= turn_ends_) turn_ends_ = now + gpu_.time_slice;
      return false;
    }
    current_ = next;
    switching_ = true;
    switched_ = now + switch_to(next, busy);
    return true;
  }
  /// The switch is over: the next context has the SMs.
  void begin_turn(Time now) {
    switching_ = false;
    was_busy_ = true;
    turn_ends_ = now + gpu_.time_slice;
  }
  bool switching() const { return switching_; }
  /// When it must look, or begin a turn, next; kNever if one context has the GPU for good.
  Time next_time(Time now) const {
    if (contexts_ == 1) return kNever;
    return switching_ ? switched_ : turn_ends_ > now ? turn_ends_ : kNever;
  }

 private:
  const Gpu& gpu_;
  std::uint32_t contexts_;
  std::uint32_t current_ = 0;
  bool switching_ = false;
  bool was_busy_ = false;  // the current context had work when last looked at
  Time turn_ends_{}, switched_{};
};

}  // namespace corun::sim
