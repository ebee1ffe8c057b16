// What an import of a Kineto trace makes of operations that ran beside others, overlap or wait for each other: streams,
// graphs and their branches, dependent launches.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <ranges>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tests/traces/import/kineto_text.h"

namespace corun {
namespace {

using namespace kineto_text;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// Streams 7 and 8: k alone for 10 us, then k and a longer m beside each other.
TEST(KinetoImport, WhatRanBesideAnotherStreamTakesWhatTheSameKernelTookAloneIfThatCanBe) {
  // When m starts 12 us before k and ends `after` us after k began, k lasts `lasts`.
  const auto second = [&](int lasts, int after) {
    const Trace trace = import_text("[" + record("k", 100, 10) + "," + record("m", 188, 12 + after, 8) + "," + record("k", 200, lasts) + "]");
    for (const Op& op : trace.programs[0].ops | std::views::reverse)
      if (const auto* launch = std::get_if<Launch>(&op.what); launch != nullptr && kernel_name(trace, op) == "k")
        return solo_time(trace, *launch);
    return Time{};
  };
  EXPECT_EQ(second(20, 20), from_ns(10'000)) << "as long again, for which another was there";
  EXPECT_EQ(second(21, 21), from_ns(21'000)) << "one other holds it up for no more than its own time";
  EXPECT_EQ(second(19, 9), from_ns(10'000)) << "10 us without the other";
  EXPECT_EQ(second(19, 8), from_ns(19'000)) << "11 us without the other: it does more";
  EXPECT_EQ(second(11, 11), from_ns(10'000));
  EXPECT_EQ(second(10, 10), from_ns(10'000));
}

TEST(KinetoImport, AKernelThatStartedBeforeItsStreamsPreviousOneEndedIsADependentLaunch) {
  // The second 1 us before the first ends, the third when the second does, the fourth within the third.
  const Trace trace = import_text("[" + record("k", 100, 10) + "," + record("k", 109, 10) + "," + record("k", 119, 10) + "," +
                                  record("m", 121, 3) + "]");
  std::vector<std::pair<bool, Time>> launches;
  for (const Op& op : trace.programs[0].ops)
    if (const auto* launch = std::get_if<Launch>(&op.what)) launches.emplace_back(launch->dependent, solo_time(trace, *launch));
  EXPECT_THAT(launches, ElementsAre(std::pair(false, from_ns(10'000)), std::pair(true, from_ns(9'000)),
                                    std::pair(false, from_ns(10'000)), std::pair(false, from_ns(3'000))));
  EXPECT_THAT(trace.notes, Contains(HasSubstr("1 kernel launch started before its stream's previous one had ended")));
  EXPECT_THAT(trace.notes, Contains(HasSubstr("1 kernel launch started and ended while its stream's previous one ran")));
}

TEST(KinetoImport, EventWaitBecomesAnAfterEdge) {
  const Trace trace = import_kineto(kSmall);
  const auto& ops = trace.programs[0].ops;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (i == 2) {
      EXPECT_THAT(ops[i].after, ElementsAre(OpId{1}));
      EXPECT_FALSE(ops[1].name.empty());
    } else {
      EXPECT_THAT(ops[i].after, IsEmpty()) << i;
    }
  }
}

TEST(KinetoImport, EventWaitWithoutItsStreamIsSaid) {
  const std::string text = replaced(text_of(kSmall), R"("cat": "cuda_sync", "name": "Stream Wait Event")",
                                    R"("cat": "other", "name": "Stream Wait Event")");
  const Trace trace = import_text(text);
  EXPECT_THAT(trace.notes, Contains(HasSubstr("1 event wait does not say for which stream")));
  EXPECT_THAT(trace.programs[0].ops[2].after, IsEmpty());
}

TEST(KinetoImport, AGraphAmongOtherCallsIsOneCall) {
  std::string text = host_call("cudaLaunchKernel", 1, 100) + host_call("cudaGraphLaunch", 2, 104) + host_call("cudaGraphLaunch", 3, 110) +
                     kernel_of(1, 7, 120, 4) + kernel_of(2, 7, 125, 4) + kernel_of(2, 7, 130, 4) + kernel_of(3, 7, 136, 4);
  text.pop_back();
  const Program program = import_text("{\"traceEvents\": [" + text + "]}").programs[0];
  EXPECT_EQ(program.issue, Issue::eager);
  std::vector<std::uint32_t> graphs;
  std::vector<Time> gaps;
  for (const Op& op : program.ops) graphs.push_back(op.graph), gaps.push_back(op.host_gap);
  EXPECT_THAT(graphs, ElementsAre(0, 1, 1, 2));
  EXPECT_THAT(gaps, ElementsAre(Time{}, from_ns(1000), Time{}, from_ns(4000)));
}

TEST(KinetoImport, BranchesOfAGraphRunBesideEachOtherWhereTheyDid) {
  // A fork into two branches and their join.
  std::string text = host_call("cudaGraphLaunch", 1, 100) + kernel_of(1, 7, 120, 4) + kernel_of(1, 7, 125, 10) +
                     kernel_of(1, 8, 126, 12) + kernel_of(1, 7, 139, 4);
  text.pop_back();
  const Trace trace = import_text("{\"traceEvents\": [" + text + "]}");
  const Program& program = trace.programs[0];
  EXPECT_EQ(program.issue, Issue::graph);
  ASSERT_EQ(program.ops.size(), 4u);
  EXPECT_THAT(program.ops[1].after, IsEmpty());
  EXPECT_THAT(program.ops[2].after, ElementsAre(OpId{0}));
  EXPECT_THAT(program.ops[3].after, ElementsAre(OpId{2}));
  EXPECT_THAT(trace.notes, Contains(HasSubstr("2 kernel launches ran beside another stream's")));
}

/// 30 kernels of 1 us by themselves, which take 2 under Nsight Compute, one of 300 us, which takes 303 there,
/// and two of 100 us beside each other.  By the median ratio of 2 a kernel that takes 150 us under Nsight
/// Compute would be known to take 75 alone.
TEST(KinetoImport, WhatRanBesideOthersTakesNsightComputesTimeByTheRatioOfTheTotals) {
  const auto with_block = [](std::string kernel, int threads) {
    return replaced(std::move(kernel), R"("block": [32, 1, 1])",
                    fmt::format(R"("block": [{}, 1, 1])", threads));
  };
  std::string text = host_call("cudaGraphLaunch", 1, 100);
  for (int i = 0; i < 30; ++i) text += with_block(kernel_of(1, 7, 120 + 2 * i, 1), 32);
  text += with_block(kernel_of(1, 7, 200, 300), 64) +
          with_block(kernel_of(1, 7, 510, 100) + kernel_of(1, 8, 510, 100), 128);
  text.pop_back();
  const auto alone = [&](int beside_ns) {
    std::string csv =
        "\"ID\",\"Kernel Name\",\"Block Size\",\"Grid Size\",\"Metric Name\",\"Metric Unit\",\"Metric "
        "Value\"\n";
    int id = 0;
    const auto seen = [&](int threads, int nanoseconds) {
      csv +=
          fmt::format("\"{}\",\"k\",\"({}, 1, 1)\",\"(1, 1, 1)\",\"gpu__time_duration.sum\",\"ns\",\"{}\"\n",
                      id++, threads, nanoseconds);
    };
    for (int i = 0; i < 30; ++i) seen(32, 2000);
    seen(64, 303'000), seen(128, beside_ns), seen(128, beside_ns);
    const TestFile counters(csv, "ncu.csv"), recording("{\"traceEvents\": [" + text + "]}");
    const Trace trace = import_kineto(recording, "h200", counters);
    return *trace.kernels[std::get<Launch>(trace.programs[0].ops.back().what).kernel.value].solo_time;
  };
  const double ratio = (30 * 2.0 + 303) / (30 * 1.0 + 300);
  EXPECT_EQ(alone(150'000), from_ns(100'000)) << "more than was recorded: that stays";
  EXPECT_NEAR(to_ns(alone(99'000)), 99'000 / ratio, 1);
}

}  // namespace
}  // namespace corun
