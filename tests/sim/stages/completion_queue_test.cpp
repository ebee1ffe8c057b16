// Blocks whose end is known: what ends next, and in which order.
#include "sim/stages/completion_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/support/stages.h"

namespace corun::sim {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class Completions {
 public:
  Completions() {
    for (const TaskId task : {kA, kB, kC}) queue.introduce(task);
  }
  void add(TaskId task, std::int64_t end, std::uint32_t block, std::int64_t duration) {
    queue.add(task, {end, block, 0, 0}, Time{duration});
  }
  /// What ends at the next instant, as block numbers in the order in which it is told.
  std::vector<std::uint32_t> next() {
    const Time now = queue.next_time();
    std::vector<CompletionQueue::Due> due;
    queue.take_due(now, queue.leading_due(now), [&](const CompletionQueue::Due& d) { due.push_back(d); });
    std::vector<std::uint32_t> blocks;
    for (const CompletionQueue::Due& d : due) {
      if (d.stray) {
        blocks.push_back(queue.take_stray(*d.stray).block);
        continue;
      }
      queue.lead(d.task);
      while (const auto resident = queue.pop(d.task, now)) blocks.push_back(resident->block);
    }
    return blocks;
  }

  CompletionQueue queue;
};

TEST(CompletionQueue, EndsComeInTheOrderOfTheirTimes) {
  Completions c;
  c.add(kA, 30, 1, 30);
  c.add(kB, 10, 2, 10);
  c.add(kC, 20, 3, 20);
  c.add(kB, 40, 4, 40);
  std::vector<std::int64_t> times;
  std::vector<std::uint32_t> blocks;
  while (c.queue.next_time() != kNever) {
    times.push_back(c.queue.next_time().count());
    for (const std::uint32_t block : c.next()) blocks.push_back(block);
  }
  EXPECT_THAT(times, ElementsAre(10, 20, 30, 40));
  EXPECT_THAT(blocks, ElementsAre(2, 3, 1, 4));
}

TEST(CompletionQueue, NothingEndsBeforeItsTime) {
  Completions c;
  c.add(kA, 10, 1, 10);
  EXPECT_EQ(c.queue.next_time(), Time{10});
  EXPECT_EQ(c.queue.pop(kA, Time{9}), std::nullopt);
  ASSERT_TRUE(c.queue.pop(kA, Time{10}).has_value());
  EXPECT_EQ(c.queue.pop(kA, Time{10}), std::nullopt);
}

TEST(CompletionQueue, BlocksOfAListThatEndTogetherComeInTheOrderOfTheirStarts) {
  Completions c;
  for (std::uint32_t block = 1; block <= 3; ++block) c.add(kA, 10, block, 10);
  c.add(kA, 11, 4, 11);
  EXPECT_THAT(c.next(), ElementsAre(1, 2, 3));
  EXPECT_THAT(c.next(), ElementsAre(4));
}

TEST(CompletionQueue, AStrayThatEndsBeforeItsListsHeadComesFirst) {
  Completions c;
  c.add(kA, 50, 1, 50);
  c.add(kA, 20, 2, 20);
  c.add(kA, 60, 3, 60);
  EXPECT_THAT(c.next(), ElementsAre(2));
  EXPECT_THAT(c.next(), ElementsAre(1));
  EXPECT_THAT(c.next(), ElementsAre(3));
  EXPECT_EQ(c.queue.next_time(), kNever);
}

TEST(CompletionQueue, AStrayIsWhatEndsBeforeTheLastOfItsListNotWithIt) {
  Completions c;
  c.add(kA, 50, 1, 50);
  c.add(kA, 50, 2, 50);
  EXPECT_EQ(c.queue.fifo(kA).size(), 2u);
  c.add(kA, 49, 3, 49);
  EXPECT_EQ(c.queue.fifo(kA).size(), 2u);
  EXPECT_THAT(c.next(), ElementsAre(3));
}

TEST(CompletionQueue, TheLeadingListIsNotQueued) {
  Completions c;
  c.add(kA, 10, 1, 10);
  c.add(kA, 20, 2, 20);
  EXPECT_EQ(c.queue.next_queued(), Time{10});
  c.next();
  EXPECT_EQ(c.queue.leading(), kA);
  EXPECT_EQ(c.queue.next_queued(), kNever);
  EXPECT_EQ(c.queue.next_time(), Time{20});
  EXPECT_TRUE(c.queue.leading_due(Time{20}));
  EXPECT_FALSE(c.queue.leading_due(Time{19}));
  // Another one takes the lead: the first is an event again.
  c.add(kB, 15, 3, 5);
  EXPECT_THAT(c.next(), ElementsAre(3));
  EXPECT_EQ(c.queue.leading(), kB);
  EXPECT_EQ(c.queue.next_queued(), Time{20});
  EXPECT_THAT(c.next(), ElementsAre(2));
}

TEST(CompletionQueue, ABlockThatFollowsTheLeadingListsLastOneIsNoEvent) {
  Completions c;
  c.add(kA, 10, 1, 10);
  c.queue.take_due(Time{10}, false, [](const CompletionQueue::Due&) {});
  c.queue.lead(kA);
  ASSERT_TRUE(c.queue.pop(kA, Time{10}).has_value());
  c.add(kA, 20, 2, 10);  // as a worker does before the list is through
  EXPECT_EQ(c.queue.pop(kA, Time{10}), std::nullopt);
  EXPECT_EQ(c.queue.next_queued(), kNever);
  EXPECT_EQ(c.queue.next_time(), Time{20});
}

TEST(CompletionQueue, TheLeadingListAndAQueuedOneThatEndTogetherAreBothTold) {
  Completions c;
  c.add(kA, 10, 1, 10);
  c.next();
  c.add(kA, 20, 2, 10);
  c.add(kB, 20, 3, 10);
  EXPECT_THAT(c.next(), testing::UnorderedElementsAre(2, 3));
  EXPECT_EQ(c.queue.next_time(), kNever);
}

TEST(CompletionQueue, ResidentsThatWereTakenOffGiveNoEvents) {
  Completions c;
  c.add(kA, 50, 1, 50);
  c.add(kA, 20, 2, 20);  // a stray
  c.add(kB, 30, 3, 30);
  std::vector<CompletionQueue::Resident> gone;
  c.queue.remove(kA, gone);
  std::vector<std::uint32_t> blocks;
  for (const CompletionQueue::Resident& r : gone) blocks.push_back(r.block);
  EXPECT_THAT(blocks, ElementsAre(1, 2));
  c.queue.end(kA);
  EXPECT_THAT(c.next(), IsEmpty()) << "the stray's event";
  EXPECT_THAT(c.next(), ElementsAre(3));
  // Another task of that number: it gets its own events, and not the old one's.
  c.queue.introduce(kA);
  c.add(kA, 60, 4, 30);
  c.add(kA, 55, 5, 25);
  EXPECT_THAT(c.next(), IsEmpty()) << "the old head's event, at 50";
  EXPECT_THAT(c.next(), ElementsAre(5));
  EXPECT_THAT(c.next(), ElementsAre(4));
  EXPECT_EQ(c.queue.next_time(), kNever);
}

TEST(CompletionQueue, TheLeadingListCanBeTakenOffToo) {
  Completions c;
  c.add(kA, 10, 1, 10);
  c.next();
  c.add(kA, 20, 2, 10);
  std::vector<CompletionQueue::Resident> gone;
  c.queue.remove(kA, gone);
  EXPECT_EQ(gone.size(), 1u);
  EXPECT_EQ(c.queue.next_time(), kNever);
  c.add(kA, 30, 3, 10);  // it still leads
  EXPECT_EQ(c.queue.next_queued(), kNever);
  EXPECT_THAT(c.next(), ElementsAre(3));
}

TEST(CompletionQueue, AListKnowsHowManyOfItsLastLastedAsLong) {
  Completions c;
  const CompletionQueue::Fifo& fifo = c.queue.fifo(kA);
  c.add(kA, 10, 0, 10);
  c.add(kA, 12, 1, 11);
  c.add(kA, 13, 2, 11);
  EXPECT_EQ(fifo.duration(), Time{11});
  EXPECT_EQ(fifo.uniform(), 2u);
  c.add(kA, 14, kNoBlock, 11);
  EXPECT_EQ(fifo.uniform(), 0u) << "a worker that leaves is followed by none like it";
  c.add(kA, 15, 3, 11);
  EXPECT_EQ(fifo.uniform(), 1u);
}

TEST(CompletionQueue, ASkipMovesTheLeadingListsEndsAndNumbersItsBlocksAnew) {
  Completions c;
  c.add(kA, 10, 0, 10);
  c.next();
  c.add(kA, 20, 1, 10);
  c.add(kA, 21, 2, 10);
  c.queue.skip(kA, 100, 7);
  EXPECT_EQ(c.queue.next_time(), Time{120});
  EXPECT_THAT(c.next(), ElementsAre(7));
  EXPECT_EQ(c.queue.next_time(), Time{121});
  EXPECT_THAT(c.next(), ElementsAre(8));
  EXPECT_THROW(c.queue.skip(kB, 100, 0), std::logic_error);
}

TEST(CompletionQueue, ALongListKeepsItsOrderWhenItGrows) {
  Completions c;
  std::uint32_t taken = 0;
  for (std::uint32_t block = 0; block < 1000; ++block) {
    c.add(kA, 1000 + block, block, 1000);
    if (block % 3 != 0 || block > 300) continue;
    const auto resident = c.queue.pop(kA, Time{1000 + taken});
    ASSERT_TRUE(resident.has_value());
    EXPECT_EQ(resident->block, taken++);
  }
  const CompletionQueue::Fifo& fifo = c.queue.fifo(kA);
  ASSERT_EQ(fifo.size(), 1000 - taken);
  for (std::uint32_t i = 0; i < fifo.size(); ++i) EXPECT_EQ(fifo.at(i).block, taken + i);
}

TEST(CompletionQueue, VisitsEachResidentOnce) {
  Completions c;
  c.add(kA, 50, 1, 50);
  c.add(kA, 20, 2, 20);
  c.add(kB, 30, 3, 30);
  c.next();
  std::vector<std::uint32_t> blocks;
  c.queue.for_each([&](TaskId, const CompletionQueue::Resident& r) { blocks.push_back(r.block); });
  EXPECT_THAT(blocks, testing::UnorderedElementsAre(1, 3));
}

TEST(CompletionQueue, ACopyGoesOnTheSame) {
  Completions c;
  c.add(kA, 10, 1, 10);
  c.add(kA, 30, 2, 30);
  c.add(kA, 20, 3, 20);
  c.add(kB, 20, 4, 20);
  c.next();
  Completions copy = c;
  while (c.queue.next_time() != kNever) {
    EXPECT_EQ(copy.queue.next_time(), c.queue.next_time());
    EXPECT_EQ(copy.next(), c.next());
  }
  EXPECT_EQ(copy.queue.next_time(), kNever);
}

TEST(CompletionQueue, RefusesWhatWouldLoseABlock) {
  Completions c;
  EXPECT_THROW(c.add(TaskId{3}, 10, 0, 10), std::logic_error);  // not introduced
  c.add(kA, 10, 0, 10);
  EXPECT_THROW(c.queue.end(kA), std::logic_error);
  EXPECT_THROW(c.queue.introduce(kA), std::logic_error);
  EXPECT_THROW(c.queue.pop(kA, Time{11}), std::logic_error);  // its end was missed
  EXPECT_THROW(c.queue.lead(kA), std::logic_error);           // it is an event
  c.next();
  EXPECT_THROW(c.add(kB, 9, 1, 9), std::logic_error);  // before now
}

}  // namespace
}  // namespace corun::sim
