// Numbers of launches and tasks: given out, found, and given again.
#include "sim/stages/launch_table.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace corun::sim {
namespace {

Work work_of_launch(LaunchId launch) {
  Work work;
  work.record.launch = launch;
  work.record.blocks = 8;
  return work;
}

TEST(LaunchTable, ANumberIsGivenAgainOnlyAfterItsLaunchHasLeft) {
  LaunchTable table;
  const WorkId first = table.add(work_of_launch({0, 0})), second = table.add(work_of_launch({1, 1}));
  EXPECT_NE(first, second);
  table.remove(first);
  EXPECT_EQ(table.add(work_of_launch({0, 2})), first);
  EXPECT_NE(table.add(work_of_launch({2, 3})), second);
}

TEST(LaunchTable, FindsALaunchWhileItIsThereAndNoOlderOneOfItsSlot) {
  LaunchTable table;
  EXPECT_EQ(table.find({3, 7}), std::nullopt);
  const WorkId id = table.add(work_of_launch({3, 7}));
  EXPECT_EQ(table.find({3, 7}), id);
  EXPECT_EQ(table.find({3, 6}), std::nullopt);
  EXPECT_EQ(table.find({2, 7}), std::nullopt);
  table.remove(id);
  EXPECT_EQ(table.find({3, 7}), std::nullopt);
}

TEST(LaunchTable, CountsThoseThatAreThere) {
  LaunchTable table;
  Work persistent = work_of_launch({0, 0});
  persistent.ctas = 4;
  Work spread = work_of_launch({1, 1});
  spread.ctas = 2, spread.spread.quota = {1, 1};
  const WorkId a = table.add(persistent), b = table.add(spread);
  EXPECT_EQ(table.unfinished(), 2u);
  EXPECT_EQ(table.persistent(), 2u);
  EXPECT_EQ(table.with_quotas(), 1u);
  table.remove(b);
  EXPECT_EQ(table.with_quotas(), 0u);
  table.remove(a);
  EXPECT_EQ(table.unfinished(), 0u);
  EXPECT_EQ(table.persistent(), 0u);
}

TEST(LaunchTable, TellsTheCourseOfTheOneThatWasRemovedLast) {
  LaunchTable table;
  for (std::uint32_t i = 1; i <= 2; ++i) {
    Work work = work_of_launch({0, i});
    work.record.started = Time{10 * i}, work.record.last_block = Time{20 * i};
    work.record.finished = Time{30 * i};
    table.remove(table.add(work));
    EXPECT_EQ(table.last().started, Time{10 * i});
    EXPECT_EQ(table.last().last_block, Time{20 * i});
    EXPECT_EQ(table.last().finished, Time{30 * i});
  }
}

TEST(LaunchTable, WhatWasTakenOffIsCollectedOnce) {
  LaunchTable table;
  table.keep({work_of_launch({0, 0}).record, 3});
  table.keep({work_of_launch({1, 1}).record, 5});
  EXPECT_EQ(table.collect({1, 1}).done, 5u);
  EXPECT_THROW(table.collect({1, 1}), std::logic_error);
  EXPECT_EQ(table.collect({0, 0}).done, 3u);
}

TEST(LaunchTable, RefusesWhatWouldMixUpTwoLaunches) {
  LaunchTable table;
  const WorkId id = table.add(work_of_launch({0, 0}));
  EXPECT_THROW(table.add(work_of_launch({0, 1})), std::logic_error);  // the slot is taken
  table.remove(id);
  EXPECT_THROW(table.remove(id), std::logic_error);
  EXPECT_THROW(table.remove({9}), std::logic_error);
  EXPECT_THROW(table.keep({work_of_launch({0, 0}).record, 9}), std::logic_error);  // of 8 blocks
}

TEST(TaskTable, CountsArrivalsOnWhenANumberIsGivenAgain) {
  TaskTable table;
  const TaskId first = table.add({}), second = table.add({});
  EXPECT_EQ(table[second].arrival, 1u);
  table.remove(first);
  EXPECT_TRUE(table.removed(first));
  EXPECT_EQ(table.add({}), first);
  EXPECT_FALSE(table.removed(first));
  EXPECT_EQ(table[first].arrival, 2u);
  EXPECT_EQ(table.size(), 2u);
}

TEST(TaskTable, ATaskWithBlocksIsNotRemoved) {
  TaskTable table;
  Task task;
  task.pending = 1;
  const TaskId id = table.add(task);
  EXPECT_THROW(table.remove(id), std::logic_error);
  table[id].pending = 0, table[id].resident = 1;
  EXPECT_THROW(table.remove(id), std::logic_error);
  table[id].resident = 0;
  EXPECT_NO_THROW(table.remove(id));
  if (kExpectsSlow) {
    EXPECT_THROW(table.remove(id), std::logic_error);
  }
}

}  // namespace
}  // namespace corun::sim
