// Is what is found of a kernel's work what makes its solo times?
#include "sim/model/kernel_law.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "sim/model/kernel_model.h"
#include "tests/support/kernel_moving.h"
#include "traces/json/trace_json.h"

namespace corun::sim {
namespace {

constexpr SoloPoint kWholeGpu{132, 1e9};

class KernelLawTest : public testing::Test {
 protected:
  KernelFeatures features(const Kernel& k) const { return {k, *k.solo_time, gpu_}; }
  BlockLoad fitted(const Kernel& k, std::vector<SoloPoint> parts = {}) const { return KernelLaw(features(k), kWholeGpu, parts).load(); }
  /// Of 1 ms on the whole GPU, and of `half` ms on half of the SMs.
  BlockLoad with_half(const Kernel& k, double half) const { return fitted(k, {{66, 1e9 * half}}); }
  double ms(const Kernel& k, const BlockLoad& load, std::uint32_t sms) const { return KernelLaw::length(features(k), load, sms) / 1e9; }

  const Gpu gpu_ = read_gpu("h200");
};

// ---- how long a kernel is
// -----------------------------------------------------------------------------------

TEST_F(KernelLawTest, AGridOfOneWaveThatFillsEachSmSharesOutItsWork) {
  Kernel tiles;
  tiles.name = "tiles";
  tiles.block = {384, 1, 1}, tiles.registers_per_thread = 168, tiles.dynamic_shared_memory_bytes = 200'000;
  tiles.solo_time = from_ns(100'000);
  tiles.counters.warp_instructions = 1e6;
  const auto on_96 = [&](std::uint32_t blocks) {
    Kernel k = tiles;
    k.grid = {blocks, 1, 1};
    return to_ns(KernelModel(k, *k.solo_time, gpu_).solo_time(96)) / 1e5;
  };
  EXPECT_NEAR(on_96(132), 132.0 / 96, 0.02);
  EXPECT_GT(on_96(131), 1.9) << "of another grid two waves are two";
}

// ---- what is found
// ------------------------------------------------------------------------------------------

TEST_F(KernelLawTest, GivesTheSoloTimeBackWhateverTheCountersSay) {
  for (const auto& [bytes, instructions] : {std::pair{43'000, 100}, {43'000, 1500}, {1000, 2400}, {1000, 100}}) {
    const Kernel k = kernel_moving(bytes, instructions);
    EXPECT_NEAR(ms(k, fitted(k), 132), 1, 0.01) << bytes << ' ' << instructions;
  }
}

TEST_F(KernelLawTest, GivesTheTimesOnPartsBackToo) {
  for (const double instructions : {100, 1000})
    for (const double half : {1.05, 1.3, 1.6}) {
      const Kernel k = kernel_moving(half < 1.5 ? 40'000 : 20'000, instructions);  // which DRAM bounds, or nothing does
      const BlockLoad found = with_half(k, half);
      EXPECT_NEAR(ms(k, found, 66), half, 0.2 * half) << instructions;  // `KernelModel` meets it
      EXPECT_NEAR(ms(k, found, 132), 1, 0.06) << instructions << ' ' << half;
    }
}

TEST_F(KernelLawTest, WhatGoesWithTheSmsDoesSoOnFewerAndWhatDoesNotWaitsForTheMemory) {
  const Kernel own = kernel_moving(20'000), reads = kernel_moving(40'000);
  EXPECT_NEAR(ms(own, with_half(own, 2), 33), 4, 0.4);
  EXPECT_LT(ms(reads, with_half(reads, 1.05), 33), 2.2);
}

TEST_F(KernelLawTest, WithoutATimeOnAPartWhatCountersAccountForTellsHowItGoesWithTheSms) {
  const Kernel issues = kernel_moving(1000, 2400), reads = kernel_moving(43'000, 100);
  EXPECT_NEAR(ms(issues, fitted(issues), 66), 2, 0.06);
  EXPECT_LT(ms(reads, fitted(reads), 66), 1.3);
}

TEST_F(KernelLawTest, AServiceIsNotBelowWhatCountersSayNorAboveTheBlocksTime) {
  for (const double instructions : {100, 1000, 2400})
    for (const double half : {1.3, 2.0}) {
      const Kernel k = kernel_moving(1000, instructions);
      const KernelFeatures f = features(k);
      const double issue = with_half(k, half).sm.issue_ps;
      EXPECT_GE(issue, 0.98 * std::min(f.least_issue, f.block_time(132, 1e9) / f.residents(132)));
      EXPECT_LE(issue, 1.001 * f.block_time(132, 1e9) / f.residents(132));
    }
}

TEST_F(KernelLawTest, BytesCostAboutWhatStreamedOnesDoUnlessTheTimesSayOtherwise) {
  const Kernel few = kernel_moving(1000), many = kernel_moving(36'000);
  for (const Kernel& k : {few, kernel_moving(20'000)}) EXPECT_LT(with_half(k, 2).memory.dram_cost_ratio, 1.3);
  EXPECT_GT(with_half(many, 1.02).memory.dram_cost_ratio, 1.2) << "DRAM bounds it below its bandwidth";
}

/// A decode's attention reads its keys once, and L2 says how often its blocks come back for them: whether a counter is
/// a tenth higher or lower is no matter (experiments/h200/networks, decode).
class DecodeAttention : public testing::Test {
 protected:
  static Kernel kernel(double l2_bytes) {
    Kernel k;
    k.name = "fmha_decode_fprop_16x128x128";
    k.grid = {1, 20, 21}, k.block = {128, 1, 1};
    k.registers_per_thread = 186, k.dynamic_shared_memory_bytes = 86'336;
    k.solo_time = from_ns(79'200);
    Counters& c = k.counters;
    c.warp_instructions = 13.75e6, c.tensor_instructions = 1.31e6, c.issue_active_pct = 20.7, c.warps_active_pct = 11.8;
    c.dram_read_bytes = 327.8e6, c.dram_write_bytes = 2e6, c.l2_bytes = l2_bytes, c.l1_bytes = 328.7e6, c.duration_ns = 80'500;
    return k;
  }
  double on_half(const Kernel& k) const {
    return to_ns(KernelModel(k, *k.solo_time, gpu_).solo_time(64)) / to_ns(*k.solo_time);
  }
  const Gpu gpu_ = read_gpu("h200");
};

TEST_F(DecodeAttention, OnHalfOfTheSmsTakesAboutAsLongAsDramDoesWhateverL2Counts) {
  for (const double l2_bytes : {329.8e6, 360e6, 400e6, 450e6, 494.8e6}) EXPECT_LT(on_half(kernel(l2_bytes)), 1.15) << l2_bytes;
}

TEST_F(DecodeAttention, DoesSoWithEachCounterATenthOff) {
  using Counter = std::optional<double> Counters::*;
  for (const Counter counter : {&Counters::warp_instructions, &Counters::tensor_instructions, &Counters::issue_active_pct,
                                &Counters::warps_active_pct, &Counters::dram_read_bytes, &Counters::dram_write_bytes,
                                &Counters::l2_bytes, &Counters::l1_bytes, &Counters::duration_ns})
    for (const double by : {0.9, 1.1})
      for (const double l2_bytes : {329.8e6, 494.8e6}) {
        Kernel k = kernel(l2_bytes);
        *(k.counters.*counter) *= by;
        EXPECT_LT(on_half(k), 1.25) << by << ' ' << l2_bytes;
      }
}

}  // namespace
}  // namespace corun::sim
