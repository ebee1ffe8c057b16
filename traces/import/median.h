// The lower median, which importers take wherever a recording has a time several times, and how far such
// times lie apart.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace corun {

/// Of one value at least.
template <class T>
T lower_median(std::vector<T> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// A tenth and nine tenths of the values are no more.  Of one value at least.
template <class T>
std::pair<T, T> tenths(std::vector<T> values) {
  std::ranges::sort(values);
  return {values[(values.size() - 1) / 10], values[9 * (values.size() - 1) / 10]};
}

}  // namespace corun
