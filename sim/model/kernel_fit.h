// The search for what counters leave open of a kernel: its time at the issue slots, its waits, and what its
// bytes cost, so that the contention model gives it the solo times that it has.  Nothing here has seen a
// co-run, and nothing runs the engine.
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

/// To solo times on two SM counts or more: issue time, waits and the cost of its bytes with which they come
/// out best.  Where they leave it open, waits are not below what the bytes imply, and bytes cost what streamed
/// ones do.
BlockLoad fit_curve(const KernelFeatures& f, std::span<const SoloPoint> curve);

/// To the solo time on the whole GPU alone: the same parts, each near what the counters imply.
BlockLoad fit_whole(const KernelFeatures& f, const SoloPoint& whole);

/// Length of the kernel alone on `sms` SMs, ps: full waves, then what is left of the blocks, which has the
/// memory to itself.  Not below what the dispatcher needs.
double length(const KernelFeatures& f, const BlockLoad& load, std::uint32_t sms);

}  // namespace corun::sim
