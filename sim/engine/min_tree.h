// The least of a fixed number of times that change often: a tournament over an array, log2(n) comparisons a
// change.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <vector>

namespace corun::sim {

class MinTree {
 public:
  static constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();

  explicit MinTree(std::uint32_t n) : leaves_(std::bit_ceil(std::max(n, 2u))), least_(2 * leaves_, kNone) {}

  std::int64_t least() const { return least_[1]; }
  std::int64_t at(std::uint32_t i) const { return least_[leaves_ + i]; }

  void set(std::uint32_t i, std::int64_t key) {
    std::uint32_t k = leaves_ + i;
    least_[k] = key;
    for (k /= 2; k != 0; k /= 2) {
      const std::int64_t winner = std::min(least_[2 * k], least_[2 * k + 1]);
      if (least_[k] == winner) return;
      least_[k] = winner;
    }
  }

  /// Calls f(i) for every i at the least time, in ascending order.
  template <typename F>
  void for_each_least(F&& f) const {
    if (least_[1] != kNone) visit(1, f);
  }

 private:
  template <typename F>
  void visit(std::uint32_t k, F& f) const {
    if (least_[k] != least_[1]) return;
    if (k >= leaves_) return f(k - leaves_);
    visit(2 * k, f);
    visit(2 * k + 1, f);
  }

  std::uint32_t leaves_;
  std::vector<std::int64_t> least_;
};

}  // namespace corun::sim
