// The lower median, which importers take wherever a recording has a time several times.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace corun {

/// Of one value at least.
template <class T>
T lower_median(std::vector<T> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace corun
