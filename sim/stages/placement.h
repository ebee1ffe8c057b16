// Which SM takes the next block: "leftover, then most room".  A block goes to the SM that could take the most
// blocks of its kernel now, judged anew for each block; equally free SMs are taken in the device's fixed
// order.
//
// Known deviation: an H200 starts its second lap over one group of TPCs before the first lap is complete
// (DESIGN.md).
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/stages/sm_mask.h"
#include "traces/model/occupancy.h"

namespace corun::sim {

/// For one task: how many of its blocks each SM could take, kept up to date by the journal of changes to the
/// SMs.
class Placement {
 public:
  static constexpr std::uint32_t kMostRoom = 64;  // counts are capped here: no GPU holds more blocks an SM

  void reset(const SmMask& allowed, std::uint32_t sms);

  /// Rank of the SM of `ready` with the most room, kMaxSms if none has any.
  std::uint32_t select(const SmMask& ready) const {
    for (std::uint32_t n = top_; n > 0; --n)
      if (const std::uint32_t rank = with_room_[n].first_common(ready); rank != kMaxSms) return rank;
    return kMaxSms;
  }
  std::uint32_t room_at(std::uint32_t rank) const { return room_[rank]; }
  const SmMask& allowed() const { return allowed_; }

  void set_room(std::uint32_t rank, std::uint32_t n) {
    if (!allowed_.test(rank)) return;
    with_room_[room_[rank]].reset(rank);
    with_room_[n].set(rank);
    room_[rank] = static_cast<std::uint8_t>(n);
    if (n > top_) top_ = n;
    while (top_ > 0 && with_room_[top_].none()) --top_;
  }

  std::uint64_t seen = 0;  // length of the journal when this was last brought up to date

 private:
  SmMask allowed_;
  std::array<SmMask, kMostRoom + 1> with_room_;  // by number of blocks
  std::array<std::uint8_t, kMaxSms> room_{};
  std::uint32_t top_ = 0;
};

}  // namespace corun::sim
