// Is the first end found, and whose it is, as cohorts part and join?
#include "sim/stages/next_ends.h"

#include <gtest/gtest.h>

#include <vector>

namespace corun::sim {
namespace {

std::vector<std::uint16_t> first_of(const NextEnds& ends, const Cohorts& cohorts) {
  std::vector<std::uint16_t> heads;
  ends.for_each_first(cohorts, [&](std::uint16_t head) { heads.push_back(head); });
  return heads;
}

using Heads = std::vector<std::uint16_t>;

TEST(NextEnds, TheFirstIsOfOneHeadOrOfAllThatHaveIt) {
  Cohorts cohorts(4, false);
  NextEnds ends(4);
  ends.find_first(cohorts);
  EXPECT_EQ(ends.first(), NextEnds::kNone);
  ends.set(1, 50), ends.set(2, 49), ends.set(3, 50);
  ends.find_first(cohorts);
  EXPECT_EQ(ends.first(), 49);
  EXPECT_EQ(first_of(ends, cohorts), Heads{2});
  ends.set(2, 50);
  ends.find_first(cohorts);
  EXPECT_EQ(first_of(ends, cohorts), (Heads{1, 2, 3}));
}

TEST(NextEnds, ACohortThatPartsTakesItsEndAlong) {
  Cohorts cohorts(4, true);
  NextEnds ends(4);
  ends.set(0, 10);
  ends.find_first(cohorts);
  SmMask part;
  part.set(2), part.set(3);
  const std::uint32_t other = cohorts.split(0, part);
  ends.split(0, other);
  EXPECT_EQ(first_of(ends, cohorts), (Heads{0, static_cast<std::uint16_t>(other)}));
}

TEST(NextEnds, ACohortThatJoinsLeavesItsEndToTheOther) {
  Cohorts cohorts(4, true);
  NextEnds ends(4);
  SmMask part;
  part.set(3);
  const std::uint32_t other = cohorts.split(0, part);
  ends.set(0, 10), ends.set(other, 10);
  ends.find_first(cohorts);
  ends.join(other);
  cohorts.join(0, other);
  EXPECT_EQ(first_of(ends, cohorts), Heads{0});
}

}  // namespace
}  // namespace corun::sim
