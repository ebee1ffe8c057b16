// The power management of the GPU: what its kernels would draw at its highest clock, and the clock at which
// that stays below the limit.  Each interval it looks at the most that a window of the last one took.  As
// measured in experiments/h200/networks: under a product of large matrices an H200 lowers its clock from 1,980
// to 1,455 MHz in two steps, 45 and 95 ms after it began (clocks.json.gz); and it does for a load of two
// milliseconds that comes and goes while the mean is far below the limit (streams.json.gz, decode2k-prefill:
// 1,575 MHz at 600 W).
//
// Leaves out: temperature, the clock of the memory, and a dip of a tenth that comes once a second under load.
#pragma once

#include <algorithm>
#include <chrono>
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
    looks_at_ += kWindow;
    // pJ per ps are W.
    const double drawn = (energy - energy_) / static_cast<double>(kWindow.count());
    energy_ = energy;
    most_ = std::max(most_, drawn);
    if (looks_at_ <= sets_at_) return false;
    sets_at_ += power_.interval;
    std::int64_t step = steps_;
    while (step > steps_ / kLeast && at(step, most_) > power_.limit_w) --step;
    most_ = 0;
    const bool changed = step != step_;
    step_ = step;
    return changed;
  }
  /// The highest clock over the clock.
  double stretch() const { return static_cast<double>(steps_) / static_cast<double>(step_); }

 private:
  static constexpr double kStep = 15e6;  // Hz
  static constexpr Time kWindow = std::chrono::milliseconds(2);
  static constexpr std::int64_t kLeast = 5;  // a fifth of the highest clock

  /// W at that step, if kernels go on as fast as the clock does, at energies that go with the square root of
  /// the clock (so between 1,455 and 1,980 MHz).
  double at(std::int64_t step, double drawn) const {
    const double clock = static_cast<double>(step) / static_cast<double>(steps_);
    return power_.idle_w + drawn * static_cast<double>(step) / static_cast<double>(step_) * std::sqrt(clock);
  }

  const Power& power_;
  std::int64_t steps_, step_;  // of the highest clock, and of the present one
  Time looks_at_ = kWindow, sets_at_ = power_.interval;
  double energy_ = 0, most_ = 0;
};

}  // namespace corun::sim
