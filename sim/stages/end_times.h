// When the next block of each SM, or cohort of SMs, ends: a tree if every SM is on its own, else a list, as
// cohorts are few.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sim/engine/expects.h"
#include "sim/engine/min_tree.h"
#include "sim/stages/cohorts.h"

namespace corun::sim {

class EndTimes {
 public:
  static constexpr std::int64_t kNone = MinTree::kNone;

  EndTimes(std::uint32_t sms, bool together)
      : together_(together), tree_(sms), of_head_(sms, kNone) {}

  void set(std::uint32_t head, std::int64_t end) {
    CORUN_EXPECTS_SLOW(head < of_head_.size());
    if (!together_) return tree_.set(head, end);
    of_head_[head] = end;
    least_ = kUnknown;
  }
  /// The cohort of `other` has left that of `head`.
  void split(std::uint32_t head, std::uint32_t other) {
    if (together_) set(other, of_head_[head]);
  }

  std::int64_t least(const Cohorts& cohorts) const {
    if (!together_) return tree_.least();
    if (least_ == kUnknown) find_least(cohorts);
    return least_;
  }
  /// f(head) for each cohort with blocks that end then, which is the least.
  template <typename F>
  void for_each_at(std::int64_t time, const Cohorts& cohorts, F&& f) {
    CORUN_EXPECTS_SLOW(time == least(cohorts));
    if (!together_) return tree_.for_each_least(f);
    if (time == least_ && least_at_ != kSeveral) return f(least_at_);
    for (const std::uint32_t head : cohorts.list())
      if (of_head_[head] == time) f(head);
  }

 private:
  static constexpr std::int64_t kUnknown = -1;
  static constexpr std::uint32_t kSeveral = ~std::uint32_t{0};

  void find_least(const Cohorts& cohorts) const {
    std::int64_t least = kNone;
    std::uint32_t at = 0, several = 0;
    for (const std::uint32_t head : cohorts.list()) {  // without branches: they could not be foreseen
      const std::int64_t end = of_head_[head];
      several = (end < least ? 0 : several) + (end <= least);
      at = end < least ? head : at;
      least = std::min(least, end);
    }
    least_ = least;
    least_at_ = several == 1 ? at : kSeveral;
  }

  bool together_;
  MinTree tree_;                       // by rank
  std::vector<std::int64_t> of_head_;  // by head
  mutable std::int64_t least_ = kNone;
  mutable std::uint32_t least_at_ = kSeveral;  // the one, if only one ends then
};

}  // namespace corun::sim
