#include "sim/stages/placement.h"

namespace corun::sim {

void Placement::reset(const SmMask& allowed, std::uint32_t sms) {
  allowed_ = allowed;
  with_room_.fill(SmMask{});
  room_.fill(0);
  top_ = 0;
  for (std::uint32_t rank = 0; rank < sms; ++rank)
    if (allowed_.test(rank)) with_room_[0].set(rank);
  seen = 0;
}

}  // namespace corun::sim
