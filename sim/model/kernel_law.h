// How long a kernel takes alone on any number of SMs, from what its counters say and its solo times.  Nothing
// here has seen a co-run, and nothing runs the engine.
//
// Counters give a block's time at the issue slots, pipes and port of its SM, and its bytes.  Three numbers are
// left: how much longer it keeps its SM than counters say, its waits for memory, and what its bytes cost beside
// streamed ones.  Each has a usual value and a spread.  The solo time on the whole GPU fixes the latency that
// nobody stretches, or the cost of the bytes; a solo time on a part of the GPU fixes which of both it is.
//
// Leaves out: where the SMs of a part lie, so that a part which fills whole GPCs reads no less than one which is
// spread (experiments/h200/parts, `mechanisms`).
#pragma once

#include <cstdint>
#include <span>

#include "sim/model/contention.h"
#include "sim/model/kernel_features.h"
#include "sim/model/kernel_fit.h"

namespace corun::sim {

class KernelLaw {
 public:
  /// The likeliest law under which the kernel has its solo time `whole`, and comes nearest to those on `parts`.
  KernelLaw(const KernelFeatures& features, const SoloPoint& whole, std::span<const SoloPoint> parts);

  /// Length of the kernel alone on `sms` SMs, ps: full waves, then what is left of the blocks, which has the
  /// memory to itself.  A grid of one whole wave that fills each SM with a block or two hands out its work by
  /// itself, and loses nothing to a last wave.  Not below what the dispatcher needs.
  static double length(const KernelFeatures& features, const BlockLoad& load, std::uint32_t sms);

  /// What a block asks for under it.
  const BlockLoad& load() const { return load_; }

 private:
  BlockLoad load_;
};

}  // namespace corun::sim
