// Which SMs have the most room for a task.
#include <gtest/gtest.h>

#include "sim/stages/placement.h"
#include "tests/support/random_trace.h"
#include "tests/support/stages.h"

namespace corun::sim {
namespace {

TEST(MostFreePlaces, IsThatOfTheSmWithTheMostAmongThoseThatMayBeUsed) {
  Placement placement;
  placement.reset(mask({0, 1, 2}));
  placement.clear();
  placement.set_free(0, 3);
  placement.set_free(1, 5);
  placement.set_free(2, 3);
  placement.set_free(3, 9);  // not allowed
  EXPECT_EQ(placement.most_free(nullptr), 5u);
  EXPECT_EQ(placement.with_free(3, nullptr), mask({0, 2}));
  const SmMask ready = mask({2, 3});
  EXPECT_EQ(placement.most_free(&ready), 3u);
  EXPECT_EQ(placement.with_free(3, &ready), mask({2}));
}

TEST(MostFreePlaces, CanBeAskedBelowABound) {
  Placement placement;
  placement.reset(mask({0, 1}));
  placement.clear();
  placement.set_free(0, 3);
  placement.set_free(1, 5);
  EXPECT_EQ(placement.most_free(nullptr, 5), 5u);
  EXPECT_EQ(placement.most_free(nullptr, 4), 3u);
  EXPECT_EQ(placement.most_free(nullptr, 3), 3u);
  EXPECT_EQ(placement.most_free(nullptr, 2), 0u);
  EXPECT_EQ(placement.most_free(nullptr, 0), 0u);
}

TEST(MostFreePlaces, IsUpToDateAfterManyChanges) {
  Dice dice(1);
  Placement placement;
  SmMask allowed;
  for (std::uint32_t rank = 0; rank < kMaxSms; rank += 3) allowed.set(rank);
  placement.reset(allowed);
  placement.clear();
  std::array<std::uint32_t, kMaxSms> free_places{};
  for (int i = 0; i < 20'000; ++i) {
    if (dice.one_in(5000)) {
      placement.clear();
      free_places = {};
    }
    const std::uint32_t rank = dice.any(0, kMaxSms - 1), n = dice.any(0, Placement::kMostPlaces);
    placement.set_free(rank, n);
    if (allowed.test(rank)) free_places[rank] = n;
    const std::uint32_t most = *std::max_element(free_places.begin(), free_places.end());
    ASSERT_EQ(placement.most_free(nullptr), most);
    SmMask with_most;
    for (std::uint32_t r = 0; r < kMaxSms; ++r)
      if (free_places[r] == most && allowed.test(r)) with_most.set(r);
    ASSERT_EQ(placement.with_free(most, nullptr), with_most);
  }
}

}  // namespace
}  // namespace corun::sim
