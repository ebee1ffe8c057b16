// Means and order statistics, of latencies as of errors: one definition for results and for comparisons of them.
//
// Leaves out: quantiles between two values; what is printed as a quantile is a value that occurred.
#pragma once

#include <cstddef>
#include <limits>
#include <numeric>
#include <vector>

#include "traces/model/time.h"

namespace corun {

/// NaN of none.
inline double mean(const std::vector<double>& values) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}
inline double mean_ms(const std::vector<Time>& times) {
  if (times.empty()) return std::numeric_limits<double>::quiet_NaN();
  return to_ms(std::accumulate(times.begin(), times.end(), Time{})) / static_cast<double>(times.size());
}

/// The smallest of the values, which ascend, that `percent` % of them do not exceed.  Of one value at least.
template <class T>
const T& order_statistic(const std::vector<T>& ascending, std::size_t percent) {
  return ascending[(percent * ascending.size() + 99) / 100 - 1];
}
inline double percentile_ms(const std::vector<Time>& ascending, std::size_t percent) {
  return ascending.empty() ? std::numeric_limits<double>::quiet_NaN() : to_ms(order_statistic(ascending, percent));
}

}  // namespace corun
