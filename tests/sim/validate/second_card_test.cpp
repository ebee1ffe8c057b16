// Is the model one of GPUs, and not of one card?  What was measured on an H100 (experiments/h100), simulated with
// the description that `sim calibrate` wrote there.  No constant was chosen by these measurements.
#include <gtest/gtest.h>

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
