// The law of a kernel: from what its counters say and its solo times, what a block asks of its SM and of the
// memory.  Nothing here has seen a co-run, and nothing runs the engine.
//
// Counters give a block's time at the issue slots, pipes and port of its SM, and its bytes.  Three numbers are
// left: how much longer it keeps its SM than counters say, its waits for memory, and what its bytes cost beside
// streamed ones.  Each has a usual value and a spread.  The solo time on the whole GPU fixes the latency that
// nobody stretches, or the cost of the bytes; a solo time on a part of the GPU fixes which of both it is.
#pragma once

#include <cstdint>
#include <span>

#include "sim/model/contention.h"
#include "sim/model/kernel_features.h"

namespace corun::sim {

/// A solo time, ps, on `sms` SMs.
struct SoloPoint {
  std::uint32_t sms;
  double time;
};

/// The likeliest load under which the kernel has its solo time `whole`, and comes nearest to those on parts.
BlockLoad fit(const KernelFeatures& f, const SoloPoint& whole, std::span<const SoloPoint> parts);

/// Length of the kernel alone on `sms` SMs, ps: full waves, then what is left of the blocks, which has the
/// memory to itself.  A grid of one whole wave that fills each SM with a block or two hands out its work by
/// itself, and loses nothing to a last wave.  Not below what the dispatcher needs.
double length(const KernelFeatures& f, const BlockLoad& load, std::uint32_t sms);

}  // namespace corun::sim
