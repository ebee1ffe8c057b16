// Runs that differ in their seed alone: which seeds, all of them as one result, and how far they lie apart.
//
// Leaves out: sureness inside one run, whose requests follow from each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "traces/timeline/metrics.h"

namespace corun {

/// True if another seed gives other arrivals, or other stalls of a host.
bool is_random(const Trace& trace);
/// The trace's, and where it is random four more.
std::vector<std::uint64_t> usual_seeds(const Trace& trace);

/// A figure over seeds.  NaN of none; one of a single run has no deviation.
struct Estimate {
  std::size_t runs = 0;
  double mean = 0, deviation = 0, least = 0, most = 0;  // deviation: of one run, from the sample (n - 1)

  /// Half of the 95 % interval of the mean, by Student's t; infinite of one run.
  double half_width() const;
};
Estimate estimate(std::span<const double> values);
/// Leaves out runs in which the number is undefined.
Estimate estimate(std::span<const RunResult> runs, const std::function<double(const RunResult&)>& number);

/// Quantiles are of all runs' requests together, counts are sums, the makespan is the last, the seed the first; each other number is the mean of those
/// that are defined.  `runs` are of one trace and policy.
RunResult over_seeds(std::span<const RunResult> runs);

/// "p99", "mean" or "stp".
enum class Figure : std::uint8_t { p99, mean, stp };
struct NamedEstimate {
  std::string name;  // "stp", "cam p99"
  Estimate estimate;
};
/// One for each client; for the STP one of all.
std::vector<NamedEstimate> estimates(std::span<const RunResult> runs, Figure figure);

/// A line for each STP and each client's p99: mean ± deviation, least … most.
std::string format_seeds(std::span<const std::vector<RunResult>> by_policy);

}  // namespace corun
