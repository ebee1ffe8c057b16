// Values that are kept: what comes back is what was put there for this key, or nothing.
#include "sim/engine/latest_table.h"

#include <gtest/gtest.h>

#include <map>
#include <stdexcept>

#include "tests/support/random_trace.h"

namespace corun::sim {
namespace {

TEST(LatestTable, AValueIsThereUntilAnotherTakesItsPlace) {
  LatestTable<int, int> table(6);
  bool found = true;
  table.look(1, 7, found) = 10;
  EXPECT_FALSE(found);
  EXPECT_EQ(table.look(1, 7, found), 10);
  EXPECT_TRUE(found);
  EXPECT_EQ(table.look(2, 7, found), 0) << "another key of the same hash";
  EXPECT_FALSE(found);
  table.look(1, 7, found);
  EXPECT_FALSE(found);
}

TEST(LatestTable, WhatItReturnsIsOfThisKeyHoweverItGrows) {
  Dice dice(1);
  LatestTable<std::uint32_t, std::uint32_t> table(8);
  std::map<std::uint32_t, std::uint32_t> put;
  int hits = 0;
  for (std::uint32_t i = 1; i < 20'000; ++i) {
    const std::uint32_t key = dice.any(1, 500);
    bool found = false;
    std::uint32_t& value = table.look(key, key * 0x9e3779b97f4a7c15u, found);
    if (found) {
      ASSERT_EQ(value, put[key]);
      ++hits;
    } else {
      ASSERT_EQ(value, 0u);
    }
    value = put[key] = i;
  }
  EXPECT_GT(hits, 1000);
}

TEST(LatestTable, RefusesSizesThatItCannotHave) {
  using Table = LatestTable<int, int>;
  EXPECT_THROW(Table(5), std::logic_error);
  EXPECT_NO_THROW(Table(6));
  EXPECT_NO_THROW(Table(31));
  EXPECT_THROW(Table(32), std::logic_error);
}

}  // namespace
}  // namespace corun::sim
