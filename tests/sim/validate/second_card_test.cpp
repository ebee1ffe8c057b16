// Is the model one of GPUs, and not of one card?  What was measured on an H100 (experiments/h100), simulated
// with the description that `sim calibrate` wrote there.  No constant was chosen by these measurements.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "sim/model/other_card.h"
#include "sim/validate/networks_score.h"
#include "sim/validate/replay.h"
#include "sim/validate/runs.h"
#include "sim/validate/runs_report.h"
#include "sim/validate/score.h"
#include "tests/support/sustained.h"
#include "tests/support/whole.h"
#include "traces/json/trace_json.h"

namespace corun::sim {
namespace {

/// The rows of every n-th pair, in all its modes.
void keep_part(Reference& reference, std::size_t n) {
  std::vector<std::string> pairs;
  for (const ReferenceRow& row : reference.rows)
    if (pairs.empty() || pairs.back() != reference.pair(row)) pairs.push_back(reference.pair(row));
  const std::vector<std::string> kept = part(pairs, n);
  std::erase_if(reference.rows, [&](const ReferenceRow& row) {
    return std::ranges::find(kept, reference.pair(row)) == kept.end();
  });
}

Comparison compared(const char* file, std::size_t n, const char* description = "h100-sxm") {
  const Gpu gpu = read_gpu(description);
  Reference reference = read_reference(file, gpu, Inputs::curve);
  keep_part(reference, n);
  return compare(reference, replay(reference, gpu, {}));
}

TEST(SecondCard, PairsAreWithinTheirBounds) {
  const Comparison c = compared("experiments/h100/pairs/reference.json.gz", 5);
  const Errors& e = c.all;
  EXPECT_LE(e.slowdown_mean, 0.03);
  EXPECT_LE(e.slowdown_p95, 0.11);
  EXPECT_LE(e.stp_mean, 0.03);
  EXPECT_GE(c.kendall_tau, 0.8);
  EXPECT_LE(e.slowdown_median, 0.015);
}

/// As `sim calibrate` wrote it on another H100 than the pairs were measured on.
TEST(SecondCard, PairsAreWithinTheSameBoundsByAnotherCardsCalibration) {
  const Comparison c = compared("experiments/h100/pairs/reference.json.gz", 9, "experiments/calibrations/h100-fourth.json");
  EXPECT_LE(c.all.slowdown_mean, 0.03);
  EXPECT_LE(c.all.slowdown_median, 0.015);
  EXPECT_LE(c.all.slowdown_p95, 0.11);
  EXPECT_LE(c.all.stp_mean, 0.03);
  EXPECT_GE(c.kendall_tau, 0.8);
}

TEST(SecondCard, FurtherPairsAreWithinTheirBounds) {
  const Errors e = compared("experiments/h100/pairs/heldout.json.gz", 5).all;
  EXPECT_LE(e.slowdown_mean, 0.04);
  EXPECT_LE(e.slowdown_median, 0.02);
  EXPECT_LE(e.slowdown_p95, 0.13);
  EXPECT_LE(e.stp_mean, 0.034);  // wanted: 0.06
}

/// Kernels as an H200 ran them, carried over to the H100 by the rule of `sim compare --gpus`.
struct Carried {
  std::vector<double> errors;   // of each kernel's time alone, smallest first
  std::vector<double> differ;   // of those whose times on the two cards differ by over 5 %
  Comparison pairs;
  /// The nearest rank that at least this share of the kernels does not exceed.
  double at(double share) const {
    const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(errors.size())));
    return errors[std::max<std::size_t>(rank, 1) - 1];
  }
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
    const auto first = std::ranges::find(measured.kernels, k.kernel.name, [](const ReferenceKernel& m) {
                            return m.kernel.name;
                          })->kernel.solo_time;
    const auto off = [&](Time time) { return std::abs(to_ns(time) / to_ns(*k.kernel.solo_time) - 1); };
    result.errors.push_back(off(*its->solo_time));
    if (off(*first) > 0.05) result.differ.push_back(result.errors.back());
    k.kernel = *its;
  }
  std::ranges::sort(result.errors);
  std::ranges::sort(result.differ);
  keep_part(reference, 5);
  result.pairs = compare(reference, replay(reference, to, {}));
  return result;
}

