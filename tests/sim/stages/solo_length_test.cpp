// Does a kernel alone last exactly its solo time?  The formula, its inverse, and the engine, for many shapes.
#include <gtest/gtest.h>

#include "sim/model/kernel_model.h"
#include "sim/model/solo_length.h"
#include "tests/support/engine_rig.h"
#include "tests/support/random_trace.h"
#include "tests/support/run_trace.h"
#include "traces/json/trace_json.h"

namespace corun::sim {
namespace {

std::uint64_t places_of(const Kernel& k, const Gpu& gpu) {
  return std::uint64_t{gpu.sms} * max_active_blocks(capacity_of(gpu.sm), demand_of(k, gpu.sm));
}

Time engine_length(const Kernel& k, const Gpu& gpu, EngineOptions options) {
  EngineRig rig(gpu, options, false);
  const LaunchId launch = rig.accept(k);
  rig.run();
  return rig.record(launch).finished - rig.record(launch).started;
}

void expect_length(const Kernel& k, const Gpu& gpu) {
  const std::uint64_t places = places_of(k, gpu);
  const Time expected = solo_length(k.blocks(), places, k.block_times.front(), gpu.dispatch_interval);
  SCOPED_TRACE(testing::Message() << k.blocks() << " blocks of " << k.block_times.front().count() << " ps in "
                                  << places << " places, one every " << gpu.dispatch_interval.count()
                                  << " ps");
  EXPECT_EQ(engine_length(k, gpu, {false, true}), expected);
  EXPECT_EQ(engine_length(k, gpu, {true, false}), expected);
}

TEST(SoloLength, OneBlockIsTheBlock) { EXPECT_EQ(solo_length(1, 8, us(3), ns(1)), us(3)); }

TEST(SoloLength, IsTheEnginesForEveryNumberOfBlocksAroundTheWaves) {
  const Gpu gpu = small_gpu(3);  // 12 places of 512 threads
  for (const std::uint32_t blocks : {1u, 2u, 11u, 12u, 13u, 23u, 24u, 25u, 36u, 37u, 100u, 240u, 241u})
    expect_length(kernel(blocks, 512, us(5)), gpu);
}

TEST(SoloLength, IsTheEnginesAroundTheDispatchBound) {
  const Gpu gpu = small_gpu(3);
  const Time bound =
      gpu.dispatch_interval * 12;  // the first place is free again when the last one has been filled
  for (const std::uint32_t blocks : {12u, 13u, 24u, 25u, 30u, 61u})
    for (const Time block :
         {ps(1), gpu.dispatch_interval - ps(1), gpu.dispatch_interval, gpu.dispatch_interval + ps(1),
          bound - gpu.dispatch_interval, bound - ps(1), bound, bound + ps(1), bound + ns(7)})
      expect_length(kernel(blocks, 512, block), gpu);
}

TEST(SoloLength, IsTheEnginesForRandomShapes) {
  Dice dice(20261121);
  for (int i = 0; i < 300; ++i) {
    Gpu gpu = small_gpu(dice.any(1, 6));
    gpu.dispatch_interval = ps(dice.any(1, 1500));
    const Time block = ps(dice.any(1, dice.one_in(2) ? 20'000 : 5'000'000));
    const std::uint32_t threads = 32 * dice.any(1, 32);
    Kernel k = kernel(dice.any(1, dice.one_in(2) ? 40 : 1500), threads, block);
    k.static_shared_memory_bytes = 1024 * dice.any(0, 40);
    expect_length(k, gpu);
  }
}

TEST(SoloBlockTime, IsTheLeastThatFillsTheSoloTime) {
  Dice dice(7);
  for (int i = 0; i < 2000; ++i) {
    Gpu gpu = small_gpu(dice.any(1, 140));
    gpu.dispatch_interval = ps(dice.any(0, 1500));
    const std::uint32_t threads = 32 * dice.any(1, 32);
    const Kernel k = kernel(dice.any(1, dice.one_in(2) ? 40 : 500'000), threads, us(1));
    const Time solo = ps(dice.any(0, dice.one_in(2) ? 1'000'000 : 2'000'000'000));
    const Time block = solo_block_time(k, solo, gpu, gpu.sms);
    const auto length = [&](Time b) {
      return solo_length(k.blocks(), places_of(k, gpu), b, gpu.dispatch_interval);
    };
    ASSERT_GE(block, ps(1));
    ASSERT_GE(length(block), solo) << i;
    if (block > ps(1)) {
      ASSERT_LT(length(block - ps(1)), solo) << i;
    }
  }
}

TEST(SoloBlockTime, InvertsSoloLength) {
  const Gpu gpu = small_gpu(3);
  for (const std::uint32_t blocks : {1u, 11u, 12u, 13u, 24u, 25u, 1000u})
    for (const Time block : {ps(1), ns(3), ns(12), us(1), ms(3)}) {
      const Kernel k = kernel(blocks, 512, block);
      const Time solo = solo_length(blocks, places_of(k, gpu), block, gpu.dispatch_interval);
      EXPECT_EQ(solo_block_time(k, solo, gpu, gpu.sms), block) << blocks << " blocks";
    }
}

/// Alone on the GPU through the whole simulator, its solo time given instead of its block times.
Time run_length(Kernel k, Time solo, const Gpu& gpu) {
  k.block_times.clear();
  k.solo_time = solo;
  TraceBuilder b;
  b.one_kernel("client", k);
  const Ran ran = run_trace(b.trace, gpu);
  return ran.kernels.at(0).finished - ran.kernels.at(0).started;
}

/// A block time is a whole number of picoseconds: over w waves that leaves less than w.
void expect_solo(const Kernel& k, Time solo, const Gpu& gpu) {
  const Time length = run_length(k, solo, gpu);
  const auto waves = static_cast<std::int64_t>((k.blocks() + places_of(k, gpu) - 1) / places_of(k, gpu));
  EXPECT_GE(length, solo) << k.blocks() << " blocks";
  EXPECT_LT(length, solo + ps(waves)) << k.blocks() << " blocks";
}

TEST(SoloTime, IsHowLongAKernelAloneLasts) {
  const Gpu gpu = read_gpu("h200");
  for (const std::uint32_t blocks : {1u, 131u, 132u, 133u, 264u, 528u, 529u, 5000u})
    for (const Time solo : {us(4), us(37), ms(1)}) expect_solo(kernel(blocks, 512, us(1)), solo, gpu);
}

TEST(SoloTime, HoldsWhateverTheKernelDemands) {
  const Gpu gpu = read_gpu("h200");
  for (const std::uint32_t blocks : {1u, 100u, 132u, 200u, 1000u}) {
    Kernel k = kernel(blocks, 256, us(1));
    for (const std::optional<double> issue :
         {std::optional<double>{}, std::optional(40.0), std::optional(100.0)})
      for (const double bytes : {0.0, 1e6, 1e9}) {  // up to far above what the DRAM can do in that time
        k.counters.issue_active_pct = issue;
        k.counters.dram_read_bytes = bytes;
        k.counters.dram_write_bytes = bytes / 2;
        expect_solo(k, us(20), gpu);
      }
  }
}

TEST(SoloTime, AKernelShorterThanItsDispatchLastsAsLongAsThat) {
  const Gpu gpu = small_gpu(2);
  EXPECT_EQ(run_length(kernel(100, 1024, us(1)), ns(50), gpu), ns(99) + ps(1));
}

}  // namespace
}  // namespace corun::sim
