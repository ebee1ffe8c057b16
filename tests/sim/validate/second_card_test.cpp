// Is the model one of GPUs, and not of one card?  What was measured on an H100 (experiments/h100), simulated with
// the description that `sim calibrate` wrote there.  No constant was chosen by these measurements.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "sim/model/other_card.h"
#include "sim/validate/networks_score.h"
#include "sim/validate/replay.h"
#include "sim/validate/runs.h"
#include "sim/validate/runs_report.h"
#include "sim/validate/score.h"
#include "traces/json/trace_json.h"

namespace corun::sim {
namespace {

Comparison compared(const char* file) {
  const Gpu gpu = read_gpu("h100-sxm");
  const Reference reference = read_reference(file, gpu, Inputs::curve);
  return compare(reference, replay(reference, gpu, {}));
}

TEST(SecondCard, PairsAreWithinTheirBoundsAndTheKnownGapStands) {
  const Comparison c = compared("experiments/h100/pairs/reference.json.gz");
  const Errors& e = c.all;
  EXPECT_LE(e.slowdown_mean, 0.03);
  EXPECT_LE(e.slowdown_p95, 0.11);
  EXPECT_LE(e.stp_mean, 0.03);
  EXPECT_GE(c.kendall_tau, 0.8);
  EXPECT_LE(e.slowdown_median, 0.018);
  EXPECT_GT(e.slowdown_median, 0.015) << "a known gap has closed";
}

TEST(SecondCard, FurtherPairsAreWithinFivePercentWhereFourAreWanted) {
  const Errors e = compared("experiments/h100/pairs/heldout.json.gz").all;
  EXPECT_LE(e.slowdown_mean, 0.05);
  EXPECT_GT(e.slowdown_mean, 0.04) << "a known gap has closed";
  EXPECT_LE(e.slowdown_median, 0.032);
  EXPECT_LE(e.slowdown_p95, 0.155);
  EXPECT_LE(e.stp_mean, 0.04);
}

/// Kernels as an H200 ran them, carried over to the H100 by the rule of `sim compare --gpus`.
struct Carried {
  std::vector<double> errors;  // of each kernel's time alone
  Comparison pairs;
};
Carried carried(const char* there, const char* here) {
  const Gpu from = read_gpu("h200"), to = read_gpu("h100-sxm");
  const Reference measured = read_reference(there, from, Inputs::curve);
  Reference reference = read_reference(here, to, Inputs::curve);
  Trace trace;
  for (const ReferenceKernel& k : measured.kernels) trace.kernels.push_back(k.kernel);
  trace = carried_over(trace, from, to).trace;
  Carried result;
  for (ReferenceKernel& k : reference.kernels) {
    const auto its = std::ranges::find(trace.kernels, k.kernel.name, &Kernel::name);
    if (its == trace.kernels.end()) throw std::runtime_error(k.kernel.name);
    result.errors.push_back(std::abs(to_ns(*its->solo_time) / to_ns(*k.kernel.solo_time) - 1));
    k.kernel = *its;
  }
  std::ranges::sort(result.errors);
  result.pairs = compare(reference, replay(reference, to, {}));
  return result;
}

TEST(SecondCard, KernelsOfTheFirstCarriedOverAreWithinTheirBounds) {
  const Carried all[] = {
      carried("experiments/reference/h200-corun.json.gz", "experiments/h100/pairs/reference.json.gz"),
      carried("experiments/h200/corun_heldout/corun.json", "experiments/h100/pairs/heldout.json.gz")};
  for (const Carried& c : all) {
    const std::size_t n = c.errors.size();
    std::printf("alone: median %.3f p90 %.3f worst %.3f; slowdown mean %.3f median %.3f\n", c.errors[n / 2],
                c.errors[n * 9 / 10], c.errors.back(), c.pairs.all.slowdown_mean, c.pairs.all.slowdown_median);
    EXPECT_LE(c.errors[n / 2], 0.10);
    EXPECT_LE(c.errors[n * 9 / 10], 0.25);
    EXPECT_LE(c.pairs.all.slowdown_mean, 0.06);
  }
}

TEST(SecondCard, RunsUnderPoliciesAreWithinFivePercentAndInTheRightOrder) {
  const RunsComparison c = compare_runs(find_runs("experiments/h100/policies"), {});
  EXPECT_EQ(c.runs.size(), 196u);
  EXPECT_LE(c.all.stp, 0.05) << format_runs(c);
  EXPECT_GE(c.order.share(), 0.88) << format_runs(c);
}

TEST(SecondCard, NetworksThatShareItAreWithinTheirBounds) {
  NetworksOptions options{{}, {}, std::chrono::milliseconds(400), 0, {}};
  MeasuredNetworks networks = read_networks(find_networks("experiments/h100/networks"), options);
  simulate_networks(networks, options);
  ASSERT_EQ(networks.mixes.size(), 5u);
  for (const Network& n : networks.networks) EXPECT_NEAR(n.simulated_ms / n.measured_ms, 1, 0.03) << n.name;
  const NetworksScore s = score_networks(networks);
  EXPECT_LE(s.others.all.mean_latency.mean(), 0.06);
  EXPECT_LE(s.others.all.throughput.mean(), 0.03);
  EXPECT_LE(s.others.all.stp.mean(), 0.012);
  EXPECT_GE(s.others.by_slowdown.simulated.right(), 4u);
}

}  // namespace
}  // namespace corun::sim
