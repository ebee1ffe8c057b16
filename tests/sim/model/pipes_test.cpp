// Launches that share an SM: what they take from each other where they need the same pipe behind the issue
// slots, and where they need different ones; and which one a kernel's counters name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <map>

#include "sim/model/kernel_model.h"
#include "tests/support/run_trace.h"
#include "traces/json/trace_json.h"

namespace corun::sim {
namespace {

using testing::ElementsAre;

constexpr double kNeeded = 10, kRest = 5;
constexpr std::uint32_t kFilling = 4;  // which keep what they need most busy

PipeUse needs(std::initializer_list<std::pair<std::size_t, double>> pipes) {
  PipeUse uses{};
  for (const auto& [pipe, share] : pipes) uses[pipe] = share;
  return uses;
}
SmShare share(const PipeUse& uses) { return {kNeeded, kRest, kFilling, 0, 1, uses}; }

class Pipes : public testing::Test {
 protected:
  /// Times of a block of each over that alone, the first with the older blocks.
  std::array<double, 2> slowdowns(const PipeUse& a, const PipeUse& b) const {
    std::array shares = {share(a), share(b)};
    share_sm(shares, kMostApart, limits_);
    const double alone = alone_on_sm(kNeeded, kFilling, kRest);
    return {shares[0].time / alone, shares[1].time / alone};
  }
  const Gpu gpu_ = read_gpu("h200");
  const MemoryLimits limits_ = limits_of(gpu_);
};

TEST_F(Pipes, WhatNeedsDifferentOnesGoesOnAsAlone) {
  const auto slow = slowdowns(needs({{kXu, 1}}), needs({{kL1, 1}}));
  EXPECT_EQ(slow[0], 1);
  EXPECT_EQ(slow[1], 1);
}

TEST_F(Pipes, WhatNeedsTheSameOneSharesItAsItWouldTheSlots) {
  const auto slots = slowdowns(kSlotsAlone, kSlotsAlone);
  EXPECT_GT(slots[1], 1.5);
  for (std::size_t pipe = 0; pipe < kPipes; ++pipe)
    EXPECT_EQ(slowdowns(needs({{pipe, 1}}), needs({{pipe, 1}})), slots) << pipe;
}

TEST_F(Pipes, EqualLaunchesWaitOnlyWhereTheyNeedMost) {
  const PipeUse uses = needs({{kSlots, 0.6}, {kAlu, 1}, {kFma, 0.3}});
  EXPECT_EQ(slowdowns(uses, uses), slowdowns(kSlotsAlone, kSlotsAlone));
}

TEST_F(Pipes, WaitingGrowsWithWhatBothNeedOfTheSameOne) {
  double before = 1;
  for (const double both : {0.1, 0.3, 0.6, 0.9}) {
    const auto slow = slowdowns(needs({{kSlots, both}, {kXu, 1}}), needs({{kSlots, both}, {kL1, 1}}));
    EXPECT_GT(slow[1], before) << both;
    before = slow[1];
  }
  EXPECT_LT(before, slowdowns(kSlotsAlone, kSlotsAlone)[1]);
}

double gpu_slots() { return 132 * 4 * 1.98e9; }  // warp instructions that an H200 issues a second

/// Of ten waves of four warps a block, which issue in half of the slots.
Kernel kernel(std::map<std::string, double> pipes) {
  Kernel k;
  k.name = "k";
  k.grid = {21120, 1, 1};
  k.block = {128, 1, 1};
  k.registers_per_thread = 32;
  k.solo_time = ms(1);
  k.counters.issue_active_pct = 50;
  k.counters.warp_instructions = 0.5 * gpu_slots() * 1e-3;
  k.counters.duration_ns = 1e6;
  k.counters.pipes_pct = std::move(pipes);
  return k;
}

TEST_F(Pipes, TheBusiestOfTheCountersIsWhatAKernelNeedsMost) {
  const auto uses = [&](std::map<std::string, double> pipes) {
    const Kernel k = kernel(std::move(pipes));
    return KernelModel(k, *k.solo_time, gpu_).load(gpu_.sms).uses;
  };
  const PipeUse special = uses({{"xu", 97}, {"alu", 48}});
  EXPECT_EQ(special[kXu], 1);
  EXPECT_NEAR(special[kAlu], 48.0 / 97, 0.05);
  EXPECT_NEAR(special[kSlots], 50.0 / 97, 0.05);
  EXPECT_EQ(uses({{"l1_data", 97}})[kL1], 1);
  EXPECT_EQ(uses({{"fma", 40}, {"fmaheavy", 97}})[kFma], 1);
  EXPECT_EQ(uses({}), kSlotsAlone);
}

/// A kernel whose solo times ask for more than any counter says is at the slots and at its busiest pipe.
TEST_F(Pipes, WhatNoCounterAccountsForIsAtTheSlotsToo) {
  const Kernel k = kernel({{"alu", 60}});
  const KernelFeatures f(k, *k.solo_time, gpu_);
  const double busiest = f.busiest();
  EXPECT_LT(f.uses(busiest / 0.91)[kSlots], 1);
  EXPECT_EQ(f.uses(busiest / 0.89)[kSlots], 1);
  EXPECT_EQ(f.uses(busiest / 0.89)[kAlu], 1);
}

TEST_F(Pipes, CountersThatAreNoPercentagesAreMended) {
  Kernel k = kernel({{"alu", 140}, {"xu", -3}, {"fma", std::numeric_limits<double>::quiet_NaN()}});
  const KernelFeatures f(k, *k.solo_time, gpu_);
  EXPECT_THAT(f.kernel.counters.pipes_pct, ElementsAre(testing::Pair("alu", 100)));
}

/// In the simulator, each with half of the GPU's places.
TEST_F(Pipes, TwoKernelsOfDifferentOnesTakeAsLongAsAloneAndOfTheSameOneTwiceAsLong) {
  const auto together = [&](const char* one, const char* other) {
    TraceBuilder b;
    for (const char* pipe : {one, other}) {
      Kernel k = kernel({{pipe, 97}});
      k.grid = {8 * 132, 1, 1};
      k.counters.issue_active_pct = 20;
      k.counters.warp_instructions = 0.2 * gpu_slots() * 1e-3;
      b.one_kernel(b.trace.clients.empty() ? "a" : "b", k);
    }
    const Ran ran = run_trace(b.trace, gpu_, "fcfs");
    return to_seconds(std::max(ran.only(ClientId{0}).finished, ran.only(ClientId{1}).finished));
  };
  EXPECT_LT(together("xu", "alu"), 0.00103);
  EXPECT_NEAR(together("xu", "fma"), together("xu", "alu"), 1e-5);
  EXPECT_GT(together("xu", "xu"), 0.0019);
}

}  // namespace
}  // namespace corun::sim
