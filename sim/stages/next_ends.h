// When the next block ends on the SMs of each cohort, and on which of them first.  As a rule that is one cohort,
// whose head is kept, so that at its end nobody looks for it.  Of many cohorts the ends are kept by groups, each with
// its least: a change concerns one group, and no look depends on the one before, as on the path of a tree.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <vector>

#include "sim/stages/cohorts.h"
#include "traces/model/expects.h"

namespace corun::sim {

class NextEnds {
 public:
  static constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();

  explicit NextEnds(std::uint32_t sms)
      : least_((sms + kGroup - 1) / kGroup, kNone), ends_(least_.size() * kGroup, kNone) {
    CORUN_EXPECTS(least_.size() <= 64);
  }

  /// The least of them, as of find_first(); kNone: there is none.
  std::int64_t first() const { return first_; }
  std::int64_t of(std::uint32_t head) const { return ends_[head]; }
  /// find_first() is to follow.
  void set(std::uint32_t head, std::int64_t end) {
    ends_[head] = end;
    changed_ |= std::uint64_t{1} << head / kGroup;
  }
  void find_first(const Cohorts& cohorts) {
    by_groups_ = cohorts.list().size() > kFewHeads;
    if (!by_groups_) return find_first_of(cohorts.list());
    bring_up_to_date();
    first_ = least_of(least_.data(), least_.size());
  }
  /// f(head) for those of the first end, which there is, in ascending order.
  template <typename F>
  void for_each_first(const Cohorts& cohorts, F&& f) const {
    if (by_groups_) return for_each_first_by_groups(f);
    if (!several_) return f(head_);
    for (const std::uint16_t head : cohorts.list())
      if (of(head) == first_) f(head);
  }

  /// The cohort of `other` has left that of `head`.
  void split(std::uint32_t head, std::uint32_t other) {
    set(other, of(head));
    several_ = several_ || head_ == head;
    if (by_groups_) bring_up_to_date();
  }
  /// The cohort of `other` is about to become one with that of another head, which has the same end.
  void merge(std::uint32_t other) {
    set(other, kNone);
    several_ = several_ || head_ == other;
    if (by_groups_) bring_up_to_date();
  }

 private:
  /// Up to which looking at each is quicker.
  static constexpr std::size_t kFewHeads = 12;
  static constexpr std::uint32_t kGroup = 8;

  void find_first_of(const std::vector<std::uint16_t>& list) {
    // The first pass finds the least end, the second which heads have it. Neither has a branch. That is
    // quicker than one pass with a branch that the processor cannot foretell.
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
  /// The least of n ends. Those at even places and those at odd places have a minimum each, so that the
  /// processor can compute the two side by side.
  static std::int64_t least_of(const std::int64_t* from, std::size_t n) {
    std::int64_t even = kNone, odd = kNone;
    std::size_t i = 0;
    for (; i + 1 < n; i += 2) even = std::min(even, from[i]), odd = std::min(odd, from[i + 1]);
    if (i < n) even = std::min(even, from[i]);
    return std::min(even, odd);
  }
  void bring_up_to_date() {
    for (; changed_ != 0; changed_ &= changed_ - 1) {
      const auto group = static_cast<std::uint32_t>(std::countr_zero(changed_));
      least_[group] = least_of(&ends_[std::size_t{group} * kGroup], kGroup);
    }
  }
  template <typename F>
  void for_each_first_by_groups(F& f) const {
    for (std::uint32_t group = 0; group < least_.size(); ++group) {
      if (least_[group] != first_) continue;
      for (std::uint32_t head = group * kGroup; head < (group + 1) * kGroup; ++head)
        if (ends_[head] == first_) f(static_cast<std::uint16_t>(head));
    }
  }

  std::vector<std::int64_t> least_;  // by group: its least end; out of date for groups in `changed_`
  std::uint64_t changed_ = 0;        // a bit a group: an end of it has changed since
  std::vector<std::int64_t> ends_;   // by head; kNone: there is no cohort of it
  std::int64_t first_ = kNone;
  bool by_groups_ = false;  // there are many heads
  // Used while there are few heads:
  std::uint16_t head_ = 0;  // the head with the first end
  bool several_ = true;     // or several heads may have it
};

}  // namespace corun::sim
