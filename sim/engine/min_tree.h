// The least of a fixed number of times that change often: rows of sixteen, the least of each row, the least of
// all.  A change looks at its row only if the time that was the least of it has grown.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace corun::sim {

class MinTree {
 public:
  static constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();

  explicit MinTree(std::uint32_t n)
      : times_((std::size_t{n} + kRow - 1) / kRow * kRow, kNone), rows_(times_.size() / kRow, kNone) {}

  std::int64_t least() const { return least_; }
  std::int64_t at(std::uint32_t i) const { return times_[i]; }

  void set(std::uint32_t i, std::int64_t key) {
    std::int64_t& row = rows_[i / kRow];
    const std::int64_t was = std::exchange(times_[i], key), row_was = row;
    if (key <= row)
      row = key;
    else if (was == row)
      row = least_of(&times_[i / kRow * kRow], kRow);
    if (row <= least_)
      least_ = row;
    else if (row_was == least_)
      least_ = least_of(rows_.data(), rows_.size());
  }

  /// Calls f(i) for every i at the least time, in ascending order.
  template <typename F>
  void for_each_least(F&& f) const {
    if (least_ == kNone) return;
    for (std::uint32_t r = 0; r < rows_.size(); ++r) {
      if (rows_[r] != least_) continue;
      for (std::uint32_t i = r * kRow; i < (r + 1) * kRow; ++i)
        if (times_[i] == least_) f(i);
    }
  }

 private:
  static constexpr std::uint32_t kRow = 16;

  static std::int64_t least_of(const std::int64_t* times, std::size_t n) {
    std::int64_t least = kNone;
    for (std::size_t i = 0; i < n; ++i) least = std::min(least, times[i]);
    return least;
  }

  std::vector<std::int64_t> times_, rows_;
  std::int64_t least_ = kNone;
};

}  // namespace corun::sim
