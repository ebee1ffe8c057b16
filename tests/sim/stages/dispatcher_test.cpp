// Who starts blocks next, on which SMs, and when.
#include "sim/stages/dispatcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/support/build.h"
#include "tests/support/random_trace.h"
#include "tests/support/stages.h"

namespace corun::sim {
namespace {

using testing::ElementsAre;

/// Of the first an SM holds four, of the second eight.
constexpr SmResources kQuarter{1, 16, 512, 0, 0}, kEighth{1, 8, 256, 0, 0};

constexpr std::uint64_t kAllAlike = ~std::uint64_t{0};

/// The dispatcher with four SMs, each on its own; a block every nanosecond.
class Dispatch {
 public:
  TaskId arrive(const SmMask& allowed, std::uint64_t blocks, const SmResources& demand = kQuarter,
                Time early = {}, Time now = {}) {
    Task task;
    task.level = 1;
    task.allowed = allowed, task.demand = demand;
    task.pending = blocks;
    task.laps = task.plain = true;
    task.early = early;
    const TaskId id = tasks.add(task);
    dispatcher.accept(id, task);
    dispatcher.refill(now, tasks);
    return id;
  }
  void fill(std::uint32_t rank, std::uint32_t blocks, const SmResources& demand = kQuarter) {
    for (std::uint32_t i = 0; i < blocks; ++i) {
      sms.take(rank, demand, 0, 1, true);
      sms.note_change(rank);
    }
  }
  void empty(std::uint32_t rank, std::uint32_t blocks, const SmResources& demand = kQuarter) {
    for (std::uint32_t i = 0; i < blocks; ++i) {
      sms.give_back(rank, demand, 0, 1, true);
      sms.note_change(rank);
    }
  }
  std::optional<TaskId> choose() {
    const auto choice = dispatcher.choose(tasks, sms);
    if (!choice) return std::nullopt;
    left = choice->left;
    return choice->task;
  }
  /// Of the task that is chosen.
  Dispatcher::Lap lap(Time now = {}, std::uint64_t most = ~std::uint64_t{0}) {
    const Dispatcher::Choice choice = dispatcher.choose(tasks, sms).value();
    return dispatcher.lap(choice, tasks[choice.task], most, kAllAlike, sms.cohorts(), now);
  }

