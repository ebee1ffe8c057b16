// When the next block ends on the SMs of each cohort, and on which of them first.  As a rule that is one cohort,
// whose head is kept, so that at its end nobody looks for it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "sim/stages/cohorts.h"

namespace corun::sim {

class NextEnds {
 public:
  static constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();

  explicit NextEnds(std::uint32_t sms) : ends_(sms, kNone) {}

  /// The least of them, as of find_first(); kNone: there is none.
  std::int64_t first() const { return first_; }
  std::int64_t of(std::uint32_t head) const { return ends_[head]; }
  /// find_first() is to follow.
  void set(std::uint32_t head, std::int64_t end) { ends_[head] = end; }
  void find_first(const Cohorts& cohorts) {
    // Twice without a branch is quicker than once with one that cannot be foretold.
    std::int64_t first = kNone;
    for (const std::uint16_t head : cohorts.list()) first = std::min(first, ends_[head]);
    std::uint32_t heads = 0, last = 0;
    for (const std::uint16_t head : cohorts.list()) {
      const bool has_it = ends_[head] == first;
      heads += has_it;
      last = has_it ? head : last;
    }
    first_ = first;
    head_ = static_cast<std::uint16_t>(last);
    several_ = heads != 1;
  }
  /// f(head) for those of the first end.
  template <typename F>
  void for_each_first(const Cohorts& cohorts, F&& f) const {
    if (!several_) return f(head_);
    for (const std::uint16_t head : cohorts.list())
      if (ends_[head] == first_) f(head);
  }

  /// The cohort of `other` has left that of `head`.
  void split(std::uint32_t head, std::uint32_t other) {
    ends_[other] = ends_[head];
    several_ = several_ || head_ == head;
  }
  /// The cohort of `other` is about to join that of another head, which has the same end.
  void join(std::uint32_t other) {
    ends_[other] = kNone;
    several_ = several_ || head_ == other;
  }

 private:
  std::vector<std::int64_t> ends_;  // by head
  std::int64_t first_ = kNone;
  std::uint16_t head_ = 0;  // whose it is,
  bool several_ = true;     // if it is not of several
};

}  // namespace corun::sim
