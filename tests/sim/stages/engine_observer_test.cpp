// What is written to the timeline, and what the audit finds.
#include "sim/stages/engine_observer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/support/build.h"
#include "tests/support/collect.h"
#include "tests/support/stages.h"

namespace corun::sim {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

class Gauges final : public Sink {
 public:
  using Sink::record;
  void record(const GaugeRecord& r) override { all.push_back(r); }
  bool wants_gauges() const override { return true; }
  std::vector<GaugeRecord> all;
};

Work work_of_blocks(std::uint64_t blocks) {
  Work work;
  work.record.launch = {0, 7};
  work.record.kernel = KernelId{3};
  work.record.blocks = work.last = blocks;
  return work;
}

template <typename F>
void expect_breach(F&& f, const char* what) {
  EXPECT_THAT(std::forward<F>(f), ThrowsMessage<std::logic_error>(HasSubstr(what)));
}

TEST(EngineObserver, LooksAwayUnlessSomebodyWantsToKnow) {
  const Gpu gpu = small_gpu(2);
  Timeline nobody, with_blocks, with_gauges;
  Collector blocks(true);
  Gauges gauges;
  with_blocks.attach(blocks), with_gauges.attach(gauges);
  EXPECT_TRUE(EngineObserver(gpu, nobody, false).looks_away());
  EXPECT_FALSE(EngineObserver(gpu, nobody, true).looks_away());
  EXPECT_FALSE(EngineObserver(gpu, with_blocks, false).looks_away());
  EXPECT_FALSE(EngineObserver(gpu, with_gauges, false).looks_away());
}

TEST(EngineObserver, ABlocksRecordHasItsTimesAndItsSm) {
  Gpu gpu = small_gpu(2);
  gpu.placement_order = {SmId{1}, SmId{0}};
  Timeline timeline;
  Collector collected(true);
  timeline.attach(collected);
  EngineObserver observer(gpu, timeline, false);
  Work work = work_of_blocks(4);
  observer.launch_began(WorkId{0}, work);
  work.next = 2;
  observer.block_dispatched(WorkId{0}, work, us(1));
  observer.block_started(WorkId{0}, work, 2, 0, us(2));
  observer.block_ended(WorkId{0}, work, 2, 0, 5, us(3));
  observer.launch_ended(work.record);
  ASSERT_EQ(collected.blocks.size(), 1u);
  const BlockRecord& b = collected.blocks.front();
  EXPECT_EQ(b.block, 2u);
  EXPECT_EQ(b.sm, SmId{1}) << "rank 0 is the first of the placement order";
  EXPECT_EQ(b.lane, 5u);
  EXPECT_EQ(b.dispatched, us(1));
  EXPECT_EQ(b.start, us(2));
  EXPECT_EQ(b.end, us(3));
  EXPECT_EQ(collected.kernels.size(), 1u);
}

TEST(EngineObserver, AWorkerThatIsPlacedWhenAllHaveStartedHasNoTimeToTell) {
  const Gpu gpu = small_gpu(2);
  Timeline timeline;
  Collector collected(true);
  timeline.attach(collected);
  EngineObserver observer(gpu, timeline, false);
  Work work = work_of_blocks(4);
  observer.launch_began(WorkId{0}, work);
  work.next = 4;
  EXPECT_NO_THROW(observer.block_dispatched(WorkId{0}, work, us(1)));
  for (std::uint32_t block = 0; block < 4; ++block)
    observer.block_ended(WorkId{0}, work, block, 0, 0, us(2));
  timeline.flush();
  ASSERT_EQ(collected.blocks.size(), 4u);
  for (const BlockRecord& b : collected.blocks) EXPECT_EQ(b.dispatched, Time{});
}

TEST(EngineObserver, WritesWhereItIsToldTo) {
  const Gpu gpu = small_gpu(2);
  Timeline first, second;
  Collector to_first, to_second;
  first.attach(to_first), second.attach(to_second);
  EngineObserver observer(gpu, first, false);
  observer.launch_ended({});
  observer.write_to(second);
  observer.launch_ended({});
  EXPECT_EQ(to_first.kernels.size(), 1u);
  EXPECT_EQ(to_second.kernels.size(), 1u);
}

TEST(EngineObserver, GaugesAreWrittenOnceAMicrosecondWhenTheyChangedAndWhenAllFallsEmpty) {
  const Gpu gpu = small_gpu(2);
  Timeline timeline;
  Gauges gauges;
  timeline.attach(gauges);
  EngineObserver observer(gpu, timeline, false);
  SmArray sms(gpu, false, false);
  const auto written = [&](Time now, std::uint32_t slots) {
    gauges.all.clear();
    observer.gauge(now, now, 0, slots, sms, 0);
    return gauges.all.size();
  };
  sms.take(0, kHalf, 0, 1, true);
  EXPECT_EQ(written(us(1) - ps(1), 1), 0u);
  EXPECT_EQ(written(us(1), 1), 3u);  // slots, blocks, warps
  EXPECT_EQ(written(us(2) - ps(1), 2), 0u);
  EXPECT_EQ(written(us(2), 1), 0u) << "nothing has changed";
  EXPECT_EQ(written(us(3), 2), 1u);
  sms.give_back(0, kHalf, 0, 1, true);
  EXPECT_EQ(written(us(3) + ps(1), 0), 3u);
}

TEST(EngineObserver, TheAuditFindsTimeThatGoesBack) {
  const Gpu gpu = small_gpu(2);
  Timeline nobody;
  EngineObserver observer(gpu, nobody, true);
  EXPECT_NO_THROW(observer.check_time(us(1), us(1)));
  expect_breach([&] { observer.check_time(us(1), us(1) - ps(1)); }, "time goes back");
}

TEST(EngineObserver, TheAuditFindsABlockThatRunsTwice) {
  const Gpu gpu = small_gpu(2);
  Timeline nobody;
  EngineObserver observer(gpu, nobody, true);
  Work work = work_of_blocks(4);
  observer.launch_began(WorkId{0}, work);
  observer.block_started(WorkId{0}, work, 1, 0, Time{});
  observer.block_started(WorkId{0}, work, 2, 0, Time{});
  expect_breach([&] { observer.block_started(WorkId{0}, work, 1, 1, Time{}); }, "ran twice");
  EXPECT_THROW(observer.block_started(WorkId{0}, work, 4, 0, Time{}), std::logic_error);  // it has none of that number
}

TEST(EngineObserver, TheAuditFindsMoreBlocksThanTheQuota) {
  const Gpu gpu = small_gpu(2);
  Timeline nobody;
  EngineObserver observer(gpu, nobody, true);
  Work work = work_of_blocks(4);
  work.spread.quota = {1, 0}, work.spread.running = {0, 0};
  observer.launch_began(WorkId{0}, work);
  EXPECT_NO_THROW(observer.block_started(WorkId{0}, work, 0, 0, Time{}));
  work.spread.running = {1, 0};
  expect_breach([&] { observer.block_started(WorkId{0}, work, 1, 0, Time{}); }, "quota");
  expect_breach([&] { observer.block_started(WorkId{0}, work, 2, 1, Time{}); }, "quota");
}

TEST(EngineObserver, TheAuditFindsAnSmWithMoreThanItHolds) {
  const Gpu gpu = small_gpu(2);
  Timeline nobody;
  SmArray sms(gpu, false, false);
  sms.take(1, kHalf, 0, 1, true);
  EXPECT_NO_THROW(EngineObserver(gpu, nobody, true).check_sm(sms, 1));
  Gpu half = gpu;
  half.sm.max_threads /= 2;
  const EngineObserver observer(half, nobody, true);
  EXPECT_NO_THROW(observer.check_sm(sms, 1));
  expect_breach([&] { observer.check_sm(sms, 0); }, "oversubscribed");
}

TEST(EngineObserver, TheAuditFindsWhatALaunchLeavesBehind) {
  const Gpu gpu = small_gpu(2);
  Timeline nobody;
  EngineObserver observer(gpu, nobody, true);
  SmArray sms(gpu, false, false);
  Work work = work_of_blocks(4);
  work.done = 4;
  const std::vector<SmResources> all = sms.free();
  EXPECT_NO_THROW(observer.check_end(work, all, sms, gpu.task_slots));
  expect_breach([&] { observer.check_end(work, all, sms, gpu.task_slots + 1); }, "task slots");
  work.done = 3;
  expect_breach([&] { observer.check_end(work, all, sms, 1); }, "not run");
  work.reset = true;
  EXPECT_NO_THROW(observer.check_end(work, all, sms, 1)) << "what it has done is void";
  work.spread.held = {0, 1};
  expect_breach([&] { observer.check_end(work, all, sms, 1); }, "workers");
  work.spread.held = {0, 0};
  sms.take(0, kHalf, 0, 1, true);
  expect_breach([&] { observer.check_end(work, all, sms, 1); }, "add up");
}

TEST(EngineObserver, TheAuditFindsADispatcherThatRestsThoughThereIsRoom) {
  const Gpu gpu = small_gpu(2);
  Timeline nobody;
  EngineObserver observer(gpu, nobody, true);
  SmArray sms(gpu, false, false);
  TaskTable tasks;
  Task large, small;
  large.allowed.set(0), large.demand = kHalf;
  small.allowed = sms.all(), small.demand = {1, 4, 128, 0, 0};
  const std::vector<TaskId> table{tasks.add(large), tasks.add(small)};
  for (const std::uint32_t rank : {0u, 1u})
    sms.take(rank, kHalf, 0, 1, true), sms.take(rank, kHalf, 0, 1, true);
  EXPECT_NO_THROW(observer.check_dispatcher_rests(table, tasks, sms));
  // SM 0 is the first task's, who has no room there; the second may not use it, however much is left.
  sms.give_back(0, kHalf, 0, 1, true);
  sms.take(0, small.demand, 0, 1, true);
  EXPECT_NO_THROW(observer.check_dispatcher_rests(table, tasks, sms));
  sms.give_back(1, kHalf, 0, 1, true);
  expect_breach([&] { observer.check_dispatcher_rests(table, tasks, sms); }, "has room");
}

}  // namespace
}  // namespace corun::sim
