// The launches on the GPU, in the order of launching.  With graphs there are a thousand of them, and those
// near the front end first: to take one out, the shorter side moves.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "traces/model/ids.h"

namespace corun {

class LaunchList {
 public:
  bool empty() const { return first_ == ids_.size(); }
  auto begin() const { return ids_.begin() + static_cast<std::ptrdiff_t>(first_); }
  auto end() const { return ids_.end(); }

  void push_back(LaunchId id) {
    if (2 * first_ > ids_.size()) {
      ids_.erase(ids_.begin(), ids_.begin() + static_cast<std::ptrdiff_t>(first_));
      first_ = 0;
    }
    if (id.slot >= number_.size()) number_.resize(id.slot + 1);
    number_[id.slot] = pushed_++;
    ids_.push_back(id);
  }
  /// Must be in the list.
  void erase(LaunchId id) {
    const auto front = ids_.begin() + static_cast<std::ptrdiff_t>(first_);
    const auto found = std::lower_bound(
        front, ids_.end(), id, [this](LaunchId a, LaunchId b) { return number_[a.slot] < number_[b.slot]; });
    if (found - front > ids_.end() - found) {
      ids_.erase(found);
      return;
    }
    std::move_backward(front, found, found + 1);
    ++first_;
  }
  template <class Goes>
  void erase_if(Goes goes) {
    ids_.erase(std::remove_if(ids_.begin() + static_cast<std::ptrdiff_t>(first_), ids_.end(), goes),
               ids_.end());
  }

 private:
  std::vector<LaunchId> ids_;
  std::size_t first_ = 0;
  std::vector<std::uint64_t> number_;  // by slot: as how-manieth it came
  std::uint64_t pushed_ = 0;
};

}  // namespace corun
