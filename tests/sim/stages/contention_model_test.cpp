// When blocks that share SMs and memory end.
#include "sim/stages/contention_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/support/build.h"
#include "tests/support/stages.h"

namespace corun::sim {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr WorkId kWorkA{0}, kWorkB{1}, kWorkC{2};
constexpr std::uint32_t kSms = 4;

/// A block of 10 us, `share` of them at the issue slots; one block an SM.
BlockLoad issuing(double share) {
  BlockLoad load;
  load.sm.issue_ps = 1e7 * share;
  load.sm.fixed_ps = 1e7 * (1 - share);
  load.extent.residents = 1, load.extent.sms = kSms;
  load.extent.blocks = kSms, load.extent.places = kSms;
  settle_alone(load, limits_of(small_gpu(kSms)));
  return load;
}

/// Waits for DRAM, of which all SMs together use about a half.
BlockLoad reading() {
  BlockLoad load;
  load.sm.fixed_ps = 1e6, load.memory.wait_ps = 4e6;
  load.memory.read_bytes = load.memory.l2_read_bytes = 6e6;
  load.extent.residents = 1, load.extent.sms = kSms;
  load.extent.blocks = kSms, load.extent.places = kSms;
  settle_alone(load, limits_of(small_gpu(kSms)));
  return load;
}

class Contending {
 public:
  explicit Contending(bool together = true) : cohorts(kSms, together), model(gpu, together) {}

  /// A block more on each SM, for as long as it takes alone.
  void add(TaskId task, WorkId work, const BlockLoad& load, Time now = {}) {
    for (const std::uint16_t head : cohorts.list()) add_on(head, task, work, load, now);
  }
  void add_on(std::uint32_t head, TaskId task, WorkId work, const BlockLoad& load, Time now = {},
              std::uint32_t count = 1) {
    model.add(
        task, work,
        {static_cast<std::int64_t>(load.alone_ps), now.count(), 0, static_cast<std::uint16_t>(head), 0, count},
        cohorts, now);
  }
  void settle(Time now = {}) { model.settle(now, cohorts); }
  void contend(bool contended, Time now = {}) { model.contend(contended, now, cohorts); }
  Time next() const { return model.next_time(); }
  /// The tasks of the blocks that end now.
  std::vector<TaskId> end(Time now) {
    model.take_ended(now, cohorts);
    std::vector<TaskId> tasks;
    for (const ContentionModel::Ended& e : model.ended())
      for (std::uint32_t i = 0; i < e.count * cohorts.size(e.head); ++i) tasks.push_back(e.task);
    model.completed_all();
    return tasks;
  }
  /// When each block ends, from now on, in the order of their ends.
  std::vector<std::pair<Time, TaskId>> run() {
    std::vector<std::pair<Time, TaskId>> ends;
    while (!model.empty()) {
      const Time now = next();
      for (const TaskId task : end(now)) ends.emplace_back(now, task);
      settle(now);
    }
    std::sort(ends.begin(), ends.end());
    return ends;
  }

