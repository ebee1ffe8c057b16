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
  work.load.issue = 2e6, work.load.fixed = 1e6, work.load.wait = 3e6;
  work.load.read = work.load.l2_read = 1e5;
  work.load.cold = cold;
  work.load.energy = 5;
  work.load.residents = 1, work.load.sms = 4, work.load.places = 4;
  work.load.blocks = 100;
  settle_alone(work.load, limits());
  work.block_alone = Time{static_cast<std::int64_t>(work.load.alone) * 2};
  return work;
}

/// It has moved `bytes`.
Work done(std::uint32_t client, double bytes) {
  Work work = contending_work(client);
  work.load.read = bytes / 100;
  work.done = 100;
  return work;
}

TEST(GpuCondition, AtTheHighestClockAndAloneNothingChanges) {
  GpuCondition condition(limits());
  const LaunchTable nobody;
  Work work = contending_work(0, 0.1);
  const Work before = work;
  condition.meet(work, nobody);
  EXPECT_EQ(work.load.alone, before.load.alone);
  EXPECT_EQ(work.load.cold, before.load.cold);
  EXPECT_EQ(work.block_alone, before.block_alone);
}

TEST(GpuCondition, ALowerClockLengthensWhatGoesByIt) {
  GpuCondition condition(limits());
  const LaunchTable nobody;
  condition.set_clock(1.25);
  Work work = contending_work(0);
  const Work before = work;
  condition.meet(work, nobody);
  EXPECT_DOUBLE_EQ(work.load.issue, 1.25 * before.load.issue);
  EXPECT_GT(work.load.alone, before.load.alone);
  EXPECT_LT(work.load.alone, 1.25 * before.load.alone) << "the memory has its own clock";
  const double longer = work.load.alone / before.load.alone;
  EXPECT_NEAR(static_cast<double>(work.block_alone.count()),
              static_cast<double>(before.block_alone.count()) * longer, 1);
}

TEST(GpuCondition, WhatContendsForNothingStays) {
  GpuCondition condition(limits());
  const LaunchTable nobody;
  condition.set_clock(2);
  Work work;
  work.block_alone = us(1);
  condition.meet(work, nobody);
  EXPECT_EQ(work.block_alone, us(1));
}

TEST(GpuCondition, WhatOthersMovedSinceAClientsLastLaunchIsLostFromL2) {
  GpuCondition condition(limits());
  const LaunchTable nobody;
  Work first = contending_work(0, 0.1);
  condition.meet(first, nobody);
  EXPECT_EQ(first.load.cold, 0.1) << "nobody has replaced anything";
  condition.ended(done(1, 50e6));
  Work second = contending_work(0, 0.1);
  const Work before = second;
  condition.meet(second, nobody);
  EXPECT_GT(second.load.cold, 0.1);
  EXPECT_GT(second.load.alone, before.load.alone);
  EXPECT_GT(second.block_alone, before.block_alone);
  Work third = contending_work(0, 0.1);
  condition.meet(third, nobody);
  EXPECT_EQ(third.load.cold, 0.1) << "nobody has since the second";
}

TEST(GpuCondition, WhatTheClientItselfMovedReplacesNothingOfItsOwn) {
  GpuCondition condition(limits());
  const LaunchTable nobody;
  Work first = contending_work(0, 0.1);
  condition.meet(first, nobody);
  condition.ended(done(0, 50e6));
  Work second = contending_work(0, 0.1);
  condition.meet(second, nobody);
  EXPECT_EQ(second.load.cold, 0.1);
}

TEST(GpuCondition, WhatRunsNowCountsAsFarAsItIs) {
  GpuCondition condition(limits());
  LaunchTable launches;
  Work first = contending_work(0, 0.1);
  condition.meet(first, launches);
  Work running = done(1, 50e6);
  running.instances = 1, running.done = 0;
  const WorkId id = launches.add(running);
  Work second = contending_work(0, 0.1);
  condition.meet(second, launches);
  EXPECT_EQ(second.load.cold, 0.1);
  launches[id].done = 100;
  Work third = contending_work(0, 0.1);
  condition.meet(third, launches);
  EXPECT_GT(third.load.cold, 0.1);
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
}

}  // namespace
}  // namespace corun::sim
