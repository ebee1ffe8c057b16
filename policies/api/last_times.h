// What the latest launches of a kernel took, where nobody knows it beforehand.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "traces/model/time.h"

namespace corun {

/// Each end is seen a little late: a time is too short where the end before was seen later than its own, and
/// too long beside others.
class LastTimes {
 public:
  static constexpr std::size_t kTimes = 8;
  void add(Time took) { times_[n_++ % kTimes] = took; }
  /// The lower quartile; of fewer than four the shortest; of none 0.
  Time usual() const {
    const std::size_t known = std::min(n_, kTimes);
    std::array<Time, kTimes> sorted = times_;
    const auto at = sorted.begin() + static_cast<std::ptrdiff_t>(known / 4);
    std::nth_element(sorted.begin(), at, sorted.begin() + static_cast<std::ptrdiff_t>(known));
    return *at;
  }

 private:
  std::array<Time, kTimes> times_{};
  std::size_t n_ = 0;
};

}  // namespace corun
