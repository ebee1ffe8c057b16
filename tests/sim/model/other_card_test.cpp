// What kernels recorded on one GPU are taken to take on another.
#include "sim/model/other_card.h"

#include <gtest/gtest.h>

#include "traces/json/trace_json.h"

namespace corun::sim {
namespace {

/// One kernel of `blocks` blocks that takes 1 ms and `dram_share` of the H200's bandwidth, launched once.
Trace one_kernel(std::uint32_t blocks, double dram_share) {
  const Gpu h200 = read_gpu("h200");
  Trace trace;
  Kernel kernel;
  kernel.name = "k";
  kernel.grid = {blocks, 1, 1};
  kernel.block = {128, 1, 1};
  kernel.solo_time = from_ns(1e6);
  kernel.counters.dram_read_bytes = dram_share * h200.contention.dram_read_bytes_per_second * 0.999e-3;
  trace.kernels.push_back(kernel);
  Program program;
  program.name = "p";
  Launch launch;
  launch.kernel = KernelId{0};
  Op op;
  op.what = launch;
  program.ops.push_back(op);
  trace.programs.push_back(program);
  return trace;
}

double ratio(const Trace& trace, const Gpu& to) {
  return to_ns(*carried_over(trace, read_gpu("h200"), to).trace.kernels[0].solo_time) / 1e6;
}

Gpu h200_with(double dram, std::uint32_t sms, double clock) {
  Gpu gpu = read_gpu("h200");
  gpu.contention.dram_read_bytes_per_second *= dram;
  gpu.clock_hz *= clock;
  gpu.sms = sms;
  return gpu;
}

TEST(OtherCard, OnTheSameCardNothingChanges) {
  const Gpu h200 = read_gpu("h200");
  for (const double share : {0.0, 0.4, 1.0}) EXPECT_EQ(ratio(one_kernel(1000, share), h200), 1);
  const Trace network = read_trace("traces/h200/resnet50_b1.json");
  const CarriedOver same = carried_over(network, h200, h200);
  for (std::size_t k = 0; k < network.kernels.size(); ++k)
    EXPECT_EQ(same.trace.kernels[k].solo_time, network.kernels[k].solo_time);
  EXPECT_EQ(same.median, 1);
}

TEST(OtherCard, AKernelBoundByDramGoesWithItsBandwidth) {
  EXPECT_NEAR(ratio(one_kernel(1000, 1), h200_with(0.5, 132, 1)), 2, 0.01);
  EXPECT_NEAR(ratio(one_kernel(1000, 1), h200_with(1, 66, 0.5)), 1, 0.01);
}

TEST(OtherCard, AKernelBoundBySmsGoesWithClockAndSms) {
  EXPECT_NEAR(ratio(one_kernel(1000, 0), h200_with(0.5, 132, 1)), 1, 0.01);
  EXPECT_NEAR(ratio(one_kernel(1000, 0), h200_with(1, 66, 0.5)), 4, 0.01);
}

TEST(OtherCard, BlocksThatFillNoMoreSmsDoNotUseThem) {
  EXPECT_NEAR(ratio(one_kernel(66, 0), h200_with(1, 66, 1)), 1, 0.01);
  EXPECT_NEAR(ratio(one_kernel(67, 0), h200_with(1, 66, 1)), 67.0 / 66, 0.001);
  EXPECT_NEAR(ratio(one_kernel(1, 0), h200_with(1, 132, 2)), 0.5, 0.01);
}

TEST(OtherCard, SharesOfBothAddUp) {
  EXPECT_NEAR(ratio(one_kernel(1000, 0.5), h200_with(0.5, 132, 0.5)), 2, 0.01);
  EXPECT_NEAR(ratio(one_kernel(1000, 0.25), h200_with(0.5, 132, 1)), 1.25, 0.01);
}

/// As a profile with counters has it: 10,000 blocks of 4 warps.
Trace counted(double read, double written, double l2, Time time, double instructions = 100) {
  Trace trace = one_kernel(10000, 0);
  Kernel& kernel = trace.kernels[0];
  kernel.solo_time = time;
  kernel.counters.dram_read_bytes = read;
  kernel.counters.dram_write_bytes = written;
  kernel.counters.l2_bytes = l2;
  kernel.counters.warp_instructions = 10000 * 4 * instructions;
  return trace;
}

TEST(OtherCard, ACountedKernelThatTheMemoryHardlySlowsDoesNotGoWithItsBandwidth) {
  // 1 GB in 1 ms is a fifth of the bandwidth, and the issue slots are busy for 0.8 of it.  By shares it would
  // take a fifth longer at half of the bandwidth.
  const Trace trace = counted(1e9, 0, 1.5e9, from_ns(1e6), 21000);
  const double at_half = ratio(trace, h200_with(0.5, 132, 1));
  EXPECT_GT(at_half, 1);
  EXPECT_LT(at_half, 1.1);
}

TEST(OtherCard, ACountedKernelBoundByDramGoesWithItsBandwidth) {
  const Trace trace = counted(4.6e9, 0, 6.9e9, from_ns(1e6));
  EXPECT_NEAR(ratio(trace, h200_with(0.5, 132, 1)), 2, 0.1);
}

TEST(OtherCard, WhatRandomReadsCostBesideStreamedOnesIsNotTheBandwidth) {
  // 64 bytes are moved for each sector of 32: 1.4 TB/s is all that an H200 can do so.
  const double at_half = ratio(counted(1.4e9, 0, 1.4e9, from_ns(1e6)), h200_with(0.5, 132, 1));
  EXPECT_GT(at_half, 1.05);
  EXPECT_LT(at_half, 1.7);
}

TEST(OtherCard, ASmallerL2ReadsAgainMoreAndKeepsLessOfWhatIsWritten) {
  const Gpu h200 = read_gpu("h200");
  Gpu smaller = h200;
  smaller.contention.l2_own_bytes = 30000000;
  smaller.contention.l2_first_loss_bytes = 10000000;
  smaller.contention.l2_dirty_bytes -= 5000000;
  const Trace trace = counted(3e8, 8e7, 9e8, from_ns(2e5));  // 100 MB written, 20 of which stay in L2
  const auto there = [&](const Gpu& gpu) { return carried_over(trace, h200, gpu).trace.kernels[0].counters; };
  EXPECT_EQ(there(h200).dram_read_bytes, 3e8);
  EXPECT_EQ(there(h200).dram_write_bytes, 8e7);
  EXPECT_GT(there(smaller).dram_read_bytes, 3.05e8);
  EXPECT_NEAR(*there(smaller).dram_write_bytes, 8.5e7, 1);
}

/// An H200 whose SMs start `units` FP64 multiply-adds a cycle; of one kernel what it takes longer there.
double with_fp64_units(std::uint32_t units, const Trace& trace) {
  Gpu gpu = read_gpu("h200");
  gpu.sm.fp64_units = units;
  return ratio(trace, gpu);
}

TEST(OtherCard, CyclesOfFp64GoWithTheUnitsOfAnSm) {
  Trace uncounted = one_kernel(1000, 0), by_counters = counted(1e9, 0, 1.5e9, from_ns(1e6), 1000);
  uncounted.kernels[0].counters = {};
  for (Trace* trace : {&uncounted, &by_counters}) {
    const auto busy = [&](double percent) -> const Trace& {
      trace->kernels[0].counters.fp64_active_pct = percent;
      return *trace;
    };
    EXPECT_NEAR(with_fp64_units(2, busy(98)), 32 * 0.98, 1.5);
    EXPECT_GT(with_fp64_units(2, busy(50)), 15.5);
    EXPECT_LT(with_fp64_units(2, busy(50)), trace == &uncounted ? 16.5 : 20) << "by the model its blocks also wait in line";
    EXPECT_NEAR(with_fp64_units(2, busy(0)), 1, 1e-3);
    EXPECT_EQ(with_fp64_units(64, busy(98)), 1);
    EXPECT_EQ(with_fp64_units(0, busy(98)), 1) << "not known";
  }
}

TEST(OtherCard, AnFp64KernelIsSlowedOnACardWithFewUnits) {
  Trace trace = one_kernel(1000, 0);
  trace.kernels[0].counters = {};
  trace.kernels[0].counters.fp64_active_pct = 90;
  const Gpu h200 = read_gpu("h200");
  for (const auto& [name, units] : {std::pair{"a100", 32}, {"l4", 2}}) {
    const Gpu to = read_gpu(name);
    const double by_units = 0.9 * 64 / units * h200.clock_hz / to.clock_hz * h200.sms / to.sms;
    EXPECT_NEAR(ratio(trace, to), by_units, 0.01 * by_units) << name;
  }
  EXPECT_GT(ratio(trace, read_gpu("l4")), 60);
  EXPECT_GT(*carried_over(trace, read_gpu("h200"), read_gpu("l4")).trace.kernels[0].counters.fp64_active_pct, 95);
}

TEST(OtherCard, ALaunchStays) {
  Trace trace = one_kernel(1000, 0);
  trace.kernels[0].solo_time = read_gpu("h200").contention.launch_cost;
  const CarriedOver carried = carried_over(trace, read_gpu("h200"), h200_with(0.1, 13, 0.1));
  EXPECT_EQ(carried.trace.kernels[0].solo_time, trace.kernels[0].solo_time);
}

TEST(OtherCard, SaysByWhatEachKernelWasCarried) {
  Trace trace = one_kernel(1000, 0.5);
  trace.kernels.push_back(trace.kernels[0]);
  trace.kernels[1].counters = {};
  trace.kernels[1].name = "nobody knows";
  trace.kernels.push_back(trace.kernels[1]);
  trace.kernels[2].name = "void at::native::vectorized_elementwise_kernel<4>";
  const CarriedOver carried = carried_over(trace, read_gpu("h200"), read_gpu("l40s"));
  EXPECT_EQ(carried.by_counters, 1u);
  EXPECT_EQ(carried.by_clock, 1u);
  EXPECT_EQ(carried.by_class, 1u);
  EXPECT_EQ(carried.trace.gpu, "l40s");
}

/// The priorities of one client each, and of the last one's only stream, on a card of `levels` levels.
std::vector<std::int32_t> carried_priorities(const std::vector<std::int32_t>& given, std::uint32_t levels) {
  Trace trace = one_kernel(132, 0.5);
  for (const std::int32_t priority : given) trace.clients.emplace_back().priority = priority;
  trace.clients.back().streams = {{given.back(), {}}};
  Gpu to = read_gpu("l40s");
  to.priority_levels = levels;
  const CarriedOver carried = carried_over(trace, read_gpu("h200"), to);
  std::vector<std::int32_t> found;
  for (const auto& client : carried.trace.clients) found.push_back(client.priority);
  EXPECT_EQ(carried.trace.clients.back().streams[0].priority, found.back());
  EXPECT_EQ(carried.priorities.empty(), found == given) << "what was translated is told";
  return found;
}

TEST(OtherCard, PrioritiesThatExistThereStay) {
  EXPECT_EQ(carried_priorities({0, -2, -1}, 3), (std::vector{0, -2, -1}));
  EXPECT_EQ(carried_priorities({0, -5}, 6), (std::vector{0, -5}));
}

TEST(OtherCard, PrioritiesThatDoNotKeepTheirOrderFromTheLowestToTheHighest) {
  EXPECT_EQ(carried_priorities({0, -3}, 3), (std::vector{0, -2})) << "one more than there is";
  EXPECT_EQ(carried_priorities({-5, 0, -4}, 3), (std::vector{-2, 0, -1}));
  EXPECT_EQ(carried_priorities({-4, -5}, 6 - 1), (std::vector{0, -4})) << "of two, one is the lowest";
  EXPECT_EQ(carried_priorities({-5, -5}, 3), (std::vector{-2, -2}));
  EXPECT_EQ(carried_priorities({0, -5}, 1), (std::vector{0, 0}));
}

TEST(OtherCard, MorePrioritiesThanThereAreCoincideAndNeverChangePlaces) {
  EXPECT_EQ(carried_priorities({0, -1, -2, -3, -4, -5}, 3), (std::vector{0, 0, 0, -1, -1, -2}));
}

TEST(OtherCard, SharedMemoryThatNoBlockCanHaveIsTrimmed) {
  Trace trace = one_kernel(1000, 0);
  const Gpu l40s = read_gpu("l40s");
  trace.kernels[0].static_shared_memory_bytes = 1000;
  trace.kernels[0].dynamic_shared_memory_bytes = l40s.sm.shared_memory_per_block_bytes - 1000;
  EXPECT_EQ(carried_over(trace, read_gpu("h200"), l40s).trimmed, 0u);
  ++trace.kernels[0].dynamic_shared_memory_bytes;
  const CarriedOver carried = carried_over(trace, read_gpu("h200"), l40s);
  EXPECT_EQ(carried.trimmed, 1u);
  EXPECT_EQ(carried.trace.kernels[0].shared_memory_bytes(), l40s.sm.shared_memory_per_block_bytes);
}

}  // namespace
}  // namespace corun::sim
