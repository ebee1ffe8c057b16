// What clock and L2 make of a launch.
#include "sim/stages/gpu_condition.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/support/build.h"

namespace corun::sim {
namespace {

const MemoryLimits& limits() {
  static const MemoryLimits of_small = limits_of(small_gpu(4));
  return of_small;
}

/// Half of its work is of the clock; what it reads may be in L2 yet.
Work contending_work(std::uint32_t client, double cold = 1) {
  Work work;
  work.record.client = ClientId{client};
  work.record.blocks = work.last = 100;
  work.load.sm.issue_ps = 2e6, work.load.sm.fixed_ps = 1e6, work.load.memory.wait_ps = 3e6;
  work.load.memory.read_bytes = work.load.memory.l2_read_bytes = 1e5;
  work.load.memory.uncached_share = cold;
  work.load.sm.energy_pj = 5;
  work.load.extent.residents = 1, work.load.extent.sms = 4, work.load.extent.places = 4;
  work.load.extent.blocks = 100;
  settle_alone(work.load, limits());
  work.block_alone = Time{static_cast<std::int64_t>(work.load.alone_ps) * 2};
  return work;
}

/// It has moved `bytes`.
Work done(std::uint32_t client, double bytes) {
  Work work = contending_work(client);
  work.load.memory.read_bytes = bytes / 100;
  work.done = 100;
  return work;
}

TEST(GpuCondition, AtTheHighestClockAndAloneNothingChanges) {
  GpuCondition condition(limits());
  Work work = contending_work(0, 0.1);
  const Work before = work;
  condition.meet(work, condition.moved());
  EXPECT_EQ(work.load.alone_ps, before.load.alone_ps);
  EXPECT_EQ(work.load.memory.uncached_share, before.load.memory.uncached_share);
  EXPECT_EQ(work.block_alone, before.block_alone);
}

TEST(GpuCondition, ALowerClockLengthensWhatGoesByIt) {
  GpuCondition condition(limits());
  condition.set_clock(1.25);
  Work work = contending_work(0);
  const Work before = work;
  condition.meet(work, condition.moved());
  EXPECT_DOUBLE_EQ(work.load.sm.issue_ps, 1.25 * before.load.sm.issue_ps);
  EXPECT_GT(work.load.alone_ps, before.load.alone_ps);
  EXPECT_LT(work.load.alone_ps, 1.25 * before.load.alone_ps) << "the memory has its own clock";
  const double longer = work.load.alone_ps / before.load.alone_ps;
  EXPECT_NEAR(static_cast<double>(work.block_alone.count()),
              static_cast<double>(before.block_alone.count()) * longer, 1);
}

TEST(GpuCondition, WhatContendsForNothingStays) {
  GpuCondition condition(limits());
  condition.set_clock(2);
  Work work;
  work.block_alone = us(1);
  condition.meet(work, condition.moved());
  EXPECT_EQ(work.block_alone, us(1));
}

TEST(GpuCondition, WhatOthersMovedSinceAClientsLastLaunchIsLostFromL2) {
  GpuCondition condition(limits());
  Work first = contending_work(0, 0.1);
  condition.meet(first, condition.moved());
  EXPECT_EQ(first.load.memory.uncached_share, 0.1) << "nobody has replaced anything";
  condition.ended(done(1, 50e6));
  Work second = contending_work(0, 0.1);
  const Work before = second;
  condition.meet(second, condition.moved());
  EXPECT_GT(second.load.memory.uncached_share, 0.1);
  EXPECT_GT(second.load.alone_ps, before.load.alone_ps);
  EXPECT_GT(second.block_alone, before.block_alone);
  Work third = contending_work(0, 0.1);
  condition.meet(third, condition.moved());
  EXPECT_EQ(third.load.memory.uncached_share, 0.1) << "nobody has since the second";
}

TEST(GpuCondition, WhatTheClientItselfMovedReplacesNothingOfItsOwn) {
  GpuCondition condition(limits());
  Work first = contending_work(0, 0.1);
  condition.meet(first, condition.moved());
  condition.ended(done(0, 50e6));
  Work second = contending_work(0, 0.1);
  condition.meet(second, condition.moved());
  EXPECT_EQ(second.load.memory.uncached_share, 0.1);
}

TEST(GpuCondition, WhatRunsNowCountsAsFarAsItIs) {
  GpuCondition condition(limits());
  Work first = contending_work(0, 0.1);
  condition.meet(first, 0);
  Work second = contending_work(0, 0.1);
  condition.meet(second, 0);
  EXPECT_EQ(second.load.memory.uncached_share, 0.1);
  Work third = contending_work(0, 0.1);
  condition.meet(third, 50e6);
  EXPECT_GT(third.load.memory.uncached_share, 0.1);
}

TEST(GpuCondition, EnergyIsThatOfTheBlocksOfThisRun) {
  GpuCondition condition(limits());
  Work work = contending_work(0);
  work.first = 30, work.done = 80;
  condition.ended(work);
  EXPECT_DOUBLE_EQ(condition.energy(), 5 * 50);
  condition.ended(work);
  EXPECT_DOUBLE_EQ(condition.energy(), 2 * 5 * 50);
}

TEST(GpuCondition, RefusesAClockAboveTheHighest) {
  GpuCondition condition(limits());
  EXPECT_THROW(condition.set_clock(0.99), std::logic_error);
  EXPECT_NO_THROW(condition.set_clock(1));
  Work work = contending_work(0);
  work.first = 30, work.done = 20;
  EXPECT_THROW(condition.ended(work), std::logic_error);
  condition.ended(done(1, 50e6));
  EXPECT_THROW(condition.meet(work, 49e6), std::logic_error) << "less than has been moved";
}

}  // namespace
}  // namespace corun::sim
