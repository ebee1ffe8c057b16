// How sure is a result said to be?
#include "sim/run/intervals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "policies/api/registry.h"
#include "sim/run/interval_table.h"
#include "sim/run/run.h"
#include "traces/json/trace_json.h"

namespace corun::sim {
namespace {

Kernel kernel_of(const char* name, double ms, bool counted) {
  Kernel k;
  k.name = name, k.grid = {1320, 1, 1}, k.block = {128, 1, 1}, k.registers_per_thread = 32, k.solo_time = from_ns(ms * 1e6);
  if (counted) k.counters.warp_instructions = 1e7, k.counters.l2_bytes = 1e8;
  return k;
}

/// `a` has two kernels with counters, `b` one without.
Trace counted_and_bare() {
  Trace trace;
  trace.gpu = "h200";
  trace.kernels = {kernel_of("first", 1, true), kernel_of("second", 1, true), kernel_of("bare", 1, false)};
  for (const std::vector<std::uint32_t>& launches : {std::vector<std::uint32_t>{0, 1}, {2}}) {
    Program p;
    p.name = std::to_string(trace.programs.size()), p.streams = {{"main"}};
    for (const std::uint32_t kernel : launches) p.ops.push_back({Launch{KernelId{kernel}, {}, {}}, {}, {}, {}, {}});
    Client c;
    c.name = c.process = trace.programs.empty() ? "a" : "b";
    c.program = ProgramId{static_cast<std::uint32_t>(trace.programs.size())}, c.streams.resize(1);
    trace.programs.push_back(p), trace.clients.push_back(c);
  }
  trace.run.duration = from_ns(20e6);
  return trace;
}

std::vector<Basis> under(const std::string& policy, const Trace& trace = counted_and_bare()) {
  return bases_of(trace, make_policy(policy)->requirements());
}

TEST(Intervals, OfACoarseProgramAreThoseOfOneKernelOfWhichOnlyItsTimeIsKnown) {
  Trace trace = counted_and_bare();
  EXPECT_EQ(under("mps:percentages=50/50", trace)[0].known, Known::counters);
  trace.programs[0].coarse = true;
  for (const char* policy : {"mps:percentages=50/50", "fcfs"}) {
    const Basis basis = under(policy, trace)[0];
    EXPECT_EQ(basis.known, Known::time) << policy;
    EXPECT_TRUE(basis.one_kernel) << policy;
  }
  const auto width = [&](bool coarse) {
    trace.programs[0].coarse = coarse;
    const Interval f = factors(under("mps:percentages=50/50", trace)[0], Measure::latency);
    return f.high / f.low;
  };
  EXPECT_GT(width(true), 1.5 * width(false));
}

TEST(Intervals, GoByHowThePolicyLetsClientsShare) {
  EXPECT_EQ(under("fcfs")[0].sharing, Sharing::together);
  EXPECT_EQ(under("mps")[0].sharing, Sharing::together);
  EXPECT_EQ(under("timeslice")[0].sharing, Sharing::turns);
  EXPECT_EQ(under("priority")[0].sharing, Sharing::ranked);
  EXPECT_EQ(under("mps:percentages=50/100")[0].sharing, Sharing::part);
  EXPECT_EQ(under("mps:percentages=50/100")[1].sharing, Sharing::together);
  EXPECT_EQ(under("tpc-mask:split=even")[0].sharing, Sharing::part);
  EXPECT_EQ(under("mig:profile=3g.71gb/4g.71gb")[0].sharing, Sharing::part);
  for (const char* policy : {"greedy", "slate", "smcompactor", "reef", "reef-n"}) EXPECT_EQ(under(policy)[0].sharing, Sharing::resized) << policy;
  Trace one = counted_and_bare();
  one.clients.resize(1);
  EXPECT_EQ(under("fcfs", one)[0].sharing, Sharing::alone);
}

TEST(Intervals, WhoSharesSmsIsAsWellKnownAsWhatItMeetsThere) {
  EXPECT_EQ(under("fcfs")[0].known, Known::time);
  EXPECT_EQ(under("tpc-mask:split=even")[0].known, Known::counters);
  EXPECT_EQ(under("tpc-mask:split=even")[1].known, Known::time);
  Trace trace = counted_and_bare();
  for (Kernel& k : trace.kernels) k.solo_time_by_sms = {{32, from_ns(3e6)}, {132, from_ns(1e6)}};
  EXPECT_EQ(under("fcfs", trace)[0].known, Known::part);
  trace.kernels.front().solo_time_by_sms.clear();
  EXPECT_EQ(under("tpc-mask:split=even", trace)[0].known, Known::counters) << "half of its time is on parts";
}

TEST(Intervals, AClientOfOneKernelErrsAsItsKernelDoes) {
  EXPECT_FALSE(under("fcfs")[0].one_kernel);
  EXPECT_TRUE(under("fcfs")[1].one_kernel);
}

TEST(Intervals, EachHoldsTheSimulatedValueAndWhatATimeAloneRepeatsBy) {
  for (const auto& sharing : kIntervals)
    for (const auto& kernels : sharing)
      for (const auto& known : kernels)
        for (const Interval& factors : known) {
          EXPECT_GT(factors.low, 0);
          EXPECT_LE(factors.low, 0.975);
          EXPECT_GE(factors.high, 1.03);
        }
}

TEST(Intervals, CountersAndTimesOnPartsNarrowWhatKernelsDoOnAPart) {
  const auto width = [](Known known, bool one) {
    const Interval i = factors({Sharing::part, one, known}, Measure::latency);
    return std::log(i.high / i.low);
  };
  EXPECT_LT(width(Known::counters, true), 0.7 * width(Known::time, true));
  EXPECT_LT(width(Known::part, true), 0.7 * width(Known::counters, true));
  EXPECT_LT(width(Known::part, false), width(Known::time, false));
}

TEST(Intervals, OfAKernelThatIsKnownByItsTimeAloneAP99OnAPartIsNoSurerThanAMean) {
  const Basis basis{Sharing::part, true, Known::time};
  const Interval mean = factors(basis, Measure::latency), tail = factors(basis, Measure::tail), rate = factors(basis, Measure::throughput);
  EXPECT_LE(tail.low, mean.low);
  EXPECT_GE(tail.high, mean.high);
  EXPECT_LE(rate.low, 1.01 / mean.high);
}

TEST(Intervals, NoClientIsFasterThanAlone) {
  ClientResult result;
  result.mean_ms = result.p50_ms = result.p95_ms = result.p99_ms = 1.01, result.alone_mean_ms = 1;
  result.throughput_per_s = 990, result.alone_throughput_per_s = 1000;
  Client client;
  client.arrivals = ClosedLoop{};
  const ClientIntervals i = intervals_of(result, client, {Sharing::part, true, Known::time});
  EXPECT_NEAR(i.mean_ms.low, 0.97, 1e-9);
  EXPECT_GT(i.mean_ms.high, 1.3);
  EXPECT_NEAR(i.throughput_per_s.high, 1030, 1e-9);
  EXPECT_LT(i.throughput_per_s.low, 900);
}

TEST(Intervals, AThroughputThatArrivalsSetHasNone) {
  ClientResult result;
  result.mean_ms = result.p99_ms = 1, result.throughput_per_s = 100;
  Client client;
  client.arrivals = Periodic{from_ns(1e7), {}};
  EXPECT_TRUE(std::isnan(intervals_of(result, client, {}).throughput_per_s.low));
}

TEST(Intervals, ARunHasThemAndOneWithoutContentionHasNone) {
  const Gpu gpu = read_gpu("h200");
  const Trace trace = counted_and_bare();
  RunResult result = run(trace, gpu, {{.policy = "fcfs"}, {}, 1, nullptr});
  ASSERT_TRUE(result.stp_interval && result.clients.front().intervals);
  EXPECT_LT(result.stp_interval->low, result.stp);
  EXPECT_GT(result.stp_interval->high, result.stp);
  EXPECT_EQ(result.clients.front().intervals->known, "times");
  result = run(trace, gpu, {{.policy = "fcfs"}, {.contention = false}, 1, nullptr});
  EXPECT_FALSE(result.stp_interval || result.clients.front().intervals);
}

}  // namespace
}  // namespace corun::sim
