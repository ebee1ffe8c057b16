// Blocks of one task on an SM, at one rate.
#include "sim/stages/block_row.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/support/random_trace.h"

namespace corun::sim {
namespace {

BlockRow row_at(std::int64_t now) {
  BlockRow row;
  row.begin(TaskId{0}, WorkId{0}, now);
  return row;
}

BlockRow::Slot slot(std::int64_t end, std::uint32_t number = 0, std::uint16_t count = 1,
                    std::int64_t start = 0) {
  return {end, start * count, start, start, number, 0, count};
}

TEST(BlockRow, AtFullRateProgressIsTime) {
  BlockRow row = row_at(100);
  EXPECT_EQ(row.progress_at(100), 0);
  EXPECT_EQ(row.progress_at(5'000'000'100), 5'000'000'000);
}

TEST(BlockRow, ARateCountsFromWhenItWasSet) {
  BlockRow row = row_at(0);
  row.set_rate(kFullRate / 2, 1000);
  EXPECT_EQ(row.progress_at(1000), 1000);
  EXPECT_EQ(row.progress_at(3000), 2000);
  row.set_rate(kFullRate / 4, 3000);
  EXPECT_EQ(row.progress_at(3004), 2001);
}

TEST(BlockRow, ABlockEndsAtTheFirstPicosecondThatDoesItsWork) {
  Dice dice(1);
  for (int i = 0; i < 20'000; ++i) {
    const std::int64_t now = dice.any(0, 1'000'000'000);
    BlockRow row = row_at(now);
    row.set_rate(dice.any(1, dice.one_in(2) ? 4 * kFullRate : 5000), now);
    // Up to three hours: beyond 2^42 it counts otherwise.
    const std::int64_t left = std::int64_t{1} + (std::int64_t{dice.any(0, 1u << 31)} << dice.any(0, 22));
    if (left / row.rate > std::int64_t{1} << 40) continue;  // its end would be past all time
    row.insert(slot(left), true);
    row.find_next(now);
    ASSERT_GE(row.progress_at(row.next), left) << "rate " << row.rate;
    ASSERT_LT(row.progress_at(row.next - 1), left) << "rate " << row.rate;
  }
}

TEST(BlockRow, WhoEndedEarlierEndsNow) {
  BlockRow row = row_at(0);
  row.insert(slot(10), true);
  row.find_next(0);
  EXPECT_EQ(row.next, 10);
  row.find_next(25);
  EXPECT_EQ(row.next, 25);
  row.set_rate(2 * kFullRate, 25);
  row.find_next(30);
  EXPECT_EQ(row.next, 30);
}

TEST(BlockRow, BlocksAreInTheOrderOfTheirEnds) {
  BlockRow row = row_at(0);
  for (const std::int64_t end : {50, 20, 70, 60, 20})
    row.insert(slot(end, static_cast<std::uint32_t>(end)), false);
  std::vector<std::int64_t> ends;
  for (; row.slots_used != 0; row.pop()) ends.push_back(row.slot(0).end);
  EXPECT_EQ(ends, (std::vector<std::int64_t>{20, 20, 50, 60, 70}));
  EXPECT_EQ(row.count, 0u);
  EXPECT_EQ(row.starts, 0);
}

TEST(BlockRow, ThoseThatEndTogetherAreOneSlotOnlyWhereSmsAreKeptTogether) {
  for (const bool together : {false, true}) {
    BlockRow row = row_at(0);
    row.insert(slot(50, 0, 2, 3), together);
    row.insert(slot(50, 0, 1, 9), together);
    row.insert(slot(50, kNoBlock, 1, 9), together);  // a worker that finds none
    EXPECT_EQ(row.slots_used, together ? 2u : 3u);
    EXPECT_EQ(row.count, 4u);
    EXPECT_EQ(row.starts, 3 + 3 + 9 + 9);
    EXPECT_EQ(row.ages().mean, 6);
    EXPECT_EQ(row.ages().first, 3);
    EXPECT_EQ(row.ages().last, 9);
  }
}

TEST(BlockRow, HoldsAsManyAsAnSmRoundAndRound) {
  BlockRow row = row_at(0);
  std::int64_t end = 0, first = 0;
  for (std::uint32_t i = 0; i < kMostBlocks; ++i) row.insert(slot(end++), false);
  for (int i = 0; i < 200; ++i) {
    ASSERT_EQ(row.slot(0).end, first++);
    row.pop();
    row.insert(slot(end++), false);
  }
  EXPECT_EQ(row.count, kMostBlocks);
  if (kExpectsSlow) {
    EXPECT_THROW(row.insert(slot(end), false), std::logic_error);
  }
}

TEST(BlockRow, ACopyIsAlikeAndGoesOnAlike) {
  BlockRow row = row_at(0);
  for (std::int64_t end = 0; end < 60; ++end) row.insert(slot(end, static_cast<std::uint32_t>(end)), false);
  for (int i = 0; i < 50; ++i) row.pop();
  row.set_rate(kFullRate / 3, 10);
  row.find_next(10);
  const BlockRow copy = row;
  EXPECT_TRUE(row.alike(copy, true, 20));
  BlockRow other = row;
  other.pop();
  EXPECT_FALSE(row.alike(other, false, 20));
  other = row;
  other.backlog += 1;
  EXPECT_TRUE(row.alike(other, false, 20));
  EXPECT_FALSE(row.alike(other, true, 20));
  other = row;
  other.slot(3).end += 1;
  EXPECT_FALSE(row.alike(other, false, 20));
}

TEST(BlockRow, RowsAreAlikeByWhatIsLeftNotByWhenTheyBegan) {
  BlockRow early = row_at(0), late = row_at(40);
  early.insert(slot(100), true);
  late.insert(slot(60), true);
  early.find_next(40), late.find_next(40);
  EXPECT_TRUE(early.alike(late, false, 40));
  early.set_rate(kFullRate / 2, 40), late.set_rate(kFullRate / 2, 41);
  early.find_next(41), late.find_next(41);
  EXPECT_FALSE(early.alike(late, false, 41)) << "they would be rounded differently";
}

}  // namespace
}  // namespace corun::sim
