// When the next block ends on the SMs of each cohort, and on which of them first.  As a rule that is one cohort,
// whose head is kept, so that at its end nobody looks for it.  Of many cohorts the ends are the leaves of a
// tournament tree, in which a change concerns the path to the root alone.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <vector>

#include "sim/stages/cohorts.h"

namespace corun::sim {

class NextEnds {
 public:
  static constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();

  explicit NextEnds(std::uint32_t sms) : leaves_(std::bit_ceil(sms)), least_(2 * std::size_t{leaves_}, kNone) {}

  /// The least of them, as of find_first(); kNone: there is none.
  std::int64_t first() const { return first_; }
  std::int64_t of(std::uint32_t head) const { return least_[leaves_ + head]; }
  /// `changes` heads are about to be set.
  void expect(std::size_t changes) { is_tree_ = is_tree_ && changes * kManyChanges < leaves_; }
  /// find_first() is to follow.
  void set(std::uint32_t head, std::int64_t end) {
    std::uint32_t at = leaves_ + head;
    least_[at] = end;
    if (!is_tree_) return;
    while ((at /= 2) != 0) {
      const std::int64_t least = std::min(least_[2 * at], least_[2 * at + 1]);
      if (least_[at] == least) return;
      least_[at] = least;
    }
  }
  void find_first(const Cohorts& cohorts) {
    if (cohorts.list().size() <= kFewHeads) return find_first_of(cohorts.list());
    if (!is_tree_)
      for (std::uint32_t at = leaves_ - 1; at != 0; --at) least_[at] = std::min(least_[2 * at], least_[2 * at + 1]);
    is_tree_ = true;
    first_ = least_[1];
  }
  /// f(head) for those of the first end, which there is, in ascending order.
  template <typename F>
  void for_each_first(const Cohorts& cohorts, F&& f) const {
    if (is_tree_) return visit_first(1, f);
    if (!several_) return f(head_);
    for (const std::uint16_t head : cohorts.list())
      if (of(head) == first_) f(head);
  }

  /// The cohort of `other` has left that of `head`.
  void split(std::uint32_t head, std::uint32_t other) {
    set(other, of(head));
    several_ = several_ || head_ == head;
  }
  /// The cohort of `other` is about to join that of another head, which has the same end.
  void join(std::uint32_t other) {
    set(other, kNone);
    several_ = several_ || head_ == other;
  }

 private:
  /// Up to which looking at each is quicker.
  static constexpr std::size_t kFewHeads = 12;
  /// Where more than one leaf in this number changes, making the tree anew takes less time.
  static constexpr std::size_t kManyChanges = 8;

  void find_first_of(const std::vector<std::uint16_t>& list) {
    is_tree_ = false;
    // Twice without a branch is quicker than once with one that cannot be foretold.
    std::int64_t first = kNone;
    for (const std::uint16_t head : list) first = std::min(first, of(head));
    std::uint32_t heads = 0, last = 0;
    for (const std::uint16_t head : list) {
      const bool has_it = of(head) == first;
      heads += has_it;
      last = has_it ? head : last;
    }
    first_ = first;
    head_ = static_cast<std::uint16_t>(last);
    several_ = heads != 1;
  }
  template <typename F>
  void visit_first(std::uint32_t at, F& f) const {
    for (; at < leaves_; at = 2 * at + 1) {
      if (least_[at] != first_) return;
      if (least_[2 * at] != first_) continue;
      visit_first(2 * at, f);
      if (least_[2 * at + 1] != first_) return;
    }
    f(static_cast<std::uint16_t>(at - leaves_));
  }

  std::uint32_t leaves_;
  std::vector<std::int64_t> least_;  // from leaves_ on ends by head; before, if it is a tree, the least of 2 i and 2 i + 1
  bool is_tree_ = false;
  std::int64_t first_ = kNone;
  // Of few heads:
  std::uint16_t head_ = 0;  // whose it is,
  bool several_ = true;     // if it is not of several
};

}  // namespace corun::sim
