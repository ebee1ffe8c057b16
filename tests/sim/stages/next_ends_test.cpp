// Is the first end found, and whose it is, as cohorts part and merge?
#include "sim/stages/next_ends.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <ranges>
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

TEST(NextEnds, ACohortThatIsMergedLeavesItsEndToTheOther) {
  Cohorts cohorts(4, true);
  NextEnds ends(4);
  SmMask part;
  part.set(3);
  const std::uint32_t other = cohorts.split(0, part);
  ends.set(0, 10), ends.set(other, 10);
  ends.find_first(cohorts);
  ends.merge(other);
  cohorts.merge(0, other);
  EXPECT_EQ(first_of(ends, cohorts), Heads{0});
}

/// Of 1 to 132 SMs, of which up to three or all change between two looks; also where the number of cohorts falls and rises.
TEST(NextEnds, OfAnyNumberOfHeadsTheFirstAreThoseThatAScanFinds) {
  std::mt19937 random(1);
  const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
  for (const std::uint32_t sms : {1u, 12u, 13u, 64u, 132u}) {
    for (const bool together : {false, true}) {
      Cohorts cohorts(sms, together);
      NextEnds ends(sms);
      std::map<std::uint32_t, std::int64_t> known;
      for (const std::uint16_t head : cohorts.list()) known[head] = NextEnds::kNone;
      for (int round = 0; round < 2000; ++round) {
        const std::vector<std::uint16_t> list = cohorts.list();
        const std::uint32_t head = list[below(static_cast<std::uint32_t>(list.size()))];
        if (together && cohorts.size(head) > 1 && below(3) != 0) {
          const std::uint32_t other = cohorts.split(head, cohorts.members(head).first(1 + below(cohorts.size(head) - 1)));
          ends.split(head, other);
          known[other] = known[head];
        } else if (together && head != list.front() && below(round % 400 < 200 ? 8 : 2) == 0) {
          ends.set(head, known[list.front()]);
          ends.find_first(cohorts);
          ends.merge(head);
          cohorts.merge(list.front(), head);
          known.erase(head);
        }
        const std::size_t changes = below(5) == 0 ? cohorts.list().size() : below(4);
        for (std::size_t i = 0; i < changes; ++i) {
          const std::uint16_t changed = cohorts.list()[below(static_cast<std::uint32_t>(cohorts.list().size()))];
          known[changed] = below(9) == 0 ? NextEnds::kNone : below(round % 2 == 0 ? 40 : 100'000);
          ends.set(changed, known[changed]);
        }
        ends.find_first(cohorts);
        const std::int64_t least = std::ranges::min(known | std::views::values);
        ASSERT_EQ(ends.first(), least);
        if (least == NextEnds::kNone) continue;
        Heads expected;
        for (const auto& [of, end] : known)
          if (end == least) expected.push_back(static_cast<std::uint16_t>(of));
        ASSERT_EQ(first_of(ends, cohorts), expected);
      }
    }
  }
}

}  // namespace
}  // namespace corun::sim
