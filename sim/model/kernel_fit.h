// The search for what counters leave open of a kernel: its time at the issue slots, its waits, and what its
// bytes cost, so that the contention model gives it the solo times that it has.  Nothing here has seen a
// co-run, and nothing runs the engine.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>

#include "sim/model/contention.h"
#include "sim/model/kernel_features.h"

namespace corun::sim {

/// Of the issue slots, what code that never waits reaches: 3.81 of 4 (experiments/h200/contention).
inline constexpr double kSlotsReached = 0.95;
/// A place is empty so long between two blocks (the same, `turnover`).
inline constexpr double kTurnover = 190e3;
/// Share of a launch's time that the dispatcher must need for it to be what bounds the launch.
inline constexpr double kDispatchBound = 0.9;

inline double square(double x) { return x * x; }
/// Between two times: near their ratio's logarithm where that is small, without one, so that results are the same on
/// any machine.
inline double distance(double a, double b) { return (a - b) / std::sqrt(a * b); }

/// What a block takes with `blocks` of the launch on `sms` SMs, alone, ps.
double block_among(const KernelFeatures& f, const BlockLoad& load, std::uint32_t sms, double blocks);

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
