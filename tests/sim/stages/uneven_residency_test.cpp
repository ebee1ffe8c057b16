// A launch of less than a wave puts more blocks on some SMs than on others: who is done when, alone and
// beside another client, and how much of an SM a block on tiles takes.
#include <gtest/gtest.h>

#include <map>

#include "sim/model/kernel_model.h"
#include "tests/support/run_trace.h"
#include "tests/support/stages.h"
#include "traces/json/trace_json.h"

namespace corun::sim {
namespace {

/// The launch of uneven.txt (experiments/h200/contention): 128 threads, four multiplications in flight.
Kernel multiplications(std::uint32_t blocks, Time solo) {
  Kernel k = kernel(blocks, 128, us(1));
  k.block_times.clear();
  k.solo_time = solo;
  k.counters.warp_instructions = 4.0 * 42'500 * blocks;
  return k;
}

std::map<std::uint32_t, std::uint32_t> by_sm(const std::vector<BlockRecord>& blocks) {
  std::map<std::uint32_t, std::uint32_t> n;
  for (const BlockRecord& b : blocks) ++n[b.sm.value];
  return n;
}

TEST(UnevenResidency, BlocksOnSmsWithFewerEndEarlierAndTheLaunchTakesItsSoloTime) {
  const Gpu gpu = read_gpu("h200");
  TraceBuilder b;
  b.one_kernel("alone", multiplications(300, from_ns(67'300)));
  const Ran ran = run_trace(b.trace, gpu, "fcfs", Record::blocks);
  const KernelRecord& launch = ran.only(kFirst);
  EXPECT_NEAR(to_ns(launch.finished - launch.started), 67'300, 70);
  auto held = by_sm(ran.blocks);
  double longest_of_two = 0, shortest_of_three = 1e9;
  for (const BlockRecord& block : ran.blocks) {
    const double us = to_ns(block.end - block.start) / 1e3;
    if (held[block.sm.value] == 2) longest_of_two = std::max(longest_of_two, us);
    if (held[block.sm.value] == 3) shortest_of_three = std::min(shortest_of_three, us);
  }
  // Measured: 46.7 and 67.1 us.
  EXPECT_NEAR(longest_of_two, 46.7, 2.5);
  EXPECT_NEAR(shortest_of_three, 67.1, 0.5);
}

TEST(UnevenResidency, WholeSmBlocksMoveIntoTheSmsThatAreDoneEarlier) {
  const Gpu gpu = read_gpu("h200");
  TraceBuilder b;
  b.one_kernel("uneven", multiplications(300, from_ns(67'300)));
  Kernel whole = kernel(90, 384, us(10));
  whole.registers_per_thread = 168;
  whole.dynamic_shared_memory_bytes = 220'000;
  b.one_kernel("whole", whole, us(5));
  const Ran ran = run_trace(b.trace, gpu, "fcfs");
  EXPECT_LT(ran.only(kSecond).finished, ran.only(kFirst).finished);
}

TEST(UnevenResidency, ShortcutsChangeNothing) {
  const Gpu gpu = read_gpu("h200");
  for (const std::uint32_t blocks : {131u, 132u, 133u, 263u, 264u, 265u, 300u, 528u, 600u}) {
    TraceBuilder b;
    b.one_kernel("uneven", multiplications(blocks, from_ns(70'000)));
    b.one_kernel("beside", multiplications(200, from_ns(50'000)), us(30));
    const Ran fast = run_trace(b.trace, gpu, "fcfs", Record::kernels, {true, false});
    const Ran slow = run_trace(b.trace, gpu, "fcfs", Record::kernels, {false, true});
    EXPECT_EQ(lines(fast.kernels), lines(slow.kernels)) << blocks;
  }
}

/// sgemm1024 of experiments/reference/h200-corun.json.gz, of which only the time on the whole GPU is told.
Kernel sgemm1024() {
  Kernel gemm = kernel(128, 128, us(1));
  gemm.block_times.clear();
  gemm.registers_per_thread = 224;
  gemm.static_shared_memory_bytes = 18'816;
  gemm.solo_time = from_ns(56'600);
  gemm.counters.warp_instructions = 324'204.0 * 128;
  gemm.counters.l2_bytes = 80e6;
  gemm.counters.dram_read_bytes = 8e6;
  return gemm;
}

TEST(TileUse, TwoBlocksOfAGemmOnAnSmTakeAsMuchLongerAsMeasured) {
  const Gpu gpu = read_gpu("h200");
  const Kernel gemm = sgemm1024();
  const BlockLoad load = KernelModel(gemm, *gemm.solo_time, gpu).load(gpu.sms);
  EXPECT_TRUE(load.sm.processor_sharing);
  const double one = alone_on_sm(load.sm.issue_ps, 1, load.delay_alone_ps),
               two = alone_on_sm(load.sm.issue_ps, 2, load.delay_alone_ps);
  EXPECT_NEAR(two / one, 97.5 / 56.6, 0.1);
}

TEST(TileUse, IsOfKernelsThatMultiplyMatricesAndDoNotWaitForDram) {
  const Gpu gpu = read_gpu("h200");
  const auto even = [&](const Kernel& k) {
    return KernelModel(k, *k.solo_time, gpu).load(gpu.sms).sm.processor_sharing;
  };
  Kernel k = sgemm1024();
  EXPECT_TRUE(even(k));
  k.name = "max_pool_forward_nhwc";
  EXPECT_FALSE(even(k));
  const double rate = gpu.contention.dram_read_bytes_per_second * 56.6e-6;  // bytes in its time
  for (const double share : {0.69, 0.71}) {
    k = sgemm1024();
    k.counters.dram_read_bytes = share * rate;
    k.counters.dram_write_bytes = 0;
    k.counters.l2_bytes = share * rate;
    EXPECT_EQ(even(k), share < 0.7) << share;
  }
}

TEST(TileUse, AKernelWithoutTilesGetsWhatOlderTilesLeaveIt) {
  const Gpu gpu = read_gpu("h200");
  const auto lasts = [&](Time gemm, Time other) {
    TraceBuilder b;
    b.one_kernel("gemm", sgemm1024(), gemm);
    b.one_kernel("other", multiplications(132, from_ns(30'000)), other);
    const Ran ran = run_trace(b.trace, gpu, "fcfs");
    return to_ns(ran.only(kSecond).finished - ran.only(kSecond).started);
  };
  EXPECT_GT(lasts(us(0), us(5)), 1.5 * lasts(us(5), us(0)));
}

TEST(SoloTimeSms, ALaunchTakesItsSoloTimeOnTheSmsOnWhichItWasRecorded) {
  const Gpu gpu = read_gpu("h200");
  Kernel k = sgemm1024();
  k.solo_time_sms = 66;
  const KernelModel model(k, *k.solo_time, gpu);
  EXPECT_EQ(model.solo_time(66), *k.solo_time);
  EXPECT_LT(model.solo_time(132), 0.7 * *k.solo_time) << "a block an SM instead of two";
  TraceBuilder b;
  b.one_kernel("on half", k).tpc_mask = TpcMask::range(0, 33);
  const Ran ran = run_trace(b.trace, gpu, "tpc-mask");
  EXPECT_NEAR(to_ns(ran.only(kFirst).finished - ran.only(kFirst).started), to_ns(*k.solo_time), 60);
}

TEST(TileUse, TheAgeOfBlocksOnTilesCountsForNothing) {
  const MemoryLimits limits = limits_of(read_gpu("h200"));
  SmShare turns[] = {{80, 20, 1}, {80, 20, 1}}, aged[] = {{80, 20, 1}, {80, 20, 1}};
  share_sm(turns, kProcessorSharing, limits);
  share_sm(aged, kMostApart, limits);
  EXPECT_DOUBLE_EQ(turns[0].time_ps, turns[1].time_ps);
  EXPECT_LT(aged[0].time_ps, turns[0].time_ps);
}

}  // namespace
}  // namespace corun::sim
