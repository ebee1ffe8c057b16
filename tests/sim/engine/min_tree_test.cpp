// The least of many times, and all that have it.
#include "sim/engine/min_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/support/random_trace.h"

namespace corun::sim {
namespace {

std::vector<std::uint32_t> least_of(const MinTree& tree) {
  std::vector<std::uint32_t> all;
  tree.for_each_least([&](std::uint32_t i) { all.push_back(i); });
  return all;
}

TEST(MinTree, HasNoLeastAtFirst) {
  const MinTree tree(5);
  EXPECT_EQ(tree.least(), MinTree::kNone);
  EXPECT_TRUE(least_of(tree).empty());
}

TEST(MinTree, TellsTheLeastWithAllThatHaveIt) {
  MinTree tree(5);
  tree.set(4, 30), tree.set(1, 20), tree.set(3, 20);
  EXPECT_EQ(tree.least(), 20);
  EXPECT_EQ(least_of(tree), (std::vector<std::uint32_t>{1, 3}));
  tree.set(3, MinTree::kNone), tree.set(1, 31);
  EXPECT_EQ(least_of(tree), (std::vector<std::uint32_t>{4}));
  EXPECT_EQ(tree.at(1), 31);
}

TEST(MinTree, AgreesWithALookAtAllOfThem) {
  sim::Dice dice(2);
  for (const std::uint32_t n : {1u, 2u, 13u, 132u}) {
    MinTree tree(n);
    std::vector<std::int64_t> times(n, MinTree::kNone);
    for (int i = 0; i < 3000; ++i) {
      const std::uint32_t at = dice.any(0, n - 1);
      tree.set(at, times[at] = dice.one_in(4) ? MinTree::kNone : dice.any(0, 30));
      const std::int64_t least = *std::ranges::min_element(times);
      ASSERT_EQ(tree.least(), least);
      if (least == MinTree::kNone) continue;
      std::vector<std::uint32_t> all;
      for (std::uint32_t k = 0; k < n; ++k)
        if (times[k] == least) all.push_back(k);
      ASSERT_EQ(least_of(tree), all);
    }
  }
}

}  // namespace
}  // namespace corun::sim
