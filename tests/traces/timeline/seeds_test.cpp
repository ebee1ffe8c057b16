// How far do runs of several seeds lie apart, and what are they together?
#include "traces/timeline/seeds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace corun {
namespace {

using testing::HasSubstr;

Time from_ms(double ms) { return from_ns(1e6 * ms); }

RunResult run(std::uint64_t seed, double stp, double p99, std::uint64_t finished) {
  RunResult r;
  r.policy = "mps";
  r.seed = seed;
  r.stp = stp;
  ClientResult c;
  c.name = "cam";
  c.latencies.ended = {from_ms(p99 / 2), from_ms(p99)};
  c.mean_ms = p99 / 2;
  c.finished = finished;
  c.parts.running = p99 / 4;
  c.intervals = ClientIntervals{{1, 2}, {1, 2}, {1, 2}, {p99, 2 * p99}, {}, "times"};
  c.served.emplace();
  c.served->finished = finished, c.served->first_token = c.latencies;
  fill_quantiles(c), fill_quantiles(*c.served);
  r.clients = {c};
  return r;
}

TEST(Estimate, IsTheMeanAndTheDeviationOfASample) {
  const Estimate e = estimate(std::vector<double>{1, 2, 3, 6});
  EXPECT_EQ(e.mean, 3);
  EXPECT_DOUBLE_EQ(e.deviation, std::sqrt(14.0 / 3));
  EXPECT_EQ(e.least, 1);
  EXPECT_EQ(e.most, 6);
  EXPECT_NEAR(e.half_width(), 3.182446 * e.deviation / 2, 1e-5) << "Student's t of 3 degrees of freedom";
  EXPECT_TRUE(std::isinf(estimate(std::vector<double>{1}).half_width()));
  EXPECT_EQ(estimate(std::vector<double>{5, 5}).half_width(), 0);
}

TEST(OverSeeds, AveragesNumbersAddsCountsAndTakesQuantilesOfAllRequests) {
  const std::vector<RunResult> runs{run(1, 1.0, 10, 7), run(2, 2.0, 30, 8)};
  const RunResult all = over_seeds(runs);
  EXPECT_EQ(all.seed, 1);
  EXPECT_EQ(all.seeds, 2);
  EXPECT_EQ(all.stp, 1.5);
  const ClientResult& c = all.clients[0];
  EXPECT_EQ(c.p50_ms, 10) << "of 5, 10, 15 and 30";
  EXPECT_EQ(c.p99_ms, 30);
  EXPECT_EQ(c.mean_ms, 10);
  EXPECT_EQ(c.finished, 15);
  EXPECT_EQ(c.parts.running, 5);
  EXPECT_EQ(c.intervals->p99_ms.low, 30) << "as wide as those of each";
  EXPECT_EQ(c.intervals->p99_ms.high, 60);
  EXPECT_EQ(c.served->finished, 15);
  EXPECT_EQ(c.served->first_token_p99_ms, 30);
}

TEST(OverSeeds, OneOfAHundredRequestsMayBeDroppedUnderWhicheverSeed) {
  std::vector<RunResult> runs{run(1, 1.0, 10, 100), run(2, 2.0, 10, 100)};
  for (RunResult& r : runs) r.clients[0].latencies.ended.assign(99, from_ms(10));
  runs[1].clients[0].latencies.endless = 2;
  EXPECT_EQ(over_seeds(runs).clients[0].p99_ms, 10);
  fill_quantiles(runs[1].clients[0]);
  EXPECT_TRUE(std::isinf(runs[1].clients[0].p99_ms)) << "by itself";
  runs[1].clients[0].latencies.endless = 3;
  EXPECT_TRUE(std::isinf(over_seeds(runs).clients[0].p99_ms));
}

TEST(OverSeeds, LeavesOutARunInWhichANumberIsUndefined) {
  std::vector<RunResult> runs{run(1, 1.0, 10, 7), run(2, 2.0, 20, 0)};
  runs[1].clients[0].latencies = {}, runs[1].clients[0].mean_ms = std::numeric_limits<double>::quiet_NaN();
  fill_quantiles(runs[1].clients[0]);
  EXPECT_EQ(over_seeds(runs).clients[0].p99_ms, 10);
  EXPECT_EQ(over_seeds(runs).clients[0].mean_ms, 5);
  EXPECT_EQ(estimates(runs, Figure::p99)[0].estimate.runs, 1);
}

TEST(FormatSeeds, HasALineForEachPolicysStpAndEachClientsP99) {
  const std::vector<std::vector<RunResult>> by_policy{{run(1, 1.0, 10, 7), run(2, 2.0, 30, 8)}};
  const std::string text = format_seeds(by_policy);
  EXPECT_THAT(text, HasSubstr("over 2 seeds"));
  EXPECT_THAT(text, HasSubstr("1.500 ± 0.707"));
  EXPECT_THAT(text, HasSubstr("10 … 30"));
}

}  // namespace
}  // namespace corun
