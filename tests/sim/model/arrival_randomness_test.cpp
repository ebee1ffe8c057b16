// Warps that come to an SM's issue slots at even steps, as chains of instructions that each wait for the one
// before: they wait for each other only where the slots cannot serve all.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "sim/model/kernel_model.h"
#include "traces/json/trace_json.h"

namespace corun::sim {
namespace {

constexpr double kIssue = 25, kDelay = 75;  // ps a block

SmShare share(std::uint32_t blocks, double arrival_randomness) {
  return {kIssue, kDelay, blocks, 0, arrival_randomness};
}

class ArrivalRandomness : public testing::Test {
 protected:
  Gpu gpu_ = read_gpu("h200");
  MemoryLimits limits_ = limits_of(gpu_);
};

TEST_F(ArrivalRandomness, WithoutItBlocksTakeAsLongAsAloneUntilTheSlotsAreFull) {
  for (const double blocks : {1, 2, 3, 4}) EXPECT_DOUBLE_EQ(alone_on_sm(kIssue, blocks, kDelay, 0), 100);
  EXPECT_DOUBLE_EQ(alone_on_sm(kIssue, 5, kDelay, 0), 125);
  EXPECT_DOUBLE_EQ(alone_on_sm(kIssue, 16, kDelay, 0), 400);
}

TEST_F(ArrivalRandomness, WithItTheyWaitAsInAQueueAndInBetweenSomeOfThat) {
  const double random = alone_on_sm(kIssue, 3, kDelay, 1);
  EXPECT_GT(random, 110);
  EXPECT_NEAR(alone_on_sm(kIssue, 3, kDelay, 0.5), (100 + random) / 2, 1e-9);
}

TEST_F(ArrivalRandomness, TwoLaunchesDoNotStretchEachOtherUntilTheSlotsAreFull) {
  std::array shares = {share(2, 0), share(2, 0)};
  share_sm(shares, kMostApart, limits_);
  for (const SmShare& s : shares) EXPECT_NEAR(s.time_ps, 100, 0.1);

  std::array full = {share(3, 0), share(3, 0)};
  share_sm(full, kMostApart, limits_);
  double use = 0;
  for (const SmShare& s : full) use += s.blocks * s.issue_ps / s.time_ps;
  EXPECT_NEAR(use, 1, 0.01);
}

TEST_F(ArrivalRandomness, OneThatComesAtRandomStillWaits) {
  std::array shares = {share(2, 0), share(2, 1)};
  share_sm(shares, kMostApart, limits_);
  EXPECT_NEAR(shares[0].time_ps, 100, 0.1);
  EXPECT_GT(shares[1].time_ps, 110);
}

/// Solo times of a kernel on 8 to 132 SMs, 16 blocks to one on each (experiments/h200/layer_pairs).
TEST_F(ArrivalRandomness, IsFoundFromSoloTimesOnFewerSms) {
  const Trace trace = read_trace("experiments/h200/layer_pairs/kernels.json");
  const auto found = std::ranges::find_if(
      trace.kernels, [](const Kernel& k) { return k.name == "compute 128 x 128, 7951"; });
  ASSERT_NE(found, trace.kernels.end());
  const KernelModel model(*found, *found->solo_time, gpu_);
  EXPECT_LT(model.load(gpu_.sms).sm.arrival_randomness, 0.5);
  for (const auto& [sms, time] : found->solo_time_by_sms)
    EXPECT_NEAR(model.load(sms).alone_ps / static_cast<double>(time.count()), 1, 0.06) << sms;
}

}  // namespace
}  // namespace corun::sim
