// A context's pipeline by itself: no door before it, no backend around it.
#include "sim/stages/pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "tests/support/build.h"
#include "tests/support/stages.h"

namespace corun::sim {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// Blocks of 1 MB each.
Work reading(std::uint32_t client, double uncached_share) {
  static std::uint32_t slot = 100;
  Work work;
  work.record.launch = {slot, slot};
  ++slot;
  work.record.client = ClientId{client};
  work.record.blocks = 100;
  work.load.sm.issue_ps = 2e6, work.load.memory.wait_ps = 3e6;
  work.load.memory.read_bytes = work.load.memory.l2_read_bytes = 1e6;
  work.load.memory.uncached_share = uncached_share;
  work.load.extent = {2, 4, 100, 8};
  settle_alone(work.load, limits_of(small_gpu(4)));
  work.block_alone = Time{static_cast<std::int64_t>(work.load.alone_ps)};
  return work;
}

/// Four SMs for two blocks each; a block every nanosecond.
class Piped {
 public:
  LaunchId accept(std::uint64_t blocks, Time block_alone, std::uint32_t level = 0, std::uint32_t ctas = 0) {
    Work work;
    const LaunchId launch{next_, next_};
    ++next_;
    work.record.launch = launch;
    work.record.blocks = static_cast<std::uint32_t>(blocks);
    work.block_alone = block_alone;
    work.ctas = ctas;
    pipe.condition(work);
    pipe.accept(std::move(work), level, pipe.sms().all(), kHalf);
    return launch;
  }
  /// What ends, in its order, until `limit`.
  std::vector<std::uint32_t> ended(Time limit) {
    std::vector<std::uint32_t> launches;
    while (pipe.next_time() <= limit && pipe.next_time() != kNever) {
      std::vector<EngineNotice> notices;
      pipe.advance(limit, notices);
      for (const EngineNotice& n : notices)
        if (n.kind == EngineNotice::Kind::kernel_finished) launches.push_back(n.launch.slot);
    }
    return launches;
  }

  const Gpu gpu = small_gpu(4);
  Timeline timeline;
  Pipeline pipe{gpu, EngineObserver(gpu, timeline, true), false};

