// Small things by which tests of the stages name what they look at.
#pragma once

#include <initializer_list>

#include "sim/stages/compute_engine.h"
#include "traces/model/ids.h"

namespace corun::sim {

inline constexpr ClientId kFirst{0}, kSecond{1};
inline constexpr TaskId kA{0}, kB{1}, kC{2};

inline constexpr EngineOptions kShortcuts{true, false}, kPlain{false, false}, kAudited{false, true};

/// Half of an SM's warps and threads, in one block.
inline constexpr SmResources kHalf{1, 32, 1024, 0, 0};

inline SmMask mask(std::initializer_list<std::uint32_t> ranks) {
  SmMask m;
  for (const std::uint32_t rank : ranks) m.set(rank);
  return m;
}

}  // namespace corun::sim
