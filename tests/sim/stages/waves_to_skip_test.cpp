// How many waves may be skipped.
#include <gtest/gtest.h>

#include "sim/stages/fast_forward.h"

namespace corun::sim {
namespace {

constexpr TaskId kTask{0}, kNeighbour{1};
constexpr std::int64_t kLast = 112;  // resident blocks end at 110, 111 and 112, and last 10

class Waves {
 public:
  Waves() {
    work.last = work.record.blocks = 1000;
    work.next = 3;
    task.resident = 3, task.pending = 997;
    queue.introduce(kTask);
    for (std::uint32_t i = 0; i < 3; ++i) {
      queue.add(kTask, {110 + i, i, 0, 0}, Time{10});
      history.changed(kTask, Time{100 + i});
    }
  }
  std::uint64_t skipped(Time due) const {
    const auto jump = waves_to_skip(kTask, task, work, queue.fifo(kTask), history, due);
    return jump ? jump->blocks / 3 : 0;
  }

  CompletionQueue queue;
  Work work;
  Task task;
  ResidencyHistory history;
};

TEST(WavesToSkip, NeverPastDue) {
  const Waves w;
  EXPECT_EQ(w.skipped(Time{kLast}), 0u);
  EXPECT_EQ(w.skipped(Time{kLast + 1}), 1u);
  EXPECT_EQ(w.skipped(Time{kLast + 10}), 1u);
  EXPECT_EQ(w.skipped(Time{kLast + 11}), 2u);
  for (std::int64_t due = kLast + 1; due < 600; ++due) {
    const auto jump = waves_to_skip(kTask, w.task, w.work, w.queue.fifo(kTask), w.history, Time{due});
    ASSERT_TRUE(jump);
    ASSERT_LT(jump->last_end, Time{due});
    ASSERT_GE(jump->last_end + Time{10}, Time{due}) << "one more would not have been too late";
  }
}

TEST(WavesToSkip, TellHowFarThatIs) {
  const Waves w;
  const auto jump = waves_to_skip(kTask, w.task, w.work, w.queue.fifo(kTask), w.history, Time{kLast + 51});
  ASSERT_TRUE(jump);
  EXPECT_EQ(jump->time, 60);
  EXPECT_EQ(jump->blocks, 18u);
  EXPECT_EQ(jump->residents, 3u);
  EXPECT_EQ(jump->last_end, Time{kLast + 50});
}

TEST(WavesToSkip, TheLastWaveIsNotSkipped) {
  Waves w;
  w.work.last = 3 + 3;
  EXPECT_EQ(w.skipped(kNever), 0u);
  w.work.last = 3 + 4;
  EXPECT_EQ(w.skipped(kNever), 1u);
  w.work.last = 3 + 6;
  EXPECT_EQ(w.skipped(kNever), 1u);
  w.work.last = 3 + 7;
  EXPECT_EQ(w.skipped(kNever), 2u);
}

TEST(WavesToSkip, NoneWhereANeighbourChangedWithinTheWave) {
  // The oldest resident block started at 100.
  Waves w;
  w.history = {};
  w.history.changed(kNeighbour, Time{100});
  EXPECT_EQ(w.skipped(kNever), 0u);
  w.history.changed(kTask, Time{100});
  EXPECT_EQ(w.skipped(kNever), 1000u / 3 - 1) << "from then on only its own";
  w.history.changed(kNeighbour, Time{101});
  w.history.changed(kTask, Time{101});
  EXPECT_EQ(w.skipped(kNever), 0u);
}

TEST(WavesToSkip, NeighboursThatCameBeforeTheWaveStay) {
  Waves w;
  w.history = {};
  w.history.changed(kNeighbour, Time{99});
  EXPECT_NE(w.skipped(kNever), 0u);
}

TEST(WavesToSkip, AForgottenNumberIsNobodysOwn) {
  Waves w;
  w.history.forget(kTask);
  EXPECT_FALSE(w.history.only(kTask));
  EXPECT_EQ(w.skipped(kNever), 0u);
}

TEST(WavesToSkip, NoneUnlessAllResidentsAreInTheListAndLastAsLong) {
  Waves w;
  w.task.resident = 4;  // one is a stray
  EXPECT_EQ(w.skipped(kNever), 0u);
  w.queue.add(kTask, {113, 3, 0, 0}, Time{9});
  EXPECT_EQ(w.skipped(kNever), 0u);
  Waves longer;
  longer.queue.add(kTask, {120, kNoBlock, 0, 0}, Time{10});
  longer.task.resident = 4;
  EXPECT_EQ(longer.skipped(kNever), 0u) << "a worker leaves";
}

TEST(WavesToSkip, NoneWhereBlocksDiffer) {
  Waves w;
  const std::vector<Time> times(1000, Time{10});
  w.work.block_times = &times;
  EXPECT_EQ(w.skipped(kNever), 0u);
}

TEST(WavesToSkip, OfWorkersOnlyWhileTheirNumberStays) {
  Waves w;
  w.history = {};
  w.history.changed(kTask, Time{99});
  w.work.ctas = w.work.workers = 3, w.work.instances = 1;
  w.task.pending = 0;
  EXPECT_NE(w.skipped(kNever), 0u);
  w.history.changed(kTask, Time{100});
  EXPECT_EQ(w.skipped(kNever), 0u) << "workers do not come and go in step";
  w.history = {};
  w.history.changed(kTask, Time{99});
  w.work.ctas = 2;
  EXPECT_EQ(w.skipped(kNever), 0u) << "one leaves";
  w.work.ctas = 3, w.work.instances = 2;
  EXPECT_EQ(w.skipped(kNever), 0u);
  w.work.instances = 1, w.task.pending = 1;
  EXPECT_EQ(w.skipped(kNever), 0u) << "one is yet to come";
  w.task.pending = 0;
  w.work.spread.quota = {2, 1}, w.work.spread.held = {2, 1};
  EXPECT_NE(w.skipped(kNever), 0u);
  w.work.spread.quota = {3, 0};
  EXPECT_EQ(w.skipped(kNever), 0u) << "one is on the wrong SM";
}

}  // namespace
}  // namespace corun::sim
