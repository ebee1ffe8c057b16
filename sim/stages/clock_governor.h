// The power management of the GPU: what its kernels would draw at its highest clock, and the clock at which
// that stays below the limit.  It looks each 20 ms, remembers 0.29 of what it saw before, lowers the clock at
// once, and raises it by half of the way.  Measured with products of matrices for 1 to 200 ms of each 4 to
// 400 ms: the mean clock under load is within 0.5 % (experiments/h200/clock).
//
// Leaves out: temperature, the clock of the memory, a fall of 2 to 4 % within the first millisecond of a
// product, and the dips of a fifth for 0.15 s, one each 0.9 s of sustained load, whose mean is in the limit.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "traces/model/gpu.h"

namespace corun::sim {

class ClockGovernor {
 public:
  explicit ClockGovernor(const Gpu& gpu)
      : power_(gpu.power),
        steps_(std::max<std::int64_t>(1, std::llround(gpu.clock_hz / kStep))),
        step_(steps_) {}

  /// When it looks next; kNever: the clock is always the highest.
  Time next_time() const { return power_.limit_w > 0 ? looks_at_ : kNever; }
  /// `energy`: pJ since the beginning, beside what the idle GPU takes, if all had run at the highest clock.
  /// True: another clock.
  bool look(double energy) {
    // pJ per ps are W.
    const double drawn = (energy - energy_) / static_cast<double>(power_.interval.count());
    looks_at_ += power_.interval;
    energy_ = energy;
    // Kernels go on as fast as the clock does.
    const double full = drawn * static_cast<double>(steps_) / static_cast<double>(step_);
    full_ = full + (full_ - full) * kRemembers;
    std::int64_t step = steps_;
    while (step > steps_ / kLeast && at(step) > power_.limit_w) --step;
    if (step > step_) step = step_ + (step - step_ + kRises - 1) / kRises;
    const bool changed = step != step_;
    step_ = step;
    return changed;
  }
  /// The highest clock over the clock.
  double clock_ratio() const { return static_cast<double>(steps_) / static_cast<double>(step_); }

 private:
  static constexpr double kStep = 15e6;  // Hz
  static constexpr std::int64_t kLeast = 5;  // a fifth of the highest clock
  static constexpr double kRemembers = 0.29;
  static constexpr std::int64_t kRises = 2;  // the part of the way up that it goes at a time: a half

  /// W at that step, at energies that go with the square root of the clock (so between 1,455 and 1,980 MHz).
  double at(std::int64_t step) const {
    const double clock = static_cast<double>(step) / static_cast<double>(steps_);
    return power_.idle_w + full_ * clock * std::sqrt(clock);
  }

  const Power& power_;
  std::int64_t steps_, step_;  // of the highest clock, and of the present one
  Time looks_at_ = power_.interval;
  double energy_ = 0, full_ = 0;
};

}  // namespace corun::sim
