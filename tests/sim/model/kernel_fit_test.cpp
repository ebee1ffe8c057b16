// Is what is found of a kernel's work what makes its solo times?
#include "sim/model/kernel_fit.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "tests/support/kernel_moving.h"
#include "traces/json/trace_json.h"

namespace corun::sim {
namespace {

/// A block's parts: `issue`, `fixed` and `wait` ps, and what its bytes cost.
BlockLoad load_with(BlockLoad load, double blocks, double issue, double fixed, double wait = 0) {
  load.extent.blocks = blocks;
  load.sm.issue_ps = issue, load.sm.fixed_ps = fixed, load.memory.wait_ps = wait;
  return load;
}
BlockLoad without_memory(BlockLoad load) {
  load.memory.read_bytes = load.memory.reread_bytes = load.memory.write_bytes = load.memory.l2_read_bytes = load.memory.l2_ps = 0;
  return load;
}
double unstretched(const BlockLoad& load) { return load.sm.fixed_ps; }
double cost_of_bytes(const BlockLoad& load) { return load.memory.dram_cost_ratio; }

class KernelFit : public testing::Test {
 protected:
  KernelFeatures features(const Kernel& k) const { return {k, *k.solo_time, gpu_}; }
  /// Of 1 ms, and of `half` ms on half of the SMs.
  static std::vector<SoloPoint> curve(double half) { return {{66, 1e9 * half}, {132, 1e9}}; }

  const Gpu gpu_ = read_gpu("h200");
  const double cost_ = static_cast<double>(gpu_.contention.launch_cost.count());
};

// ---- how long a kernel is
// -----------------------------------------------------------------------------------

TEST_F(KernelFit, ALengthIsThatOfFullWavesAndOfWhatIsLeft) {
  const KernelFeatures f = features(kernel_moving(1000));
  const double places = 132.0 * f.max_active_blocks;
  const auto waves = [&](double blocks) {
    return (length(f, load_with(without_memory(f.load), blocks, 0, 1e9), 132) - cost_) / 1e9;
  };
  EXPECT_DOUBLE_EQ(waves(1), 1);
  EXPECT_DOUBLE_EQ(waves(places), 1);
  EXPECT_DOUBLE_EQ(waves(places + 1), 2);
  EXPECT_DOUBLE_EQ(waves(2 * places), 2);
}

TEST_F(KernelFit, WhatIsLeftHasTheSmsAndTheMemoryToItself) {
  const KernelFeatures f = features(kernel_moving(40'000));
  const double places = 132.0 * f.max_active_blocks;
  for (const BlockLoad& load :
       {load_with(f.load, 1, 1, 0, 1e6), load_with(without_memory(f.load), 1, 1e6, 0)}) {
    const auto work = [&](double blocks) {
      BlockLoad l = load;
      l.extent.blocks = blocks;
      return length(f, l, 132) - cost_;
    };
    EXPECT_GT(work(places), 2 * work(1));
    EXPECT_NEAR(work(places + 1), work(places) + work(1), 1e-6 * work(places));
  }
}

TEST_F(KernelFit, ALengthIsNotBelowWhatTheDispatcherNeeds) {
  const KernelFeatures f = features(kernel_moving(1000));
  const double needs = 1000.0 * static_cast<double>(gpu_.dispatch_interval.count());
  const auto work = [&](double block) {
    return length(f, load_with(without_memory(f.load), 1000, 0, block), 132) - cost_;
  };
  EXPECT_DOUBLE_EQ(work(needs - 1), needs);
  EXPECT_DOUBLE_EQ(work(needs), needs);
  EXPECT_DOUBLE_EQ(work(needs + 1), needs + 1);
}

// ---- what is found
// ------------------------------------------------------------------------------------------

TEST_F(KernelFit, ToACurveGivesItsTimesBack) {
  for (const double instructions : {100, 1000})
    for (const double half : {1.05, 1.3, 1.6, 2.0}) {
      const KernelFeatures f = features(kernel_moving(40'000, instructions));
      const BlockLoad found = fit_curve(f, curve(half));
      for (const SoloPoint& p : curve(half))
        EXPECT_NEAR(length(f, found, p.sms) / p.time, 1, 0.03) << instructions << ' ' << half;
    }
}

TEST_F(KernelFit, ToOneTimeGivesItBackWhereTheCountersAccountForIt) {
  for (const auto& [bytes, instructions] : {std::pair{43'000, 100}, {43'000, 1500}, {1000, 2400}}) {
    const KernelFeatures f = features(kernel_moving(bytes, instructions));
    EXPECT_NEAR(length(f, fit_whole(f, {132, 1e9}), 132) / 1e9, 1, 0.02) << bytes;
  }
  const KernelFeatures f = features(kernel_moving(1000));
  EXPECT_LT(length(f, fit_whole(f, {132, 1e9}), 132) / 1e9, 0.5) << "nothing that was counted takes 1 ms";
}

TEST_F(KernelFit, WhatGoesWithTheSmsDoesSoOnFewerAndWhatDoesNotWaitsForTheMemory) {
  const KernelFeatures f = features(kernel_moving(40'000));
  EXPECT_NEAR(length(f, fit_curve(f, curve(2)), 33) / 1e9, 4, 0.05);
  EXPECT_LT(length(f, fit_curve(f, curve(1.05)), 33) / 1e9, 2);
}

TEST_F(KernelFit, FewerWorkersTellWhatOfABlockNobodyStretches) {
  const auto found = [&](double with_half) {
    Kernel k = kernel_moving(1000, 1000);
    k.persistent_time_by_ctas = {{8, from_ns(1e6 * with_half)}, {16, from_ns(1e6)}};
    return unstretched(fit_curve(features(k), curve(2)));
  };
  EXPECT_GT(found(1.5), 1.3 * found(1.05)) << "half of the workers fill an SM nearly as well";
  EXPECT_GT(found(1.95), 1.3 * found(1.5));
}

TEST_F(KernelFit, BytesCostWhatStreamedOnesDoUnlessTheTimesSayOtherwise) {
  const KernelFeatures few = features(kernel_moving(1000)), many = features(kernel_moving(40'000));
  EXPECT_DOUBLE_EQ(cost_of_bytes(fit_curve(few, curve(2))), 1);
  EXPECT_DOUBLE_EQ(cost_of_bytes(fit_curve(many, curve(2))), 1);
  EXPECT_GT(cost_of_bytes(fit_curve(many, curve(1.05))), 1.1) << "DRAM bounds it below its bandwidth";
}

}  // namespace
}  // namespace corun::sim
