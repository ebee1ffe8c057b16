// To what is the time of a launch charged that shares SMs and memory with another?
#include "sim/stages/loss_meter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "tests/support/build.h"

namespace corun::sim {
namespace {

constexpr WorkId kOlder{0}, kYounger{1};

/// One block of 10 us on each of four SMs: half of it at the issue slots, or half of it waiting for the bytes
/// that it reads.
BlockLoad on_four_sms(BlockLoad load) {
  load.extent.residents = 1, load.extent.sms = 4;
  load.extent.blocks = 4, load.extent.places = 4;
  settle_alone(load, limits_of(small_gpu(4)));
  return load;
}
BlockLoad half_issuing() {
  BlockLoad load;
  load.sm.issue_ps = load.sm.fixed_ps = 5e6;
  return on_four_sms(load);
}
BlockLoad half_reading() {
  BlockLoad load;
  load.sm.fixed_ps = load.memory.wait_ps = 5e6;
  load.memory.read_bytes = load.memory.l2_read_bytes = 8e6;
  return on_four_sms(load);
}

/// Launches from 0 on.
class Losing {
 public:
  void begin(WorkId id, const BlockLoad& load) {
    Work work;
    work.load = load;
    meter.began(id, work);
    meter.first_block(id, {});
  }
  /// From `now` on the SM has blocks of these.
  void rate(std::uint32_t sm, Time now, const std::vector<LossMeter::Row>& rows, bool contended = true) {
    meter.rated(sm, now.count(), rows, 0, contended);
  }
  void together(std::uint32_t sm, Time now, bool judged = false, bool contended = true) {
    rate(sm, now, {{kOlder, 1, judged}, {kYounger, 1, judged}}, contended);
  }
  void judge(const BlockLoad& older, const BlockLoad& younger) {
    const WorkId works[] = {kOlder, kYounger};
    const Contender contenders[] = {{&older, 4, 4}, {&younger, 4, 4}};
    meter.judged(works, contenders);
  }
  RunningParts end(WorkId id, const Work& work = {}, Time now = us(10)) { return meter.ended(id, work, now); }

 private:
  const Gpu gpu_ = small_gpu(4);

 public:
  LossMeter meter{gpu_};
};

/// Of 10 us, what the younger one loses at the issue slots, `blocks` of it beside one of the older.
Time lost_beside(std::uint32_t blocks = 1) {
  Losing l;
  for (const WorkId id : {kOlder, kYounger}) l.begin(id, half_issuing());
  l.rate(0, {}, {{kOlder, 1, false}, {kYounger, blocks, false}});
  return l.end(kYounger).issue;
}

TEST(LossMeter, WhatALaunchByItselfTakesBeyondItsTimeAloneWasForWantOfPlaces) {
  for (const Time beyond : {ps(-1), ps(0), ps(1), us(4)}) {
    Losing l;
    l.begin(kOlder, half_issuing());
    l.rate(0, {}, {{kOlder, 1, false}});
    Work work;
    work.record.solo = us(10) - beyond;
    const RunningParts parts = l.end(kOlder, work);
    EXPECT_EQ(parts.places, std::max(ps(0), beyond));
    EXPECT_EQ(parts.alone, us(10) - parts.places) << "nothing else is lost";
  }
}

TEST(LossMeter, ItsTimeIsThatFromItsFirstBlockOn) {
  Losing l;
  l.begin(kOlder, half_issuing());
  l.meter.first_block(kOlder, us(3));
  l.rate(0, us(3), {{kOlder, 1, false}});
  EXPECT_EQ(l.end(kOlder).sum(), us(7));
  EXPECT_EQ(l.end(kOlder).alone, us(7)) << "its time alone is not known";
}

TEST(LossMeter, SharesAreMeansOverTheTimeOfItsBlocks) {
  ASSERT_GT(lost_beside(), us(1));
  EXPECT_GT(lost_beside(2), 3 * lost_beside() / 4) << "each of them about as much";
  const auto share = [](auto change) {
    Losing l;
    for (const WorkId id : {kOlder, kYounger}) l.begin(id, half_issuing());
    l.together(0, {});
    change(l);
    return to_ns(l.end(kYounger).issue) / to_ns(lost_beside());
  };
  const auto other_leaves = [](Losing& l) { l.rate(0, us(4), {{kYounger, 1, false}}); };
  const auto more_elsewhere = [](Losing& l) { l.rate(1, {}, {{kYounger, 3, false}}); };
  const auto ends_early = [](Losing& l) { l.rate(0, us(2), {}), l.rate(1, {}, {{kYounger, 1, false}}); };
  EXPECT_NEAR(share(other_leaves), 0.4, 1e-5);
  EXPECT_NEAR(share(more_elsewhere), 1.0 / 4, 1e-5);
  EXPECT_NEAR(share(ends_early), 2.0 / 12, 1e-5);
}

TEST(LossMeter, BlocksThatTakeAsLongAsAloneLoseNothing) {
  Losing l;
  for (const WorkId id : {kOlder, kYounger}) l.begin(id, half_issuing());
  l.together(0, {}, false, false);
  EXPECT_EQ(l.end(kYounger).alone, us(10));
}

TEST(LossMeter, ThePressureOnTheMemoryCountsFromWhenItWasJudgedOn) {
  const auto lost = [](Time judged_at, bool rows_judged) {
    Losing l;
    for (const WorkId id : {kOlder, kYounger}) l.begin(id, half_reading());
    l.together(0, {}, rows_judged);
    if (judged_at < us(10)) {
      l.judge(half_reading(), half_reading());
      l.together(0, judged_at, rows_judged);
    }
    return l.end(kYounger).dram;
  };
  EXPECT_GT(lost(us(0), true), ns(500));
  EXPECT_EQ(lost(us(10), true), us(0));
  EXPECT_NEAR(to_ns(lost(us(4), true)), 0.6 * to_ns(lost(us(0), true)), 0.01);
  EXPECT_EQ(lost(us(0), false), us(0)) << "blocks that are not under it";
}

TEST(LossMeter, ANumberThatIsUsedAgainIsAnotherLaunch) {
  Losing l;
  for (const WorkId id : {kOlder, kYounger}) l.begin(id, half_issuing());
  l.together(0, {});
  l.rate(0, us(5), {});
  EXPECT_GT(l.end(kOlder).sum(), us(0));
  BlockLoad idle;
  idle.sm.fixed_ps = 1e7;
  l.begin(kOlder, on_four_sms(idle));
  l.begin(kYounger, half_issuing());
  l.together(0, us(5));
  EXPECT_EQ(l.end(kYounger).issue, us(0)) << "the older one no longer issues anything";
}

TEST(LossMeter, ASlowerClockAndAColderL2ArePartsOfWhatIsLeft) {
  const auto parts = [](TimesAlone times) {
    Losing l;
    Work work;
    work.load = half_issuing();
    work.times_alone = times;
    l.begin(kOlder, work.load);
    l.rate(0, {}, {{kOlder, 1, false}});
    return l.end(kOlder, work);
  };
  const RunningParts slowed = parts({6e6, 7e6});
  EXPECT_NEAR(to_ns(slowed.clock), 1000, 0.01);
  EXPECT_NEAR(to_ns(slowed.l2), 3000, 0.01);
  EXPECT_NEAR(to_ns(slowed.alone), 6000, 0.01);
  EXPECT_EQ(parts({1e7, 1e7}).alone, us(10)) << "the highest clock, and all of its data";
  EXPECT_EQ(parts({}).alone, us(10)) << "nobody knows";
}

}  // namespace
}  // namespace corun::sim
