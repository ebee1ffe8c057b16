// SMs in the same state: the same residents, each as far, and the same room.  What happens to one of a cohort
// happens to all, so that they are kept as one, under the rank of the first ("head").  A cohort is a way to
// store, no part of the model: with `together` false, every SM is on its own, and the results are the same.
#pragma once

#include <vector>

#include "sim/stages/sm_mask.h"

namespace corun::sim {

class Cohorts {
 public:
  Cohorts(std::uint32_t sms, bool together);

  bool together() const { return together_; }
  const SmMask& heads() const { return heads_; }
  /// The same, in ascending order.
  const std::vector<std::uint16_t>& list() const { return list_; }
  const SmMask& members(std::uint32_t head) const { return members_[head]; }
  std::uint32_t size(std::uint32_t head) const { return size_[head]; }

  /// The members in `part` and the others, both at least one, become cohorts of their own.  Returns the head
  /// of the one without the old head.
  std::uint32_t split(std::uint32_t head, const SmMask& part);
  /// Both must be in the same state, and `head` before `other`.
  void merge(std::uint32_t head, std::uint32_t other);

  struct Part {
    std::uint32_t head;
    SmMask members;
  };
  /// From now on no cohort may lie partly inside `mask`. Those that do, with what is inside: the caller splits them.
  std::vector<Part> respect(const SmMask& mask);
  bool may_merge(std::uint32_t a, std::uint32_t b) const { return together_ && zone_[a] == zone_[b]; }

 private:
  bool divide_zones(const SmMask& mask);

  bool together_;
  SmMask heads_;
  std::vector<std::uint16_t> list_;
  std::vector<SmMask> members_;      // by head
  std::vector<std::uint32_t> size_;  // by head
  std::vector<std::uint32_t> zone_;  // by rank: SMs that no mask so far tells apart
  std::vector<SmMask> masks_;        // so far
};

}  // namespace corun::sim
