// Rates that are kept: what comes back is what was put there, or nothing.
#include "sim/stages/rate_table.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <stdexcept>
#include <tuple>

#include "tests/support/random_trace.h"

namespace corun::sim {
namespace {

TEST(RateTable, AKindHasItsOwnNumberNotZero) {
  RateTable table;
  const RateTable::Kind kind{1, 2, 3, 0, {1}, {}};
  const std::uint32_t serial = table.serial_of(kind);
  EXPECT_NE(serial, 0u);
  EXPECT_EQ(table.serial_of(kind), serial);
  for (const RateTable::Kind& other :
       {RateTable::Kind{9, 2, 3, 0, {1}, {}}, {1, 9, 3, 0, {1}, {}}, {1, 2, 9, 0, {1}, {}}, {1, 2, 3, 9, {1}, {}}, {1, 2, 3, 0, {0}, {}}, {1, 2, 3, 0, {1}, {0, 1}}})
    EXPECT_NE(table.serial_of(other), serial);
}

TEST(RateTable, ANumberIsNeverThatOfAnotherKind) {
  Dice dice(1);
  RateTable table;
  std::map<std::uint32_t, std::tuple<double, double>> kinds;
  for (int i = 0; i < 50'000; ++i) {
    const double delay = dice.any(0, 60), issue = dice.any(0, 60);
    const std::uint32_t serial = table.serial_of({delay, issue, 1, 0, 1});
    const auto [known, added] = kinds.emplace(serial, std::tuple(delay, issue));
    ASSERT_EQ(known->second, std::tuple(delay, issue));
  }
}

TEST(RateTable, AnEntryIsThereUntilAnotherTakesItsPlace) {
  RateTable table;
  RateTable::Rates& rates = table.rates_of({1, 2, 3});
  EXPECT_EQ(rates.older, 0u);
  rates.older = 10, rates.younger = 20;
  EXPECT_EQ(table.rates_of({1, 2, 3}).older, 10u);
  EXPECT_EQ(table.rates_of({2, 1, 3}).older, 0u) << "the older one is another";
}

TEST(RateTable, SeveralAreKnownByWhoTheyAreTheirBlocksAndTheirAges) {
  RateTable table;
  const RateTable::Several company{{1, 2, 3, 0}, {4, 5, 6, 0}, 7};
  RateTable::SeveralRates& rates = table.rates_of_several(company);
  EXPECT_EQ(rates.front(), 0u);
  rates = {10, 20, 30, 0};
  EXPECT_EQ(table.rates_of_several(company)[2], 30u);
  for (const RateTable::Several& other : {RateTable::Several{{2, 1, 3, 0}, {4, 5, 6, 0}, 7},
                                          RateTable::Several{{1, 2, 3, 0}, {4, 5, 7, 0}, 7},
                                          RateTable::Several{{1, 2, 3, 0}, {4, 5, 6, 0}, 6},
                                          RateTable::Several{{1, 2, 3, 9}, {4, 5, 6, 1}, 7}})
    EXPECT_EQ(table.rates_of_several(other).front(), 0u);
}

TEST(RateTable, WhatItReturnsIsOfThisKeyOrUnknown) {
  Dice dice(2);
  RateTable table;
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, std::uint32_t> kept;
  std::uint32_t hits = 0;
  for (std::uint32_t i = 1; i < 100'000; ++i) {
    const std::uint32_t older = dice.any(1, 40), younger = dice.any(0, 40), blocks = dice.any(1, 20);
    RateTable::Rates& rates = table.rates_of({older, younger, blocks});
    std::uint32_t& known = kept[{older, younger, blocks}];
    if (rates.older != 0) {
      ASSERT_EQ(rates.older, known);
      ++hits;
    } else {
      rates.older = known = i;
    }
  }
  EXPECT_GT(hits, 0u);
}

TEST(RateTable, RefusesTimesThatAreNone) {
  RateTable table;
  EXPECT_THROW(table.serial_of({std::numeric_limits<double>::quiet_NaN(), 1, 1, 0, 1}), std::logic_error);
}

}  // namespace
}  // namespace corun::sim