  const Gpu gpu = small_gpu(4);
  SmArray sms{gpu, false, false};
  TaskTable tasks;
  Dispatcher dispatcher{gpu};
  std::optional<SmMask> left;  // to the task chosen last
};

// ---- who --------------------------------------------------------------------------------------------------

TEST(Dispatcher, TheFirstOfTheTableThatHasRoomStarts) {
  Dispatch d;
  const TaskId first = d.arrive(d.sms.all(), 100), second = d.arrive(d.sms.all(), 100, kEighth);
  EXPECT_EQ(d.choose(), first);
  EXPECT_EQ(d.left, std::nullopt);
  d.tasks[first].pending = 0;
  d.dispatcher.all_dispatched(first);
  EXPECT_EQ(d.choose(), second);
}

TEST(Dispatcher, ATaskBehindMayUseOnlySmsThatNoTaskBeforeMayUse) {
  Dispatch d;
  d.arrive(mask({0, 1}), 100);
  const TaskId behind = d.arrive(d.sms.all(), 100, kEighth);
  d.fill(0, 3), d.fill(0, 1, kEighth);  // room for an eighth is left
  d.fill(1, 4);
  ASSERT_EQ(d.choose(), behind);
  ASSERT_TRUE(d.left);
  EXPECT_EQ(*d.left & d.tasks[behind].allowed, mask({2, 3}));
  EXPECT_EQ(d.lap().heads, mask({2, 3}));
}

TEST(Dispatcher, RestsIfTheTaskBeforeMayUseAllThoughOneBehindHasRoom) {
  Dispatch d;
  d.arrive(d.sms.all(), 100);
  d.arrive(d.sms.all(), 100, kEighth);
  for (std::uint32_t rank = 0; rank < 4; ++rank) d.fill(rank, 3), d.fill(rank, 1, kEighth);
  EXPECT_EQ(d.choose(), std::nullopt);
  d.empty(2, 1, kEighth);
  EXPECT_EQ(d.choose(), TaskId{0});
}

TEST(Dispatcher, TwoTasksBeforeClaimBothTheirSms) {
  Dispatch d;
  d.arrive(mask({0}), 100);
  d.arrive(mask({1}), 100);
  const TaskId behind = d.arrive(mask({0, 1, 2}), 100);
  d.fill(0, 4), d.fill(1, 4);
  ASSERT_EQ(d.choose(), behind);
  EXPECT_EQ(*d.left & d.tasks[behind].allowed, mask({2}));
  d.fill(2, 4);
  EXPECT_EQ(d.choose(), std::nullopt);
}

TEST(Dispatcher, AForgottenTaskStartsNothing) {
  Dispatch d;
  const TaskId first = d.arrive(d.sms.all(), 100), second = d.arrive(d.sms.all(), 100);
  d.dispatcher.forget(first, d.tasks[first]);
  EXPECT_EQ(d.choose(), second);
}

// ---- what it knows of the SMs -----------------------------------------------------------------------------

TEST(Dispatcher, KnowsTheRoomHoweverManyChangesItHasNotSeen) {
  for (const std::uint64_t unseen : {std::uint64_t{1}, SmArray::kRemembered - 1, SmArray::kRemembered,
                                     SmArray::kRemembered + 1, 3 * SmArray::kRemembered}) {
    SCOPED_TRACE(unseen);
    Dice dice(unseen);
    Dispatch d;
    const TaskId task = d.arrive(d.sms.all(), 100);
    ASSERT_EQ(d.choose(), task);
    std::array<std::uint32_t, 4> used{};
    for (std::uint64_t i = 0; i < unseen; ++i) {
      const std::uint32_t rank = dice.any(0, 3);
      const bool fills = used[rank] == 0 || (used[rank] < 4 && dice.one_in(2));
      fills ? d.fill(rank, 1) : d.empty(rank, 1);
      used[rank] += fills ? 1 : -1u;
    }
    d.choose();
    for (std::uint32_t rank = 0; rank < 4; ++rank)
      EXPECT_EQ(d.dispatcher.free_at(task, rank), 4 - used[rank]) << "SM " << rank;
  }
}

TEST(Dispatcher, ATaskThatKnowsAllButItsOwnChangeNeedNotLookAgain) {
  Dispatch d;
  const TaskId task = d.arrive(d.sms.all(), 100);
  d.choose();
  ASSERT_TRUE(d.dispatcher.knows_all(task, d.sms));
  d.fill(2, 1);
  EXPECT_FALSE(d.dispatcher.knows_all(task, d.sms));
  d.dispatcher.change_free(task, 2, -1, d.sms);
  EXPECT_TRUE(d.dispatcher.knows_all(task, d.sms));
  EXPECT_EQ(d.dispatcher.free_at(task, 2), d.sms.free_places(2, kQuarter, 0));
}

TEST(Dispatcher, ATaskOfAUsedNumberKnowsNothingOfTheOldOne) {
  Dispatch d;
  const TaskId old = d.arrive(mask({0}), 100);
  d.choose();
  d.dispatcher.forget(old, d.tasks[old]);
  d.tasks[old].pending = 0;
  d.dispatcher.release(old, d.tasks);
  d.tasks.remove(old);
  ASSERT_EQ(d.arrive(mask({1, 2}), 100, kEighth), old);
  d.choose();
  EXPECT_EQ(d.dispatcher.free_at(old, 0), 0u);
  EXPECT_EQ(d.dispatcher.free_at(old, 1), 8u);
}

// ---- laps -------------------------------------------------------------------------------------------------

TEST(Dispatcher, LapsStopAtEarly) {
  // A lap takes four nanoseconds.
  const auto blocks = [](Time early) {
    Dispatch d;
    d.arrive(d.sms.all(), 100, kQuarter, early);
    return d.lap().blocks;
  };
  EXPECT_EQ(blocks(Time{}), 4u);
  EXPECT_EQ(blocks(ns(4) - ps(1)), 4u);
  EXPECT_EQ(blocks(ns(4)), 8u);
  EXPECT_EQ(blocks(ns(8) - ps(1)), 8u);
  EXPECT_EQ(blocks(ns(8)), 12u);
  EXPECT_EQ(blocks(ns(1000)), 16u) << "all is full";
}

TEST(Dispatcher, WhatTheDispatcherIsBehindCountsToo) {
  Dispatch d;
  d.arrive(d.sms.all(), 100, kQuarter, ns(10));
  d.dispatcher.started(3, Time{});
  EXPECT_EQ(d.lap(ns(1) - ps(1)).blocks, 8u);
  EXPECT_EQ(d.lap(ns(1)).blocks, 12u);
}

TEST(Dispatcher, ALapTakesTheSmsWithTheMostRoomThenThoseWithAsMuch) {
  Dispatch d;
  d.arrive(d.sms.all(), 100, kQuarter, ns(1000));
  d.fill(1, 1), d.fill(2, 2), d.fill(3, 4);
  const Dispatcher::Lap lap = d.lap();
  EXPECT_EQ(lap.heads, mask({0, 1, 2}));
  EXPECT_EQ(lap.leaves, 0u);
  EXPECT_EQ(lap.blocks, 4u + 3 + 2);
  EXPECT_TRUE(lap.whole_cohorts);
}

TEST(Dispatcher, ALapStopsWhereTheNextSmsWouldHaveToBeServedToo) {
  Dispatch d;
  d.arrive(d.sms.all(), 100, kQuarter, ns(0));
  d.fill(1, 1), d.fill(2, 2), d.fill(3, 4);
  const Dispatcher::Lap lap = d.lap();
  EXPECT_EQ(lap.heads, mask({0}));
  EXPECT_EQ(lap.leaves, 3u);
  EXPECT_EQ(lap.blocks, 1u);
}

TEST(Dispatcher, LapsAreWholeAsLongAsThereAreBlocks) {
  const auto lap = [](std::uint64_t pending) {
    Dispatch d;
    d.arrive(d.sms.all(), pending, kQuarter, ns(1000));
    return d.lap();
  };
  EXPECT_EQ(lap(7).blocks, 4u);
  EXPECT_EQ(lap(8).blocks, 8u);
  EXPECT_EQ(lap(4).blocks, 4u);
  EXPECT_TRUE(lap(4).whole_cohorts);
  EXPECT_EQ(lap(3).blocks, 3u);
  EXPECT_FALSE(lap(3).whole_cohorts);
}

TEST(Dispatcher, ATaskWithoutLapsGoesBlockByBlock) {
  Dispatch d;
  const TaskId task = d.arrive(d.sms.all(), 100, kQuarter, ns(1000));
  d.tasks[task].laps = false;
  d.fill(0, 1);
  const Dispatcher::Lap lap = d.lap();
  EXPECT_EQ(lap.blocks, 1u);
  EXPECT_EQ(lap.heads, mask({1, 2, 3}));
  EXPECT_FALSE(lap.whole_cohorts);
}

TEST(Dispatcher, ALapCountsEverySmOfACohort) {
  Dispatch d;
  d.arrive(d.sms.all(), 100, kQuarter, ns(4));
  SmArray together(d.gpu, true, false);
  const Dispatcher::Choice choice = d.dispatcher.choose(d.tasks, together).value();
  const Dispatcher::Lap lap =
      d.dispatcher.lap(choice, d.tasks[choice.task], ~std::uint64_t{0}, kAllAlike, together.cohorts(), Time{});
  EXPECT_EQ(lap.heads, mask({0}));
  EXPECT_EQ(lap.blocks, 8u);
  EXPECT_EQ(lap.leaves, 2u);
}

// ---- when -------------------------------------------------------------------------------------------------

TEST(Dispatcher, IsFreeABlockAnIntervalAndAsleepUntilWoken) {
  Dispatch d;
  EXPECT_EQ(d.dispatcher.next_time(), kNever);
  d.dispatcher.wake_if_any(ns(5));
  EXPECT_EQ(d.dispatcher.next_time(), kNever) << "the table is empty";
  d.arrive(d.sms.all(), 100, kQuarter, {}, ns(5));
  EXPECT_EQ(d.dispatcher.next_time(), ns(5));
  d.dispatcher.started(3, ns(5));
  EXPECT_EQ(d.dispatcher.free(), ns(8));
  d.dispatcher.rest_until(kNever);
  d.dispatcher.wake(ns(6));
  EXPECT_EQ(d.dispatcher.next_time(), ns(8)) << "not before it is free";
  d.dispatcher.wake(ns(10));
  EXPECT_EQ(d.dispatcher.next_time(), ns(8)) << "not later than it was to";
  d.dispatcher.started(1, ns(20));
  EXPECT_EQ(d.dispatcher.free(), ns(21));
}

TEST(Dispatcher, BlocksThatStartTogetherHaveTheirOwnTimesOneAfterTheOther) {
  Dispatch d;
  d.dispatcher.started(2, Time{});
  d.dispatcher.begin_slots(ns(1));
  EXPECT_EQ(d.dispatcher.take_slot(), ns(2));
  EXPECT_EQ(d.dispatcher.take_slot(), ns(3));
  d.dispatcher.begin_slots(ns(7));
  EXPECT_EQ(d.dispatcher.take_slot(), ns(7));
}

TEST(Dispatcher, MoreSmsThanGoAlikeTakeABlockEach) {
  for (const std::uint64_t alike : {4u, 3u}) {
    Dispatch d;
    const TaskId id = d.arrive(d.sms.all(), 100, kQuarter, ns(4));
    d.tasks[id].plain = false;
    const Dispatcher::Choice choice = d.dispatcher.choose(d.tasks, d.sms).value();
    const Dispatcher::Lap lap =
        d.dispatcher.lap(choice, d.tasks[id], ~std::uint64_t{0}, alike, d.sms.cohorts(), Time{});
    EXPECT_EQ(lap.whole_cohorts, alike == 4) << alike << " of the 4 SMs";
    EXPECT_EQ(lap.blocks, alike == 4 ? 8u : 4u);
  }
}

TEST(Dispatcher, TellsWhoTookASlotAndWhoStopped) {
  Gpu gpu = small_gpu(4);
  gpu.task_slots = 1;
  Dispatcher dispatcher(gpu);
  TaskTable tasks;
  const auto arrive = [&](std::uint32_t level) {
    Task task;
    task.level = level, task.allowed = mask({0}), task.demand = kQuarter, task.pending = 1;
    const TaskId id = tasks.add(task);
    dispatcher.accept(id, task);
    return id;
  };
  const TaskId low = arrive(2), high = arrive(0);
  std::vector<TaskId> entered, evicted;
  const auto refill = [&] {
    const Dispatcher::Refilled refilled = dispatcher.refill(ns(3), tasks);
    entered.insert(entered.end(), refilled.entered.begin(), refilled.entered.end());
    evicted.insert(evicted.end(), refilled.evicted.begin(), refilled.evicted.end());
  };
  refill();
  EXPECT_THAT(entered, ElementsAre(high));
  EXPECT_EQ(dispatcher.waiting(), 1u);
  tasks[high].pending = 0;
  EXPECT_TRUE(dispatcher.release(high, tasks));
  refill();
  arrive(1);
  refill();
  EXPECT_THAT(evicted, ElementsAre(low));
  EXPECT_EQ(dispatcher.used_slots(), 1u);
}

TEST(Dispatcher, RefusesTasksThatCouldNeverStart) {
  Dispatch d;
  EXPECT_THROW(d.arrive(mask({}), 1), std::logic_error);
  EXPECT_THROW(d.arrive(mask({0}), 0), std::logic_error);
  d.dispatcher.started(5, Time{});
  EXPECT_THROW(d.dispatcher.skip_to(ns(5) - ps(1)), std::logic_error);
  EXPECT_NO_THROW(d.dispatcher.skip_to(ns(5)));
}

}  // namespace
}  // namespace corun::sim
