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
    return {shares[0].time_ps / alone, shares[1].time_ps / alone};
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
  for (const std::size_t pipe : {kSlots, kFp64, kAlu, kFma, kXu})
    EXPECT_EQ(slowdowns(needs({{pipe, 1}}), needs({{pipe, 1}})), slots) << pipe;
}

/// An H200: of two codes that fill it the older has 0.56 to 0.77 of its rate alone, the younger 0.22 to 0.44
/// (experiments/h200/contention, `pairs`: gemm-like, loads of shared memory and of L1).
TEST_F(Pipes, TheDataPipeOfL1ServesTheOldestFirstInPartOnly) {
  const auto slow = slowdowns(needs({{kL1, 1}}), needs({{kL1, 1}}));
  EXPECT_GT(1 / slow[0], 0.56);
  EXPECT_LT(1 / slow[0], 0.77);
  EXPECT_GT(1 / slow[1], 0.22);
  EXPECT_LT(1 / slow[1], 0.44);
}

/// md5 with two blocks on an SM, which take no longer than eight, beside a younger block of sgemm, that needs
/// little of integer logic: it takes 1.0 to 1.3 ms for 0.2 (experiments/h200/policies, `compute` under
/// smcompactor).
TEST_F(Pipes, AnOlderLaunchThatFillsAPipeLeavesNothingToWhatNeedsALittleOfIt) {
  const auto beside = [&](double older_randomness) {
    SmShare older{10, 1, 2, 0, older_randomness, needs({{kAlu, 1}})};
    SmShare younger{100, 10, 1, 0, 1, needs({{kSlots, 1}, {kAlu, 0.02}})};
    std::array shares = {older, younger};
    share_sm(shares, kMostApart, limits_);
    return shares[1].time_ps / alone_on_sm(younger.issue_ps, 1, younger.delay_ps);
  };
  EXPECT_GT(beside(0), 5) << "two blocks that come in even steps fill it";
  EXPECT_LT(beside(1), 2) << "such that come at random leave a tenth";
}

TEST_F(Pipes, YoungerOnesWaitForNobodyWhereAllComeInEvenStepsAndThePipeServesAll) {
  for (const double younger : {4.0, 6.0}) {  // of ten; the older take 5
    std::array shares = {SmShare{5, 5, 1, 0, 0, needs({{kAlu, 1}})},
                         SmShare{younger, 10 - younger, 1, 0, 0, needs({{kAlu, 1}})}};
    share_sm(shares, kMostApart, limits_);
    EXPECT_NEAR(shares[0].time_ps, 10, 1e-9);
    EXPECT_NEAR(shares[1].time_ps, younger < 5 ? 10 : 12, 1e-9);
  }
}

TEST_F(Pipes, WhatCountersDoNotAccountForKeepsNobodyFromThePipe) {
  const auto younger = [&](double accounted) {
    std::array shares = {share(needs({{kAlu, 1}})), share(needs({{kAlu, 1}}))};
    shares[0].accounted[kAlu] = accounted;
    share_sm(shares, kMostApart, limits_);
    return shares[1].time_ps;
  };
  EXPECT_GT(younger(1), 2 * younger(0.9));
  EXPECT_GT(younger(0.9), younger(0.7));
  std::array turns = {share(needs({{kAlu, 1}})), share(needs({{kAlu, 1}}))};
  share_sm(turns, kProcessorSharing, limits_);
  EXPECT_NEAR(younger(0), turns[1].time_ps, 1e-9);
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
    return KernelModel(k, *k.solo_time, gpu_).load(gpu_.sms).sm.uses;
  };
  const PipeUse special = uses({{"xu", 97}, {"alu", 48}});
  EXPECT_EQ(special[kXu], 1);
  EXPECT_NEAR(special[kAlu], 48.0 / 97, 0.05);
  EXPECT_NEAR(special[kSlots], 50.0 / 97, 0.05);
  EXPECT_EQ(uses({{"l1_data", 97}})[kL1], 1);
  EXPECT_EQ(uses({{"fma", 40}, {"fmaheavy", 97}})[kFma], 1);
  EXPECT_EQ(uses({}), kSlotsAlone);
}

TEST_F(Pipes, WhatIsAccountedForIsWhatCountersSayOfTheSoloTime) {
  Kernel k = kernel({{"alu", 97}});
  EXPECT_NEAR(KernelModel(k, *k.solo_time, gpu_).load(gpu_.sms).sm.accounted[kAlu], 1, 0.05);
  EXPECT_EQ(KernelModel(kernel({}), *k.solo_time, gpu_).load(gpu_.sms).sm.accounted, kAllOfIt);
  const KernelFeatures f(k, *k.solo_time, gpu_);
  EXPECT_NEAR(f.accounted(2 * f.busiest())[kAlu], 0.5, 1e-9);
  EXPECT_EQ(f.accounted(f.busiest() / 2)[kAlu], 1);
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
