// Which SM takes the next block: "leftover, then most room".  A block goes to the SM that could take the most
// blocks of its kernel now, judged anew for each block; equally free SMs are taken in the device's fixed
// order.
//
// Known deviation: an H200 starts its second lap over one group of TPCs before the first lap is complete
// (docs/model.md).
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "sim/stages/sm_mask.h"
#include "traces/model/expects.h"
#include "traces/model/occupancy.h"

namespace corun::sim {

/// For one task: how many of its blocks each SM could take, kept up to date by the journal of changes to the
/// SMs.
class Placement {
 public:
  static constexpr std::uint32_t kMostPlaces = 64;  // counts are capped here: no GPU holds more blocks an SM

  void reset(const SmMask& allowed) {
    allowed_ = allowed;
    seen = 0;
  }
  /// No SM has room for all that is known.
  void clear() {
    for (; levels_ != 0; levels_ &= levels_ - 1) with_free_[std::countr_zero(levels_) + 1] = {};
    with_free_[0] = allowed_;
    free_.fill(0);
  }

  /// How many blocks the SM with the most room could take, of those that could take at most `most`; of the
  /// SMs of `ready` only, if it is given.
  std::uint32_t most_free(const SmMask* ready, std::uint32_t most = kMostPlaces) const {
    CORUN_EXPECTS_SLOW(most <= kMostPlaces);
    if (most == 0) return 0;
    std::uint64_t levels = levels_ << (kMostPlaces - most);
    while (levels != 0) {
      const auto skipped = static_cast<std::uint32_t>(std::countl_zero(levels));
      if (ready == nullptr || !(with_free_[most - skipped] & *ready).none()) return most - skipped;
      levels &= ~(std::uint64_t{1} << (kMostPlaces - 1 - skipped));
    }
    return 0;
  }
  SmMask with_free(std::uint32_t n, const SmMask* ready) const {
    CORUN_EXPECTS_SLOW(n <= kMostPlaces);
    return ready == nullptr ? with_free_[n] : with_free_[n] & *ready;
  }
  std::uint32_t free_at(std::uint32_t rank) const { return free_[rank]; }

  void set_free(std::uint32_t rank, std::uint32_t n) {
    CORUN_EXPECTS_SLOW(rank < kMaxSms && n <= kMostPlaces);
    if (!allowed_.test(rank)) return;
    const std::uint32_t before = free_[rank];
    with_free_[before].reset(rank);
    if (before != 0 && with_free_[before].none()) levels_ &= ~level(before);
    with_free_[n].set(rank);
    if (n != 0) levels_ |= level(n);
    free_[rank] = static_cast<std::uint8_t>(n);
  }

  std::uint64_t seen = 0;  // length of the journal when this was last brought up to date

 private:
  static std::uint64_t level(std::uint32_t places) { return std::uint64_t{1} << (places - 1); }

  SmMask allowed_;
  std::array<SmMask, kMostPlaces + 1> with_free_;  // by number of blocks
  std::array<std::uint8_t, kMaxSms> free_{};
  std::uint64_t levels_ = 0;  // those with SMs
};

}  // namespace corun::sim
