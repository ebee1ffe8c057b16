// Durations of one kind, with those that had not ended: quantiles count what is known of each.
//
// Leaves out: quantiles between two values; what is printed as a quantile is a value that occurred.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <ranges>
#include <vector>

#include "traces/model/time.h"

namespace corun {

struct Sample {
  std::vector<Time> ended;   // ascending
  std::vector<Time> so_far;  // of those under way, which take longer; ascending
  std::size_t endless = 0;   // that never end

  void sort() { std::ranges::sort(ended), std::ranges::sort(so_far); }
  void add(const Sample& other) {
    ended.insert(ended.end(), other.ended.begin(), other.ended.end());
    so_far.insert(so_far.end(), other.so_far.begin(), other.so_far.end());
    endless += other.endless;
    sort();
  }

  /// The smallest value that `percent` % do not exceed, of all but those under way that may be as short; infinite where so many never
  /// end; NaN of none.
  double quantile_ms(std::size_t percent) const {
    constexpr double kInfinite = std::numeric_limits<double>::infinity();
    if (ended.empty()) return endless > 0 ? kInfinite : std::numeric_limits<double>::quiet_NaN();
    const auto longer = [&](Time x) { return static_cast<std::size_t>(so_far.end() - std::ranges::lower_bound(so_far, x)); };
    const auto rank = [&](std::size_t of) { return (percent * of + 99) / 100; };
    // A longer x is surpassed by fewer, so the first that holds is found by halves.
    const auto at = std::ranges::partition_point(std::views::iota(std::size_t{0}, ended.size()), [&](std::size_t i) {
      return i + 1 < rank(ended.size() + endless + longer(ended[i]));
    });
    if (*at != ended.size()) return to_ms(ended[*at]);
    const std::size_t rest = longer(ended.back());
    const std::size_t beyond = rank(ended.size() + endless + rest) - ended.size();
    return beyond <= rest ? to_ms(so_far[so_far.size() - rest + beyond - 1]) : kInfinite;
  }
};

}  // namespace corun
