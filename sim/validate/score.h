// How far simulated slowdowns are from measured ones.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "sim/validate/reference.h"
#include "sim/validate/replay.h"

namespace corun::sim {

/// Of the two clients of a row: time together over time alone.
struct Slowdowns {
  double a = 1, b = 1;
  double stp() const { return 1 / a + 1 / b; }
};

struct ComparedRow {
  std::string pair;  // "a+b"
  Mode mode = Mode::streams;
  Slowdowns measured, simulated;
  double spread = 1;  // of the measurement
  std::string why;    // as Replay::Row::why
};

/// Errors are |simulated / measured - 1|.
struct Errors {
  std::size_t rows = 0;
  double slowdown_mean = 0, slowdown_median = 0, slowdown_p95 = 0, slowdown_worst = 0;  // both clients'
  double stp_mean = 0;
};
struct SoloErrors {
  std::size_t times = 0;
  double mean = 0, worst = 0;
  std::string worst_kernel;
};

struct Comparison {
  std::vector<ComparedRow> rows;
  std::map<Mode, Errors> modes;
  Errors all;
  std::size_t pairs = 0;          // with two modes or more: what the next two are of
  double kendall_tau = 0;         // of simulated and measured STP over a pair's modes, mean of the pairs
  double kendall_tau_strict = 0;  // the same if no two STP count as equal that are not
  double best_mode_picked = 0;    // pairs whose best mode as simulated is as good as the best measured
  std::map<std::uint32_t, SoloErrors> solo;  // by SMs
  SoloErrors solo_all;
};

/// A mode is as good as the best if its measured STP is within this fraction of it.
inline constexpr double kAsGood = 0.02;

/// Two STP closer than this count as equal: what a second card measures differs by 0.75 % in the mean
/// (experiments/reference/h200-corun-2.json.gz), so that finer orders are noise.
inline constexpr double kAlike = 0.01;

Comparison compare(const Reference& reference, const Replay& replay);

/// Errors of the rows in a mode, or of all; undefined numbers are NaN.
Errors errors_of(std::span<const ComparedRow> rows);
/// Linear between the closest ranks, as numpy has it; NaN of nothing.
double percentile(std::vector<double> values, double fraction);
/// Tau-b, values within the fraction `alike` of the larger being ties; NaN where one side is all ties.
double kendall_tau(std::span<const double> x, std::span<const double> y, double alike);
/// Whether the mode with the best simulated STP (of several the first) is as good as the best measured one.
bool picks_best(std::span<const double> measured_stp, std::span<const double> simulated_stp);

}  // namespace corun::sim
