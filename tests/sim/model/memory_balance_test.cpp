// How busy the memory is under a company: Newton's method against bisection.
#include "sim/model/memory_balance.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/support/random_trace.h"
#include "traces/json/trace_json.h"

namespace corun::sim {
namespace {

constexpr double kSms = 132;
constexpr double kClose = 1e-5;             // of the use of DRAM and of L2
constexpr int kFine = 30, kFineRounds = 8;  // leave nothing to wish for

/// From `least` to `most`, as often within a factor of 2 anywhere between.
double spread(Dice& dice, double least, int doublings) {
  const int doubled = static_cast<int>(dice.any(0, doublings));
  return std::ldexp(least * (1 + dice.any(0, 1000) / 1000.0), doubled);
}

/// What launches ask for that take about as long at the issue slots, waiting and moving bytes, or only some.
std::vector<Presser> company(Dice& dice) {
  std::vector<Presser> pressers(dice.any(1, 5));
  for (Presser& p : pressers) {
    const double sms = dice.one_in(3) ? dice.any(1, kSms) : kSms;
    p.per_sm = dice.one_in(4) ? dice.any(1, 32) / 4.0 : dice.any(1, 16);
    p.blocks = p.per_sm * sms;
    p.issue = dice.one_in(10) ? 0 : spread(dice, 1e4, 10);
    p.delay = spread(dice, 1e5, 8);
    if (dice.one_in(10)) p.delay += spread(dice, 1e4, 10);
    if (dice.one_in(4)) p.arrival_randomness = dice.any(0, 4) / 4.0;
    if (!dice.one_in(8)) {
      const double wait = spread(dice, 1e5, 8), missing = dice.any(0, 4) / 4.0;
      p.by_f = 1.8 * missing * wait, p.by_g = (1 - missing) * wait;
    }
    const double time = p.delay + p.by_f + p.by_g + p.issue;
    const double share = time / p.blocks;
    if (!dice.one_in(4)) p.read = share * spread(dice, 0.01, 6);
    if (!dice.one_in(4)) p.write = share * spread(dice, 0.01, 6);
    p.l2 = (p.read + p.write) / 2;  // bytes of DRAM go through L2
    if (p.by_g > 0 && !dice.one_in(4)) p.l2 += share * spread(dice, 0.01, 6);
    if (dice.one_in(3)) p.dram_cost = 1 + dice.any(0, 8) / 10.0;
    p.random = dice.one_in(3);
  }
  return pressers;
}

TEST(MemoryBalance, NewtonsMethodFindsWhatBisectionDoesAndSeldomGivesUp) {
  const MemoryLimits limits = limits_of(read_gpu("h200"));
  constexpr int kCompanies = 2'000;
  int missed = 0, pressed = 0;
  for (int seed = 0; seed < kCompanies; ++seed) {
    Dice dice(static_cast<std::uint64_t>(seed));
    const std::vector<Presser> pressers = company(dice);
    const MemoryBalance slow = balance_by_bisection(pressers, limits, kFine, kFine, kFineRounds);
    MemoryBalance fast;
    pressed += slow.use > 0.5 || slow.l2_use > 0.5;
    if (!balance_by_newton(pressers, limits, false, fast)) {
      ++missed;
      continue;
    }
    EXPECT_NEAR(fast.use, slow.use, kClose) << "seed " << seed;
    EXPECT_NEAR(fast.l2_use, slow.l2_use, kClose) << "seed " << seed;
    EXPECT_NEAR(fast.f / slow.f, 1, 1e-4) << "seed " << seed;
    EXPECT_NEAR(fast.g / slow.g, 1, 1e-4) << "seed " << seed;
  }
  RecordProperty("missed", missed);
  RecordProperty("pressed", pressed);
  EXPECT_LT(missed, kCompanies / 100);
  EXPECT_GT(pressed, kCompanies / 4) << "the companies ask for too little to prove anything";
}

TEST(MemoryBalance, WhatABalanceStartsFromMakesNoDifference) {
  const MemoryLimits limits = limits_of(read_gpu("h200"));
  for (int seed = 0; seed < 2'000; ++seed) {
    Dice dice(static_cast<std::uint64_t>(seed));
    std::vector<Presser> pressers = company(dice);
    MemoryBalance before, afresh, warm;
    if (!balance_by_newton(pressers, limits, false, before)) continue;
    for (Presser& p : pressers) p.read *= 0.8;
    warm = before;
    if (!balance_by_newton(pressers, limits, false, afresh)) continue;
    if (!balance_by_newton(pressers, limits, true, warm)) continue;
    EXPECT_NEAR(warm.use, afresh.use, kClose) << "seed " << seed;
    EXPECT_NEAR(warm.l2_use, afresh.l2_use, kClose) << "seed " << seed;
  }
}

TEST(MemoryBalance, WhoAsksForNothingStretchesNothing) {
  const MemoryLimits limits = limits_of(read_gpu("h200"));
  Presser idle;
  idle.blocks = 132, idle.per_sm = 1, idle.issue = 1e5, idle.delay = 1e5, idle.by_f = 1e5;
  const MemoryBalance found = balance({&idle, 1}, limits);
  EXPECT_EQ(found.f, 1);
  EXPECT_EQ(found.g, 1);
  EXPECT_EQ(found.use, 0);
}

}  // namespace
}  // namespace corun::sim