 private:
  std::uint32_t next_ = 0;
};

TEST(PipelineAlone, ABlockStartsEachDispatchIntervalAndEndsItsTimeLater) {
  Piped p;
  const LaunchId launch = p.accept(3, us(5));
  EXPECT_THAT(p.ended(us(5) + 2 * p.gpu.dispatch_interval - ps(1)), IsEmpty());
  EXPECT_EQ(p.pipe.blocks_done(launch), 2u);
  EXPECT_EQ(p.pipe.resident_blocks(launch), 1u);
  EXPECT_THAT(p.ended(us(5) + 2 * p.gpu.dispatch_interval), ElementsAre(0));
  EXPECT_FALSE(p.pipe.busy());
  EXPECT_EQ(p.pipe.blocks_run(), 3u);
}

TEST(PipelineAlone, BlocksThatFindNoPlaceStartAsOthersEnd) {
  Piped p;
  p.accept(9, us(5));  // eight places
  EXPECT_THAT(p.ended(us(10) - ps(1)), IsEmpty());
  EXPECT_EQ(p.pipe.sms().resident_blocks(), 1u);
  EXPECT_THAT(p.ended(us(10) + p.gpu.dispatch_interval), ElementsAre(0));
}

TEST(PipelineAlone, AHigherPriorityTakesThePlacesThatComeFree) {
  Piped p;
  const LaunchId low = p.accept(16, us(5), 2), high = p.accept(8, us(1), 0);
  EXPECT_THAT(p.ended(us(6) + us(1)), ElementsAre(high.slot));
  EXPECT_EQ(p.pipe.blocks_done(low), 8u);
  EXPECT_THAT(p.ended(us(20)), ElementsAre(low.slot));
}

TEST(PipelineAlone, WhatIsTakenOffSaysHowFarItCame) {
  Piped p;
  const LaunchId launch = p.accept(24, us(5));
  EXPECT_THAT(p.ended(us(7)), IsEmpty());
  EXPECT_FALSE(p.pipe.take_off(launch, false, false)) << "its running blocks end first";
  EXPECT_THAT(p.ended(us(20)), IsEmpty());
  EXPECT_FALSE(p.pipe.busy());
  EXPECT_EQ(p.pipe.collect(launch).done, 16u);
  EXPECT_THROW(p.pipe.collect(launch), std::logic_error) << "once";
}

TEST(PipelineAlone, AKilledLaunchLeavesAtOnceAndHasDoneNothing) {
  Piped p;
  const LaunchId launch = p.accept(24, us(5));
  EXPECT_THAT(p.ended(us(7)), IsEmpty());
  EXPECT_TRUE(p.pipe.take_off(launch, true, true));
  EXPECT_EQ(p.pipe.sms().resident_blocks(), 0u);
  EXPECT_EQ(p.pipe.collect(launch).done, 0u);
}

TEST(PipelineAlone, APersistentLaunchThatGrowsTakesMorePlaces) {
  Piped p;
  const LaunchId launch = p.accept(100, us(5), 0, 2);
  EXPECT_THAT(p.ended(us(1)), IsEmpty());
  EXPECT_EQ(p.pipe.resident_blocks(launch), 2u);
  p.pipe.resize(launch, 6);
  EXPECT_THAT(p.ended(us(2)), IsEmpty());
  EXPECT_EQ(p.pipe.resident_blocks(launch), 6u);
  p.pipe.resize(launch, 3);
  EXPECT_THAT(p.ended(us(10)), IsEmpty());
  EXPECT_EQ(p.pipe.resident_blocks(launch), 3u) << "the others left when their blocks ended";
}

/// What others have moved of what a client's launch finds in L2: 1: all.
double uncached(Pipeline& pipe, std::uint32_t client) {
  Work work = reading(client, 0.1);
  pipe.condition(work);
  return work.load.memory.uncached_share;
}

TEST(PipelineAlone, WhatOtherClientsThatRunHaveMovedIsLostFromL2AndWhatTheClientItselfHasIsNot) {
  const Gpu gpu = small_gpu(4);
  for (const std::uint32_t mover : {0u, 1u}) {
    Timeline timeline;
    Pipeline pipe(gpu, EngineObserver(gpu, timeline, true), false);
    EXPECT_EQ(uncached(pipe, 0), 0.1);
    Work work = reading(mover, 1);
    pipe.condition(work);
    pipe.accept(std::move(work), 0, pipe.sms().all(), kHalf);
    EXPECT_EQ(uncached(pipe, 0), 0.1) << "nothing has been done";
    std::vector<EngineNotice> notices;
    while (pipe.blocks_run() < 50) pipe.advance(pipe.next_time(), notices);
    ASSERT_TRUE(pipe.busy());
    if (mover == 0)
      EXPECT_EQ(uncached(pipe, 0), 0.1);
    else
      EXPECT_GT(uncached(pipe, 0), 0.1);
  }
}

TEST(PipelineAlone, TimeStandsStillWhenItsStepsAreSpent) {
  Piped p;
  p.accept(3, us(5));
  p.pipe.stop_after(2);
  std::vector<EngineNotice> notices;
  p.pipe.advance(us(20), notices);
  EXPECT_TRUE(p.pipe.out_of_steps());
  EXPECT_LT(p.pipe.now(), us(5));
  EXPECT_EQ(p.pipe.stop_after(~std::uint64_t{0}), 2u);
  EXPECT_THAT(p.ended(us(20)), ElementsAre(0));
}

TEST(PipelineAlone, RefusesTimesThatHavePassedAndLaunchesThatFitNowhere) {
  Piped p;
  p.accept(3, us(5));
  EXPECT_THAT(p.ended(us(1)), IsEmpty());
  std::vector<EngineNotice> notices;
  p.pipe.advance(us(1), notices);
  EXPECT_THROW(p.pipe.advance(us(1) - ps(1), notices), std::logic_error);
  Work work;
  work.record.launch = {7, 7};
  work.record.blocks = 1;
  p.pipe.condition(work);
  EXPECT_THROW(p.pipe.accept(std::move(work), 0, SmMask{}, kHalf), std::logic_error);
}

}  // namespace
}  // namespace corun::sim
