// Whose turn is it, and until when?
#include "sim/stages/time_slicer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <utility>
#include <vector>

#include "tests/support/build.h"

namespace corun::sim {
namespace {

/// Contexts on the GPU of small_gpu(), whose slice is 1 ms; a switch takes 10 us.
class TakingTurns {
 public:
  explicit TakingTurns(std::uint32_t contexts) : slicer(gpu_, contexts) {}

  bool look(Time now) {
    return slicer.look(
        now, [&](std::uint32_t c) { return with_work.contains(c); },
        [&](std::uint32_t next, bool interrupts) {
          switches.emplace_back(next, interrupts);
          return us(10);
        });
  }

 private:
  const Gpu gpu_ = small_gpu(1);

 public:
  std::set<std::uint32_t> with_work;
  std::vector<std::pair<std::uint32_t, bool>> switches;  // to which, and whether what ran is interrupted
  TimeSlicer slicer;
};

TEST(TimeSlicer, ASliceRunsToItsEndWhateverArrives) {
  TakingTurns t(2);
  t.with_work = {0};
  EXPECT_FALSE(t.look(us(0)));
  t.with_work = {0, 1};
  EXPECT_FALSE(t.look(ms(1) - ps(1)));
  EXPECT_EQ(t.slicer.active(), 0u);
  EXPECT_TRUE(t.look(ms(1)));
  EXPECT_THAT(t.switches, testing::ElementsAre(std::pair(1u, true)));
}

TEST(TimeSlicer, AContextWithNothingToRunGivesItsSliceAway) {
  TakingTurns t(2);
  t.with_work = {0, 1};
  t.look(us(0));
  t.with_work = {1};
  EXPECT_TRUE(t.look(ps(1)));
  EXPECT_THAT(t.switches, testing::ElementsAre(std::pair(1u, false)));
}

TEST(TimeSlicer, NobodyHasTheGpuDuringASwitchAndASliceBeginsAfterIt) {
  TakingTurns t(2);
  t.with_work = {1};
  ASSERT_TRUE(t.look(us(100)));
  EXPECT_EQ(t.slicer.active(), std::nullopt);
  EXPECT_EQ(t.slicer.next_time(us(100)), us(110));
  t.with_work = {0};
  EXPECT_FALSE(t.look(us(105))) << "a switch is not given up";
  t.with_work = {0, 1};
  t.slicer.begin_turn(us(110));
  EXPECT_EQ(t.slicer.active(), 1u);
  EXPECT_EQ(t.slicer.next_time(us(110)), us(1110));
  EXPECT_FALSE(t.look(us(1110) - ps(1)));
  EXPECT_TRUE(t.look(us(1110)));
}

TEST(TimeSlicer, ContextsWithWorkComeInTurn) {
  TakingTurns t(4);
  t.with_work = {0, 2, 3};
  t.look(us(0));
  std::vector<std::uint32_t> had;
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(t.look(t.slicer.next_time({})));
    t.slicer.begin_turn(t.slicer.next_time({}));
    had.push_back(t.slicer.current());
  }
  EXPECT_THAT(had, testing::ElementsAre(2, 3, 0, 2));
}

TEST(TimeSlicer, WhoIsAloneGetsSliceAfterSlice) {
  TakingTurns t(2);
  t.with_work = {0};
  t.look(us(0));
  EXPECT_FALSE(t.look(ms(1)));
  EXPECT_EQ(t.slicer.next_time(ms(1)), ms(2));
  t.with_work = {0, 1};
  EXPECT_FALSE(t.look(ms(2) - ps(1))) << "another that comes meanwhile waits for its end";
  EXPECT_TRUE(t.look(ms(2)));
}

TEST(TimeSlicer, ASliceCountsFromTheFirstWorkOn) {
  TakingTurns t(2);
  EXPECT_FALSE(t.look(us(0)));
  t.with_work = {0, 1};
  EXPECT_FALSE(t.look(us(300)));
  EXPECT_FALSE(t.look(us(1300) - ps(1)));
  EXPECT_TRUE(t.look(us(1300)));
}

TEST(TimeSlicer, TheOnlyContextHasTheGpuForGood) {
  TakingTurns t(1);
  for (const Time now : {us(0), ms(1), ms(5)}) {
    EXPECT_FALSE(t.look(now));
    EXPECT_EQ(t.slicer.next_time(now), kNever);
    t.with_work = {0};
  }
  EXPECT_EQ(t.slicer.active(), 0u);
}

}  // namespace
}  // namespace corun::sim
