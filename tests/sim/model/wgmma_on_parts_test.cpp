// How long does a product of matrices on wgmma take on a part of the GPU?  Each block there is faster, as fewer SMs are at it.
#include <gtest/gtest.h>

#include "sim/model/contention.h"
#include "sim/model/kernel_model.h"
#include "traces/json/trace_json.h"

namespace corun::sim {
namespace {

constexpr std::uint32_t kAll = 132, kHalf = 66;

class WgmmaOnParts : public testing::Test {
 protected:
  /// A block on each of `blocks` SMs, which keeps its tensor cores busy for `busy` of its time.
  Kernel product(double busy, std::uint32_t blocks = kAll, double through_l1 = 0) const {
    Kernel k;
    k.name = "nvjet_sm90_hsh_256x128_64x4_1x2_h_bz_coopA_NNT";
    k.grid = {blocks, 1, 1};
    k.block = {384, 1, 1};
    k.registers_per_thread = 168;
    k.dynamic_shared_memory_bytes = 213'000;
    k.solo_time = from_ns(200'000);
    const double cycles = 200e-6 * gpu_.clock_hz;
    k.counters.tensor_instructions = busy * cycles * 8 / 128 * blocks;
    k.counters.warp_instructions = 8 * *k.counters.tensor_instructions;
    k.counters.l1_bytes = through_l1 * 3e8;
    k.counters.l2_bytes = 3e8;
    k.counters.dram_read_bytes = k.counters.dram_write_bytes = 0;
    return k;
  }
  /// Of a block on that many SMs over one on all.
  double time(const Kernel& k, std::uint32_t sms) const {
    const KernelModel model(k, *k.solo_time, gpu_);
    return model.load(sms).alone_ps / model.load(gpu_.sms).alone_ps;
  }
  const Gpu gpu_ = read_gpu("h200");
};

TEST_F(WgmmaOnParts, ABlockOnHalfOfTheSmsIsFasterByHalfOfWhatIsMeasured) {
  const double least = gpu_.contention.wgmma_least;
  ASSERT_LT(least, 1);
  EXPECT_NEAR(time(product(0.97), kHalf), 1 - 0.97 * (1 - least) / 2, 0.03);
  EXPECT_EQ(time(product(0.97), kAll), 1);
}

TEST_F(WgmmaOnParts, WhatKeepsItsTensorCoresBusyHalfOfTheTimeGainsHalf) {
  EXPECT_NEAR(1 - time(product(0.48), kHalf), (1 - time(product(0.96), kHalf)) / 2, 0.02);
}

TEST_F(WgmmaOnParts, NothingIsGainedWhereTheTimeAloneIsOfThatPart) {
  EXPECT_EQ(time(product(0.97, kHalf), kHalf), 1);
}

TEST_F(WgmmaOnParts, NothingIsGainedByTensorInstructionsThatReadRegisters) {
  EXPECT_NEAR(time(product(0.97, kAll, 1), kHalf), 1, 0.01);
}

TEST_F(WgmmaOnParts, TimesOnPartsTellWhereTheyAreKnown) {
  Kernel k = product(0.97);
  k.solo_time_by_sms = {{kHalf, from_ns(400'000)}, {kAll, *k.solo_time}};
  EXPECT_NEAR(time(k, kHalf), 1, 0.02);
}

TEST_F(WgmmaOnParts, TwoOnAHalfEachTakeWhatEachTakesOnAll) {
  const Kernel k = product(0.97);
  const KernelModel model(k, *k.solo_time, gpu_);
  const BlockLoad half = model.load(kHalf), all = model.load(kAll);
  std::array<Contender, 2> both{Contender{&half, kHalf, kHalf}, Contender{&half, kHalf, kHalf}};
  share_memory(both, limits_of(gpu_));
  EXPECT_EQ(both[0].issue_ps, all.sm.issue_ps);
  std::array<Contender, 1> one{Contender{&half, kHalf, kHalf}};
  share_memory(one, limits_of(gpu_));
  EXPECT_LT(one[0].issue_ps, all.sm.issue_ps);
}

TEST_F(WgmmaOnParts, OneWhoseTimesOnPartsAreKnownIsAtItForTheOther) {
  const Kernel k = product(0.97);
  Kernel known = k;
  known.solo_time_by_sms = {{kHalf, from_ns(350'000)}, {kAll, *k.solo_time}};
  const BlockLoad half = KernelModel(k, *k.solo_time, gpu_).load(kHalf), other = KernelModel(known, *k.solo_time, gpu_).load(kHalf);
  std::array<Contender, 2> both{Contender{&half, kHalf, kHalf}, Contender{&other, kHalf, kHalf}};
  share_memory(both, limits_of(gpu_));
  EXPECT_EQ(both[0].issue_ps, half.sm.issue_ps);
}

}  // namespace
}  // namespace corun::sim
