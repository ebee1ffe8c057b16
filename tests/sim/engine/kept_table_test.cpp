// Values that are kept for good: what comes back is what was put there for this key, wherever the table has grown to.
#include "sim/engine/kept_table.h"

#include <gtest/gtest.h>

#include <map>
#include <stdexcept>

#include "tests/support/random_trace.h"

namespace corun::sim {
namespace {

TEST(KeptTable, KeysOfOneHashAreKeptApart) {
  KeptTable<int, int> table;
  EXPECT_EQ(table.find(1, 7), nullptr);
  table.add(1, 7, 10);
  EXPECT_EQ(table.find(2, 7), nullptr);
  table.add(2, 7, 20);
  EXPECT_EQ(*table.find(1, 7), 10);
  EXPECT_EQ(*table.find(2, 7), 20);
}

TEST(KeptTable, WhatWasAddedStaysWhereItIsHoweverTheTableGrows) {
  Dice dice(1);
  KeptTable<std::uint32_t, std::uint32_t> table;
  std::map<std::uint32_t, std::uint32_t*> put;
  for (std::uint32_t i = 1; i < 20'000; ++i) {
    const std::uint32_t key = dice.any(1, 5'000);
    const std::uint64_t hash = key % 1'000;  // several keys have one
    if (put.contains(key))
      ASSERT_EQ(table.find(key, hash), put[key]);
    else
      put[key] = &table.add(key, hash, i);
  }
  const KeptTable<std::uint32_t, std::uint32_t> copy = table;
  for (const auto& [key, value] : put) {
    ASSERT_EQ(*copy.find(key, key % 1'000), *value);
    ASSERT_NE(copy.find(key, key % 1'000), value) << "a copy has its own";
  }
}

TEST(KeptTable, RefusesAKeyThatItHas) {
  KeptTable<int, int> table;
  table.add(1, 7, 10);
  EXPECT_THROW(table.add(1, 7, 11), std::logic_error);
}

}  // namespace
}  // namespace corun::sim
