// The least of the ends, as a tree or a list.
#include "sim/stages/end_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/random_trace.h"

namespace corun::sim {
namespace {

using testing::ElementsAre;

std::vector<std::uint32_t> at(EndTimes& ends, std::int64_t time, const Cohorts& cohorts) {
  std::vector<std::uint32_t> heads;
  ends.for_each_at(time, cohorts, [&](std::uint32_t head) { heads.push_back(head); });
  return heads;
}

SmMask mask(std::initializer_list<std::uint32_t> ranks) {
  SmMask m;
  for (const std::uint32_t rank : ranks) m.set(rank);
  return m;
}

TEST(EndTimes, NobodyEndsAtFirst) {
  for (const bool together : {false, true})
    EXPECT_EQ(EndTimes(5, together).least(Cohorts(5, together)), EndTimes::kNone);
}

TEST(EndTimes, TheLeastIsToldWithAllThatEndThen) {
  const Cohorts cohorts(5, false);
  EndTimes ends(5, false);
  ends.set(3, 20), ends.set(1, 20), ends.set(2, 30);
  EXPECT_EQ(ends.least(cohorts), 20);
  EXPECT_THAT(at(ends, 20, cohorts), ElementsAre(1, 3));
  ends.set(3, EndTimes::kNone), ends.set(1, 31);
  EXPECT_EQ(ends.least(cohorts), 30);
  EXPECT_THAT(at(ends, 30, cohorts), ElementsAre(2));
}

TEST(EndTimes, ACohortThatLeavesEndsWhenTheOldOneDoes) {
  Cohorts cohorts(4, true);
  EndTimes ends(4, true);
  ends.set(0, 20);
  ASSERT_EQ(ends.least(cohorts), 20);
  cohorts.split(0, mask({2, 3}));
  ends.split(0, 2);
  EXPECT_THAT(at(ends, ends.least(cohorts), cohorts), ElementsAre(0, 2));
  ends.set(0, 25);
  EXPECT_EQ(ends.least(cohorts), 20);
  EXPECT_THAT(at(ends, 20, cohorts), ElementsAre(2));
}

TEST(EndTimes, WhoIsNoHeadDoesNotCount) {
  Cohorts cohorts(4, true);
  EndTimes ends(4, true);
  ends.set(0, 20);
  cohorts.split(0, mask({2, 3}));
  ends.split(0, 2);
  ends.set(2, 10);
  cohorts.join(0, 2);
  ends.set(2, EndTimes::kNone);
  EXPECT_EQ(ends.least(cohorts), 20);
}

TEST(EndTimes, ListAndTreeTellTheSame) {
  Dice dice(1);
  Cohorts cohorts(13, true);
  for (std::uint32_t rank = 12; rank != 0; --rank) cohorts.split(0, mask({rank}));
  const Cohorts alone(13, false);
  EndTimes list(13, true), tree(13, false);
  for (int i = 0; i < 5000; ++i) {
    const std::uint32_t head = dice.any(0, 12);
    const std::int64_t end = dice.one_in(4) ? EndTimes::kNone : dice.any(0, 30);
    list.set(head, end), tree.set(head, end);
    const std::int64_t least = tree.least(alone);
    ASSERT_EQ(list.least(cohorts), least);
    if (least == EndTimes::kNone) continue;
    ASSERT_EQ(at(list, least, cohorts), at(tree, least, alone));
  }
}

}  // namespace
}  // namespace corun::sim
