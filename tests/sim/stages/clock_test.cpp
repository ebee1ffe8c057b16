// Does the clock fall when kernels would draw more than the GPU may, and what of them takes longer then?
#include <gtest/gtest.h>

#include "sim/model/kernel_energy.h"
#include "sim/stages/clock_governor.h"
#include "tests/support/run_trace.h"
#include "traces/json/trace_json.h"

namespace corun::sim {
namespace {

constexpr ClientId kFirst{0};

/// At 1 GHz; 15 MHz a step, so 67 of them.  The clock is set each 4 ms.
Gpu limited_gpu() {
  Gpu gpu = small_gpu(4);
  gpu.power = {100, 50, 1e5, 0, 0, ms(4)};
  return gpu;
}
/// pJ that kernels of `watts` take in a window of 2 ms.
constexpr double over_window(double watts) { return watts * 2e9; }

TEST(Clock, IsTheHighestAtTheLimitAndFallsAboveIt) {
  for (const double more : {0.0, 0.1}) {
    const Gpu gpu = limited_gpu();
    ClockGovernor governor(gpu);
    EXPECT_FALSE(governor.look(over_window(50 + more)));  // the first of two windows
    EXPECT_EQ(governor.look(2 * over_window(50 + more)), more > 0);
    EXPECT_EQ(governor.stretch() > 1, more > 0);
  }
}

TEST(Clock, FallsForOneWindowAboveTheLimitThoughTheMeanIsBelow) {
  const Gpu gpu = limited_gpu();
  ClockGovernor governor(gpu);
  governor.look(over_window(80));
  EXPECT_TRUE(governor.look(over_window(80)));
}

TEST(Clock, RisesAgainWhenTheLoadIsGone) {
  const Gpu gpu = limited_gpu();
  ClockGovernor governor(gpu);
  governor.look(over_window(80));
  governor.look(2 * over_window(80));
  EXPECT_GT(governor.stretch(), 1.1);
  governor.look(2 * over_window(80));
  governor.look(2 * over_window(80));
  EXPECT_EQ(governor.stretch(), 1);
}

/// A closed loop of kernels of 100 us, each of 200 W while it runs.
Trace heavy() {
  TraceBuilder b;
  Kernel k = kernel(16, 256, us(1));
  k.block_times.clear();
  k.solo_time = us(100);
  k.counters.warp_instructions = 1e6;
  k.counters.dram_read_bytes = k.counters.dram_write_bytes = 0;
  k.counters.l2_bytes = 1e4;
  b.client("heavy", b.program({launch(b.kernel(k))}), ClosedLoop{});
  b.trace.run.duration = ms(20);
  return b.trace;
}

TEST(Clock, KernelsTakeLongerFromTheEndOfTheFirstIntervalOn) {
  const Ran ran = run_trace(heavy(), limited_gpu());
  Time before{}, after{};
  for (const KernelRecord& k : ran.kernels) {
    if (k.finished < ms(4)) before = std::max(before, k.finished - k.started);
    if (k.started > ms(4) && k.finished < ms(8)) after = std::max(after, k.finished - k.started);
  }
  EXPECT_NEAR(to_ns(before), 100e3, 1500);
  EXPECT_GT(after, before * 13 / 10);
}

TEST(Clock, StaysWhereTheGpusPowerIsNotKnown) {
  Gpu gpu = limited_gpu();
  gpu.power = {};
  for (const KernelRecord& k : run_trace(heavy(), gpu).kernels)
    if (k.finished != kNever) {
      EXPECT_NEAR(to_ns(k.finished - k.started), 100e3, 1500);
    }
}

TEST(Clock, IsTheSameWithShortcuts) {
  const Ran fast = run_trace(heavy(), limited_gpu(), "fcfs", Record::kernels, {true, false});
  const Ran slow = run_trace(heavy(), limited_gpu(), "fcfs", Record::kernels, {false, true});
  EXPECT_EQ(lines(fast.kernels), lines(slow.kernels));
}

TEST(KernelEnergy, ColumnsOfAWgmmaAreReadFromTheTile) {
  EXPECT_EQ(wgmma_columns("nvjet_sm90_hsh_168x128_64x5_1x2_h_bz_TNN"), 168);
  EXPECT_EQ(wgmma_columns("nvjet_sm90_hsh_128x8_64x12_4x1_v_bz_splitK_TNT"), 8);
  EXPECT_EQ(wgmma_columns("nvjet_sm90_hsh_192x128_64x5_1x2_h_bz_coopB_TNT"), 64);
  EXPECT_EQ(wgmma_columns("sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize64x192x32_warpgroupsize1x1x1"), 192);
  EXPECT_EQ(wgmma_columns("cudnn_flash_fprop_wgmma_f16"), 128);
  EXPECT_EQ(wgmma_columns(""), 128);
}

}  // namespace
}  // namespace corun::sim
