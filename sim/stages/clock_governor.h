// The power management of the GPU: what its kernels would draw at its highest clock, and the clock at which that stays below
// the limit.  Each interval it looks at what the last one took.  As measured in experiments/h200/networks, clocks.json.gz: under a
// product of large matrices an H200 lowers its clock from 1,980 to 1,455 MHz in two steps, 45 and 95 ms after it began.
//
// Leaves out: temperature, the clock of the memory, and a dip of a tenth that comes once a second under load.
#pragma once

#include <cmath>
#include <cstdint>

#include "traces/model/gpu.h"

namespace corun::sim {

class ClockGovernor {
 public:
  explicit ClockGovernor(const Gpu& gpu)
      : power_(gpu.power), steps_(std::max<std::int64_t>(1, std::llround(gpu.clock_hz / kStep))), step_(steps_) {}

  /// When it looks next; kNever: the clock is always the highest.
  Time next_time() const { return power_.limit_w > 0 ? looks_at_ : kNever; }
  /// `energy`: pJ since the beginning, beside what the idle GPU takes, if all had run at the highest clock.
  /// True: another clock.
  bool look(double energy) {
    looks_at_ += power_.interval;
    // pJ per ps are W.
    const double drawn = (energy - energy_) / static_cast<double>(power_.interval.count());
    energy_ = energy;
    std::int64_t step = steps_;
    while (step > steps_ / kLeast && at(step, drawn) > power_.limit_w) --step;
    const bool changed = step != step_;
    step_ = step;
    return changed;
  }
  /// The highest clock over the clock.
  double stretch() const { return static_cast<double>(steps_) / static_cast<double>(step_); }

 private:
  static constexpr double kStep = 15e6;         // Hz
  static constexpr std::int64_t kLeast = 5;     // a fifth of the highest clock

  /// W at that step, if the kernels go on as fast as at the present one allows: as the clock, each at an energy that goes
  /// with the voltage, as the square root of the clock (between 1,455 and 1,980 MHz).
  double at(std::int64_t step, double drawn) const {
    const double clock = static_cast<double>(step) / static_cast<double>(steps_);
    return power_.idle_w + drawn * static_cast<double>(step) / static_cast<double>(step_) * std::sqrt(clock);
  }

  const Power& power_;
  std::int64_t steps_, step_;  // of the highest clock, and of the present one
  Time looks_at_ = power_.interval;
  double energy_ = 0;
};

}  // namespace corun::sim
