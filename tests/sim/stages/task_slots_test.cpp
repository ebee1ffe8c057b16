// The lists of waiting tasks, the slots, and who is forced out of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "sim/stages/tmu.h"
#include "sim/stages/wdu.h"

namespace corun::sim {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(WaitingTasks, TheHighestLevelGivesFirstAndWithinALevelTheFirst) {
  Tmu tmu(3);
  EXPECT_EQ(tmu.highest(), std::nullopt);
  tmu.accept(TaskId{0}, 2);
  tmu.accept(TaskId{1}, 1);
  tmu.accept(TaskId{2}, 1);
  EXPECT_EQ(tmu.size(), 3u);
  std::vector<std::uint32_t> order;
  while (const auto level = tmu.highest()) order.push_back(tmu.give(*level).value);
  EXPECT_THAT(order, ElementsAre(1, 2, 0));
}

TEST(WaitingTasks, OneThatWasForcedOutComesBeforeOthersOfItsLevel) {
  Tmu tmu(2);
  tmu.accept(TaskId{0}, 1);
  tmu.take_back(TaskId{1}, 1);
  EXPECT_EQ(tmu.give(1), TaskId{1});
}

TEST(WaitingTasks, OneThatIsForgottenIsNotGiven) {
  Tmu tmu(1);
  tmu.accept(TaskId{0}, 0);
  tmu.accept(TaskId{1}, 0);
  tmu.forget(TaskId{0}, 0);
  EXPECT_EQ(tmu.give(0), TaskId{1});
  EXPECT_THROW(tmu.give(0), std::logic_error);
  EXPECT_THROW(tmu.accept(TaskId{0}, 1), std::logic_error);  // there is one level
}

class Slots {
 public:
  explicit Slots(std::uint32_t slots) : wdu(slots) {}
  TaskId arrive(std::uint32_t level) {
    Task task;
    task.level = level;
    task.pending = 10;
    const TaskId id = tasks.add(task);
    tmu.accept(id, level);
    refill();
    return id;
  }
  void refill() {
    entered.clear();
    evicted.clear();
    wdu.refill(tmu, tasks, entered, evicted);
  }

  TaskTable tasks;
  Tmu tmu{3};
  Wdu wdu;
  std::vector<TaskId> entered, evicted;
};

TEST(Slots, AreFilledUpToTheirNumberAndTheTableIsSortedByPriorityThenArrival) {
  Slots s(3);
  const TaskId low = s.arrive(2), high = s.arrive(0), low_2 = s.arrive(2);
  EXPECT_THAT(s.wdu.table(), ElementsAre(high, low, low_2));
  EXPECT_EQ(s.wdu.used(), 3u);
  s.arrive(2);
  EXPECT_THAT(s.entered, IsEmpty());
  EXPECT_EQ(s.tmu.size(), 1u);
}

TEST(Slots, AreFreeWhenTheLastBlockHasEndedNotWhenItHasStarted) {
  Slots s(1);
  const TaskId first = s.arrive(1), second = s.arrive(1);
  s.tasks[first].pending = 0, s.tasks[first].resident = 10;
  s.wdu.dispatched(first);
  s.refill();
  EXPECT_THAT(s.wdu.table(), IsEmpty());
  EXPECT_THAT(s.entered, IsEmpty());
  EXPECT_THROW(s.wdu.release(first, s.tasks), std::logic_error);  // its blocks run
  s.tasks[first].resident = 0;
  EXPECT_TRUE(s.wdu.release(first, s.tasks));
  s.refill();
  EXPECT_THAT(s.entered, ElementsAre(second));
}

TEST(Slots, ATaskWithBlocksLeftKeepsItsSlotThoughNoneRuns) {
  Slots s(1);
  const TaskId task = s.arrive(1);
  EXPECT_FALSE(s.wdu.release(task, s.tasks));
  EXPECT_EQ(s.wdu.used(), 1u);
}

TEST(Slots, TheNewestTaskOfTheLowestPriorityIsForcedOut) {
  Slots s(3);
  const TaskId middle = s.arrive(1), low = s.arrive(2), low_2 = s.arrive(2);
  const TaskId high = s.arrive(0);
  EXPECT_THAT(s.evicted, ElementsAre(low_2));
  EXPECT_THAT(s.entered, ElementsAre(high));
  EXPECT_THAT(s.wdu.table(), ElementsAre(high, middle, low));
  EXPECT_EQ(s.tmu.highest(), 2u);
}

TEST(Slots, NobodyIsForcedOutForOneOfTheSamePriority) {
  Slots s(1);
  s.arrive(1);
  s.arrive(1);
  EXPECT_THAT(s.evicted, IsEmpty());
}

TEST(Slots, WhileOneThatWasForcedOutStillRunsTheTableTakesInNothing) {
  Slots s(2);
  const TaskId first = s.arrive(2), second = s.arrive(2);
  s.tasks[second].resident = 4;
  const TaskId high = s.arrive(0);
  EXPECT_THAT(s.evicted, ElementsAre(second));
  EXPECT_THAT(s.entered, IsEmpty());
  EXPECT_THAT(s.wdu.table(), ElementsAre(first));
  // Not even into a slot that becomes free.
  EXPECT_FALSE(s.wdu.release(first, s.tasks));
  s.tasks[first].pending = 0;
  EXPECT_TRUE(s.wdu.release(first, s.tasks));
  s.refill();
  EXPECT_THAT(s.entered, IsEmpty());
  s.tasks[second].resident = 0;
  EXPECT_TRUE(s.wdu.release(second, s.tasks));
  s.refill();
  EXPECT_THAT(s.entered, ElementsAre(high, second));
}

}  // namespace
}  // namespace corun::sim