TEST(SecondCard, KernelsOfTheFirstCarriedOverAreWithinTheirBounds) {
  const Carried all[] = {
      carried("experiments/reference/h200-corun.json.gz", "experiments/h100/pairs/reference.json.gz"),
      carried("experiments/h200/corun_heldout/corun.json", "experiments/h100/pairs/heldout.json.gz")};
  for (const Carried& c : all) {
    const std::string shown =
        fmt::format("alone: median {:.3f}, p90 {:.3f}, worst {:.3f}; {} of {} that differ: median {:.3f}; "
                    "slowdown {:.4f}",
                    c.at(0.5), c.at(0.9), c.errors.back(), c.differ.size(), c.errors.size(),
                    c.differ[c.differ.size() / 2], c.pairs.all.slowdown_mean);
    RecordProperty(&c == all ? "reference" : "heldout", shown);
    EXPECT_LE(c.at(0.5), 0.02) << shown;
    EXPECT_LE(c.at(0.9), &c == all ? 0.06 : 0.13) << shown;  // wanted: 0.25
    EXPECT_GE(c.differ.size(), 5u) << shown;
    EXPECT_LE(c.differ[c.differ.size() / 2], 0.04) << shown;
  }
  EXPECT_LE(all[0].pairs.all.slowdown_mean, 0.035);
  EXPECT_LE(all[1].pairs.all.slowdown_mean, 0.06);
}

TEST(SecondCard, RunsUnderPoliciesAreWithinFourPercentAndInTheRightOrder) {
  RunsOptions options;
  if (!whole()) options.mixes = {"compute", "network", "periodic", "two-rt"};
  const RunsComparison c = compare_runs(find_runs("experiments/h100/policies"), options);
  EXPECT_EQ(c.runs.size(), whole() ? 196u : 4 * 14u);
  EXPECT_LE(c.all.stp, 0.04) << format_runs(c);
  EXPECT_GE(c.order.share(), 0.9) << format_runs(c);
}

/// Of all mixes, those with kernels set aside included.
TEST(SecondCard, RunsOfAUsersKernelsAreWithinFourPercentAndInTheRightOrder) {
  RunsOptions options;
  if (!whole()) options.mixes = {"open", "signals"};
  const RunsComparison c = compare_runs(find_runs("experiments/h100/user_kernels"), options);
  EXPECT_EQ(c.runs.size(), whole() ? 60u : 24u);
  EXPECT_LE(c.all.stp, 0.04) << format_runs(c);
  EXPECT_GE(c.order.share(), 0.93) << format_runs(c);
}

TEST(SecondCard, NetworksThatShareItAreWithinTheirBounds) {
  NetworksOptions options{{}, {}, std::chrono::milliseconds(400), 0, {}};
  MeasuredNetworks networks = read_networks(find_networks("experiments/h100/networks"), options);
  simulate_networks(networks, options);
  ASSERT_EQ(networks.mixes.size(), 5u);
  const std::map<std::string, double> sustained = sustained_ms("experiments/h100/networks");
  for (const Network& n : networks.networks) {
    const double there = sustained.contains(n.name) ? sustained.at(n.name) : n.measured_ms;
    EXPECT_NEAR(n.simulated_ms / there, 1, 0.03) << n.name;
  }
  const NetworksScore s = score_networks(networks);
  EXPECT_LE(s.others.all.mean_latency.mean(), 0.042);
  EXPECT_LE(s.others.all.throughput.mean(), 0.03);
  EXPECT_LE(s.others.all.stp.mean(), 0.0145);
  EXPECT_GE(s.others.by_slowdown.simulated.right(), 4u);
}

}  // namespace
}  // namespace corun::sim
