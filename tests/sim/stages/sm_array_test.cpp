// Room on the SMs: taken, given back, the same in both halves of a cohort; and what is told of changes.
#include "sim/stages/sm_array.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/support/build.h"
#include "tests/support/stages.h"

namespace corun::sim {
namespace {

using testing::ElementsAre;

/// A quarter of an SM's threads.
constexpr SmResources kQuarterWithMemory{1, 16, 512, 16384, 0};
constexpr SmResources kSmall{1, 4, 128, 4096, 1024};

TEST(SmArray, TakingAndGivingBackRestoresTheRoom) {
  const Gpu gpu = small_gpu(2);
  SmArray sms(gpu, false, false);
  const std::vector<SmResources> before = sms.free();
  ASSERT_EQ(sms.free_places(1, kQuarterWithMemory, 0), 4u);
  sms.take(1, kQuarterWithMemory, 0, 1, true);
  sms.take(1, kSmall, 0, 1, false);
  EXPECT_EQ(sms.free_places(1, kQuarterWithMemory, 0), 2u);
  EXPECT_EQ(sms.free_places(0, kQuarterWithMemory, 0), 4u);
  EXPECT_EQ(sms.busy(), 1u);
  EXPECT_EQ(sms.resident_blocks(), 2u);
  EXPECT_EQ(sms.resident_warps(), 20u);
  sms.give_back(1, kQuarterWithMemory, 0, 1, true);
  EXPECT_EQ(sms.busy(), 1u);
  sms.give_back(1, kSmall, 0, 1, false);
  EXPECT_EQ(sms.free(), before);
  EXPECT_TRUE(sms.empty(1));
  EXPECT_EQ(sms.busy() + sms.resident_blocks() + sms.resident_warps(), 0u);
}

TEST(SmArray, ACohortTakesOnEachOfItsSms) {
  const Gpu gpu = small_gpu(3);
  SmArray sms(gpu, true, false);
  sms.take(0, kQuarterWithMemory, 0, 2, true);
  EXPECT_EQ(sms.free_places(0, kQuarterWithMemory, 0), 2u);
  EXPECT_EQ(sms.free_places(1, kQuarterWithMemory, 0), 0u) << "no head";
  EXPECT_EQ(sms.busy(), 3u);
  EXPECT_EQ(sms.resident_blocks(), 6u);
  EXPECT_EQ(sms.resident_warps(), 96u);
}

TEST(SmArray, ASplitCohortHasTheSameRoomInBothHalves) {
  Gpu gpu = small_gpu(4);
  gpu.sm.shared_memory_carveouts = {8192, 65536};
  SmArray sms(gpu, true, false);
  sms.take(0, kSmall, 8192, 3, false);
  const std::uint32_t other = sms.split(0, mask({0, 2}));
  EXPECT_EQ(other, 1u);
  EXPECT_EQ(sms.free()[0], sms.free()[1]);
  EXPECT_EQ(sms.free_places(0, kSmall, 8192), sms.free_places(1, kSmall, 8192));
  EXPECT_EQ(sms.free_places(1, kSmall, 65536), 0u) << "its carveout came along";
  EXPECT_TRUE(sms.alike(0, 1));
  sms.take(1, kSmall, 8192, 1, false);
  EXPECT_FALSE(sms.alike(0, 1));
  sms.give_back(1, kSmall, 0, 1, false);
  sms.merge(0, 1);
  EXPECT_EQ(sms.cohorts().size(0), 4u);
  EXPECT_EQ(sms.resident_blocks(), 12u);
}

TEST(SmArray, AnEmptySmHasAsMuchSharedMemoryAsItsGpuGivesAtLeast) {
  Gpu gpu = small_gpu(1);
  gpu.sm.shared_memory_carveouts = {8192, 32768, 65536};
  gpu.sm.empty_sm_shared_memory_bytes = 32768;
  SmArray sms(gpu, true, false);
  sms.take(0, kSmall, 8192, 1, false);
  EXPECT_NE(sms.free_places(0, kSmall, 32768), 0u);
  EXPECT_EQ(sms.free_places(0, kSmall, 32769), 0u);
  sms.give_back(0, kSmall, 0, 1, false);
  sms.take(0, kSmall, 65536, 1, false);
  EXPECT_NE(sms.free_places(0, kSmall, 65536), 0u) << "more than that is given where a block needs more";
}

TEST(SmArray, SmsWhoseBlocksHaveKnownEndsAreNotAlike) {
  const Gpu gpu = small_gpu(2);
  SmArray sms(gpu, true, false);
  sms.split(0, mask({0}));
  sms.take(0, kSmall, 0, 1, true);
  sms.take(1, kSmall, 0, 1, true);
  EXPECT_FALSE(sms.alike(0, 1));
  sms.give_back(0, kSmall, 0, 1, true);
  sms.give_back(1, kSmall, 0, 1, true);
  EXPECT_TRUE(sms.alike(0, 1));
}

TEST(SmArray, ABlockJoinsAnSmInUseOnlyIfItNeedsNoLargerCarveout) {
  const Gpu gpu = small_gpu(1);
  SmArray sms(gpu, false, false);
  EXPECT_NE(sms.free_places(0, kSmall, 9000), 0u);
  sms.take(0, kSmall, 8192, 1, true);
  EXPECT_NE(sms.free_places(0, kSmall, 8192), 0u);
  EXPECT_EQ(sms.free_places(0, kSmall, 8193), 0u);
  sms.give_back(0, kSmall, 0, 1, true);
  EXPECT_NE(sms.free_places(0, kSmall, 9000), 0u) << "empty, it takes another carveout";
}

TEST(SmArray, ABlockGetsTheFirstPlaceThatNobodyHas) {
  const Gpu gpu = small_gpu(2);
  SmArray sms(gpu, false, true);
  for (std::uint16_t place = 0; place < 3; ++place) EXPECT_EQ(sms.take(0, kSmall, 0, 1, true), place);
  EXPECT_EQ(sms.take(1, kSmall, 0, 1, true), 0u);
  sms.give_back(0, kSmall, 1, 1, true);
  EXPECT_EQ(sms.take(0, kSmall, 0, 1, true), 1u);
  EXPECT_EQ(sms.take(0, kSmall, 0, 1, true), 3u);
}

TEST(SmArray, IntegralsGrowWithTimeAndWithWhatRuns) {
  const Gpu gpu = small_gpu(2);
  SmArray sms(gpu, false, false);
  sms.pass_time(1000);
  EXPECT_EQ(sms.sm_ps(), 0);
  sms.take(0, kQuarterWithMemory, 0, 1, true);
  sms.pass_time(10);
  sms.take(1, kQuarterWithMemory, 0, 1, true);
  sms.pass_time(5);
  EXPECT_EQ(sms.sm_ps(), 10 + 2 * 5);
  EXPECT_EQ(sms.warp_ps(), 16 * 10 + 32 * 5);
  sms.skip_time(100, 1600);
  EXPECT_EQ(sms.sm_ps(), 120);
  EXPECT_EQ(sms.warp_ps(), 320 + 1600);
}

TEST(SmArray, IntegralsGoOnBeyond64Bits) {
  constexpr SmArray::Integral kBound = SmArray::Integral{1} << 63;
  constexpr std::int64_t kSpan = std::int64_t{1} << 59;
  const Gpu gpu = small_gpu(2);
  SmArray sms(gpu, false, false);
  sms.take(0, kQuarterWithMemory, 0, 1, true);  // 16 warps
  sms.pass_time(kSpan - 1);
  EXPECT_EQ(sms.warp_ps(), kBound - 16);
  sms.pass_time(1);
  EXPECT_EQ(sms.warp_ps(), kBound);
  EXPECT_EQ(sms.sm_ps(), kSpan);
  sms.pass_time(2 * kSpan);
  EXPECT_EQ(sms.warp_ps(), 3 * kBound) << "in one span";
  sms.skip_time(kBound, 16 * kBound);
  EXPECT_EQ(sms.sm_ps(), 3 * kSpan + kBound);
  EXPECT_EQ(sms.warp_ps(), 19 * kBound);
}

TEST(SmArray, MasksAndNumbersAreByPlacementOrder) {
  Gpu gpu = small_gpu(4);
  gpu.sms_per_tpc = 2;
  gpu.placement_order = {SmId{2}, SmId{0}, SmId{3}, SmId{1}};
  const SmArray sms(gpu, false, false);
  EXPECT_EQ(sms.mask_of(TpcMask::range(0, 1)), mask({1, 3}));  // SM 0 and 1
  EXPECT_EQ(sms.mask_of(TpcMask::all()), sms.all());
  EXPECT_THAT(sms.by_rank({10, 11, 12, 13}), ElementsAre(12, 10, 13, 11));
}

TEST(SmArray, TheLatestChangesCanBeAskedForAndOlderOnesAreTooOld) {
  const Gpu gpu = small_gpu(5);
  SmArray sms(gpu, false, false);
  const std::uint64_t begin = sms.changes();
  EXPECT_GT(begin, SmArray::kRemembered) << "who has seen none is behind from the first";
  constexpr auto kMore = std::uint32_t{SmArray::kRemembered} + 3;
  for (std::uint32_t i = 0; i < kMore; ++i) sms.note_change(i % 5);
  EXPECT_EQ(sms.changes(), begin + kMore);
  for (std::uint32_t i = 3; i < kMore; ++i) EXPECT_EQ(sms.changed(begin + i), i % 5);
  if (kExpectsSlow) {
    EXPECT_THROW(sms.changed(begin + 2), std::logic_error);
    EXPECT_THROW(sms.changed(sms.changes()), std::logic_error);
  }
}

TEST(SmArray, WhatHasChangedIsToldOnce) {
  const Gpu gpu = small_gpu(4);
  SmArray sms(gpu, true, false);
  sms.note_change(0);
  EXPECT_EQ(sms.take_touched(), mask({0}));
  EXPECT_TRUE(sms.take_touched().none());
  sms.split(0, mask({3}));
  EXPECT_EQ(sms.take_touched(), mask({3}));
  const std::uint64_t before = sms.changes();
  sms.merge(0, 3);
  EXPECT_EQ(sms.take_touched(), mask({0}));
  EXPECT_EQ(sms.changed(before), 3u) << "who knew its room must learn that it is no head";
}

TEST(SmArray, ACopyGoesItsOwnWay) {
  const Gpu gpu = small_gpu(2);
  SmArray sms(gpu, false, false);
  sms.take(0, kQuarterWithMemory, 0, 1, true);
  SmArray copy = sms;
  copy.take(0, kQuarterWithMemory, 0, 3, true);
  EXPECT_EQ(copy.free_places(0, kQuarterWithMemory, 0), 0u);
  EXPECT_EQ(sms.free_places(0, kQuarterWithMemory, 0), 3u);
}

TEST(SmArray, RefusesGpusThatItCannotHold) {
  Gpu many = small_gpu(kMaxSms + 1);
  EXPECT_THROW(SmArray(many, true, false), std::logic_error);
  EXPECT_NO_THROW(SmArray(small_gpu(kMaxSms), true, false));
  Gpu order = small_gpu(4);
  order.placement_order.pop_back();
  EXPECT_THROW(SmArray(order, true, false), std::logic_error);
  Gpu blocks = small_gpu(4);
  blocks.sm.max_blocks = 65;
  EXPECT_THROW(SmArray(blocks, true, false), std::logic_error);
}

TEST(SmArray, RefusesToMergeWhatIsNotAlike) {
  const Gpu gpu = small_gpu(2);
  SmArray sms(gpu, true, false);
  sms.split(0, mask({0}));
  EXPECT_THROW(sms.merge(1, 0), std::logic_error);
  sms.take(0, kSmall, 0, 1, false);
  EXPECT_THROW(sms.merge(0, 1), std::logic_error);
}

TEST(SmArray, RefusesToTakeWhatIsNotThere) {
  if (!kExpectsSlow) GTEST_SKIP() << "looked at where speed does not count";
  const Gpu gpu = small_gpu(2);
  SmArray sms(gpu, true, false);
  EXPECT_THROW(sms.take(1, kQuarterWithMemory, 0, 1, true), std::logic_error);  // no head
  EXPECT_THROW(sms.take(0, kQuarterWithMemory, 0, 5, true), std::logic_error);
  EXPECT_NO_THROW(sms.take(0, kQuarterWithMemory, 0, 4, true));
  EXPECT_THROW(sms.take(0, kQuarterWithMemory, 0, 1, true), std::logic_error);
  EXPECT_THROW(sms.pass_time(-1), std::logic_error);
  sms.give_back(0, kQuarterWithMemory, 0, 4, true);
  EXPECT_THROW(sms.give_back(0, kQuarterWithMemory, 0, 1, true), std::logic_error);
}

}  // namespace
}  // namespace corun::sim
