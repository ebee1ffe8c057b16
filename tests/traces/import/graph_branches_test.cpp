// What does a node of a CUDA graph come after, by the times of a recording?
#include "traces/import/graph_branches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace corun {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Time us(int n) { return from_ns(1e3 * n); }

TEST(GraphBranches, ANodeComesAfterWhatHadEndedWhenItStarted) {
  for (const int late : {-1, 0}) {
    const GraphNode nodes[] = {{0, us(0), us(5)}, {1, us(5) + Time{late}, us(9)}};
    const auto after = order_of_branches(nodes);
    EXPECT_THAT(after[0], IsEmpty());
    EXPECT_EQ(after[1].size(), late < 0 ? 0u : 1u) << "what ends later runs beside it";
  }
}

TEST(GraphBranches, WhatEndedBeforeItsOwnPredecessorNeedsNoMention) {
  for (const int late : {0, 1}) {
    const GraphNode nodes[] = {{0, us(0), us(5)}, {1, us(1), us(5) + Time{late}}, {0, us(8), us(9)}};
    EXPECT_EQ(order_of_branches(nodes)[2].size(), late == 0 ? 0u : 1u);
  }
}

TEST(GraphBranches, OfEachOtherStreamTheLastCounts) {
  const GraphNode nodes[] = {{0, us(0), us(2)}, {1, us(1), us(3)}, {2, us(1), us(9)}, {0, us(2), us(4)}, {3, us(5), us(6)}};
  EXPECT_THAT(order_of_branches(nodes)[4], ElementsAre(3, 1));
}

}  // namespace
}  // namespace corun
