// How busy L2 and DRAM are under a company of launches: the more use they make of each the longer their
// waits, and the longer their waits the less use they make.  Found by Newton's method, in a few evaluations;
// where that does not arrive, by bisection, which is slow and needs nothing but that use falls as waits grow.
// With + - * / and sqrt alone, so that results are the same anywhere.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

#include "sim/model/contention.h"
#include "traces/model/memory_waits.h"

namespace corun::sim {

/// What a launch asks of the memory.
struct Presser {
  double blocks = 0, per_sm = 0;         // on all SMs, and on each that has any
  double issue = 0;                      // ps a block
  double arrival_randomness = 1;         // as of `BlockLoad`
  double delay = 0, by_f = 0, by_g = 0;  // its D is delay + by_f * F + by_g * G
  double l2 = 0, read = 0, write = 0;    // ps a block of the whole GPU's L2, and of its DRAM by streaming
  double dram_cost = 1;
  bool random = false;
};

struct MemoryBalance {
  double f = 1, g = 1;         // latency inflation of what waits for DRAM, and for L2
  double use = 0, l2_use = 0;  // 0 to 1
  double writes = 0.5;         // share of DRAM's use
};

inline constexpr std::size_t kMostPressers = 32;
/// Of what is left of DRAM and of L2: a step of Newton's so short is the last, as the next would be about its
/// square.
inline constexpr double kNewtonClose = 1e-4;
/// Steps, of the use of DRAM and for each of that of L2, for what Newton's method does not find; and
/// rounds of both, in which the share of writes settles.
inline constexpr int kBisections = 20, kL2Bisections = 14, kWriteRounds = 2;
inline constexpr double kMostUse = 0.99999;

/// Of at most `kMostPressers`.  `from`: a balance of nearly the same company, if there is one.
MemoryBalance balance(std::span<const Presser> pressers, const MemoryLimits& limits,
                      const MemoryBalance* from = nullptr);
/// From `at` if it has `started` there.  False if it does not arrive.
bool balance_by_newton(std::span<const Presser> pressers, const MemoryLimits& limits, bool started,
                       MemoryBalance& at);
MemoryBalance balance_by_bisection(std::span<const Presser> pressers, const MemoryLimits& limits,
                                   int steps = kBisections, int l2_steps = kL2Bisections,
                                   int rounds = kWriteRounds);

/// What finds DRAM's queues full, as latency inflation.
inline double backlog_at(double use, const MemoryLimits& m) { return dram_backlog(use, m.dram.backlog); }

/// Time at the slots.  What comes at random waits for what is there; what does not waits only where the slots
/// cannot serve all.
inline double queue(double issue, double blocks, double delay, double arrival_randomness = 1) {
  const double b = blocks * issue - delay;
  const double random = std::max((b + std::sqrt(b * b + 4 * issue * delay)) / 2, b);
  return arrival_randomness < 1 ? std::max(issue + arrival_randomness * (random - issue), b) : random;
}

}  // namespace corun::sim