  const Gpu gpu = small_gpu(kSms);
  Cohorts cohorts;
  ContentionModel model;
};

Time alone(const BlockLoad& load) { return Time{static_cast<std::int64_t>(load.alone_ps)}; }

TEST(ContentionModel, AloneBlocksTakeAsLongAsAlone) {
  for (const BlockLoad& load : {issuing(0.3), issuing(0.9), reading()})
    for (const bool contended : {false, true}) {
      Contending c;
      c.model.introduce(kWorkA, load);
      c.contend(contended);
      c.add(kA, kWorkA, load);
      c.settle();
      EXPECT_EQ(c.next(), alone(load));
      EXPECT_EQ(c.run().size(), kSms);
    }
}

TEST(ContentionModel, ABlockEndsAtItsTimeNotBefore) {
  Contending c;
  const BlockLoad load = issuing(0.5);
  c.model.introduce(kWorkA, load);
  c.add(kA, kWorkA, load);
  c.settle();
  EXPECT_THAT(c.end(alone(load) - ps(1)), IsEmpty());
  EXPECT_EQ(c.end(alone(load)).size(), kSms);
  EXPECT_TRUE(c.model.empty());
  EXPECT_THAT(c.model.present(), IsEmpty());
}

TEST(ContentionModel, TwoEqualLaunchesSlowEachOtherAlike) {
  Contending c;
  BlockLoad load = issuing(0.8);
  load.sm.processor_sharing = true;  // their ages do not count
  c.model.introduce(kWorkA, load), c.model.introduce(kWorkB, load);
  c.add(kA, kWorkA, load), c.add(kB, kWorkB, load);
  c.contend(true);
  c.settle();
  const Time end = c.next();
  EXPECT_GT(end, alone(load));
  EXPECT_LT(end, 2 * alone(load));
  EXPECT_EQ(c.end(end).size(), 2 * kSms);
}

TEST(ContentionModel, TheOlderOfTwoEqualLaunchesIsSlowedLess) {
  Contending c;
  const BlockLoad load = issuing(0.8);
  c.model.introduce(kWorkA, load), c.model.introduce(kWorkB, load);
  c.add(kA, kWorkA, load);
  c.add(kB, kWorkB, load, us(1));
  c.contend(true, us(1));
  c.settle(us(1));
  const auto ends = c.run();
  ASSERT_EQ(ends.size(), 2 * kSms);
  EXPECT_EQ(ends.front().second, kA);
  EXPECT_GT(ends.front().first, alone(load));
  EXPECT_GT(ends.back().first - us(1), ends.front().first);
}

TEST(ContentionModel, WhatDoesNotContendAnyMoreGoesAsAloneFromThen) {
  Contending c;
  const BlockLoad load = issuing(0.8);
  c.model.introduce(kWorkA, load), c.model.introduce(kWorkB, load);
  c.add(kA, kWorkA, load), c.add(kB, kWorkB, load);
  c.contend(true);
  c.settle();
  const Time slowed = c.next();
  std::vector<ContentionModel::Ended> gone;
  c.model.remove(kWorkB, us(4), c.cohorts, gone);
  c.contend(false, us(4));
  c.settle(us(4));
  EXPECT_LT(c.next(), slowed);
  EXPECT_GT(c.next(), alone(load));
  // What is left then goes as fast as alone.
  EXPECT_LE(c.next(), us(4) + alone(load));
}

TEST(ContentionModel, ARemovedLaunchGivesNoEndsAndTheOtherOneStays) {
  Contending c;
  const BlockLoad load = issuing(0.5);
  c.model.introduce(kWorkA, load), c.model.introduce(kWorkB, load);
  c.add(kA, kWorkA, load), c.add(kB, kWorkB, load), c.add(kC, kWorkA, load);
  c.settle();
  EXPECT_THAT(c.model.present(), ElementsAre(kWorkA, kWorkB));
  std::vector<ContentionModel::Ended> gone;
  c.model.remove(kWorkA, us(1), c.cohorts, gone);
  EXPECT_EQ(gone.size(), 2u) << "of one cohort, two tasks";
  EXPECT_THAT(c.model.present(), ElementsAre(kWorkB));
  c.settle(us(1));
  for (const auto& [time, task] : c.run()) EXPECT_EQ(task, kB);
  gone.clear();
  c.model.remove(kWorkA, us(20), c.cohorts, gone);
  EXPECT_THAT(gone, IsEmpty());
}

// ---- cohorts ----------------------------------------------------------------------------------------------

/// Two launches that began at different times, under way for a microsecond.
void begin(Contending& c) {
  const BlockLoad load = issuing(0.7), other = reading();
  c.model.introduce(kWorkA, load), c.model.introduce(kWorkB, other);
  c.add(kA, kWorkA, load);
  c.settle();
  c.add(kB, kWorkB, other, ns(300));
  c.add(kB, kWorkB, other, ns(300));
  c.contend(true, ns(300));
  c.settle(ns(300));
  while (c.next() < us(1)) c.settle(c.next());
}

TEST(ContentionModel, SplitThenMergedTheEndsAreTheSame) {
  Contending whole, parted;
  begin(whole), begin(parted);
  const std::uint32_t other = parted.cohorts.split(0, mask({0, 2}));
  parted.model.split(0, other);
  parted.settle(us(1));
  EXPECT_EQ(parted.next(), whole.next());
  EXPECT_TRUE(parted.model.alike(0, other, us(1)));
  parted.model.merge(other);
  parted.cohorts.merge(0, other);
  EXPECT_EQ(parted.next(), whole.next());
  EXPECT_EQ(parted.run(), whole.run());
}

TEST(ContentionModel, BothHalvesOfASplitCohortEndAsTheWholeWould) {
  Contending whole, parted;
  begin(whole), begin(parted);
  parted.model.split(0, parted.cohorts.split(0, mask({0, 2})));
  parted.settle(us(1));
  EXPECT_EQ(parted.run(), whole.run());
}

TEST(ContentionModel, SmsOnTheirOwnGoAsThoseThatAreKeptTogether) {
  Contending together(true), alone(false);
  begin(together), begin(alone);
  EXPECT_EQ(together.run(), alone.run());
}

TEST(ContentionModel, AHalfThatGetsABlockMoreIsNotAlike) {
  Contending c;
  begin(c);
  const std::uint32_t other = c.cohorts.split(0, mask({0, 2}));
  c.model.split(0, other);
  c.add_on(other, kA, kWorkA, issuing(0.7), us(1));
  c.settle(us(1));
  EXPECT_FALSE(c.model.alike(0, other, us(1)));
}

// ---- pressure ---------------------------------------------------------------------------------------------

TEST(ContentionModel, ThePressureIsJudgedOnceASettlingTime) {
  Contending c;
  const BlockLoad load = reading();
  c.model.introduce(kWorkA, load), c.model.introduce(kWorkB, load);
  c.contend(true);
  c.add(kA, kWorkA, load);
  EXPECT_EQ(c.next(), Time{}) << "at once, the first time";
  c.settle();
  const double one = c.model.dram_use();
  EXPECT_GT(one, 0);
  c.add(kB, kWorkB, load, ns(400));
  c.settle(ns(400));
  EXPECT_EQ(c.next(), us(1));
  c.settle(us(1) - ps(1));
  EXPECT_EQ(c.model.dram_use(), one);
  c.settle(us(1));
  EXPECT_GT(c.model.dram_use(), one);
  EXPECT_GT(c.next(), alone(load));
}

TEST(ContentionModel, OneThatAsksNothingOfTheMemoryPressesNobody) {
  Contending c;
  const BlockLoad load = issuing(0.5);
  c.model.introduce(kWorkA, load);
  c.contend(true);
  c.add(kA, kWorkA, load);
  c.settle();
  EXPECT_EQ(c.model.dram_use(), 0);
  EXPECT_EQ(c.model.memory_for_another().latency_inflation, 1);
}

TEST(ContentionModel, AnAccessTakesLongerTheMoreUseDram) {
  Contending c;
  const BlockLoad load = reading();
  c.model.introduce(kWorkA, load), c.model.introduce(kWorkB, load);
  c.add(kA, kWorkA, load);
  c.settle();
  const double beside_one = c.model.memory_for_another().latency_inflation;
  EXPECT_GT(beside_one, 1);
  c.add(kB, kWorkB, load);
  c.settle();
  EXPECT_GT(c.model.memory_for_another().latency_inflation, beside_one);
}

// ---- one after the other ----------------------------------------------------------------------------------

TEST(ContentionModel, BlocksServedInTheOrderOfTheirAgesEndOneAfterTheOther) {
  BlockLoad load = issuing(1);
  load.extent.residents = 2, load.sm.oldest_served = 1;
  Contending c;
  c.model.introduce(kWorkA, load);
  c.add_on(0, kA, kWorkA, load, {}, 2);
  c.settle();
  const auto left = static_cast<std::int64_t>(load.alone_ps);
  EXPECT_EQ(c.next(), ps(left / 2));
  EXPECT_EQ(c.end(ps(left / 2)).size(), kSms);
  c.settle(ps(left / 2));
  EXPECT_EQ(c.next(), ps(2 * (left / 2)));
}

// ---- what it refuses --------------------------------------------------------------------------------------

TEST(ContentionModel, RefusesLaunchesThatItDoesNotKnow) {
  Contending c;
  const BlockLoad load = issuing(0.5);
  EXPECT_THROW(c.add(kA, kWorkA, load), std::logic_error);
  EXPECT_THROW(c.model.introduce(kWorkA, {}), std::logic_error);  // it contends for nothing
  std::vector<ContentionModel::Ended> gone;
  EXPECT_THROW(c.model.remove(kWorkA, Time{}, c.cohorts, gone), std::logic_error);
  c.model.introduce(kWorkA, load);
  EXPECT_NO_THROW(c.add(kA, kWorkA, load));
  EXPECT_THROW(c.model.introduce(kWorkA, load), std::logic_error);  // its blocks are there
  EXPECT_THROW(c.add_on(0, kA, kWorkA, load, Time{}, 0), std::logic_error);
}

TEST(ContentionModel, RefusesTimesThatWouldMissAnEnd) {
  Contending c;
  const BlockLoad load = issuing(0.5);
  c.model.introduce(kWorkA, load);
  c.add(kA, kWorkA, load);
  c.settle();
  EXPECT_THROW(c.end(alone(load) + ps(1)), std::logic_error);
  EXPECT_NO_THROW(c.end(alone(load)));
}

TEST(ContentionModel, ACopyGoesOnTheSame) {
  Contending c;
  begin(c);
  Contending copy;
  copy.cohorts = c.cohorts;
  copy.model = c.model;
  EXPECT_EQ(copy.run(), c.run());
}

}  // namespace
}  // namespace corun::sim
