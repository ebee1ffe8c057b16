// Do the contexts of processes without MPS take turns as the GPU gives them, slice by slice, and is nothing lost in between?
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/backend/sim_backend.h"
#include "tests/support/engine_rig.h"
#include "tests/support/run_trace.h"
#include "tests/support/stages.h"

namespace corun::sim {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// Two processes, each with one kernel whose blocks take turns on the only SM.
struct Sliced : TraceBuilder {
  Gpu gpu = slow_host_gpu(1);

  Ran run() { return run_trace(trace, gpu, "timeslice", Record::blocks); }
};

std::vector<std::tuple<std::uint32_t, Time, Time>> turns(const Ran& ran) {
  std::vector<std::tuple<std::uint32_t, Time, Time>> of;
  for (const TurnRecord& t : ran.turns) of.emplace_back(t.context, t.start, t.end);
  return of;
}

TEST(TimeSlices, ContextsTakeTurnsOfOneSliceWithASwitchBetween) {
  Sliced s;
  s.one_kernel("a", whole_sm_kernel(12, us(20)));
  s.one_kernel("b", whole_sm_kernel(12, us(20)));
  const auto all = turns(s.run());
  ASSERT_GE(all.size(), 4u);
  EXPECT_EQ(all[0], std::tuple(0u, us(0), us(105)));  // its slice counts from its first work on, at 5 us
  EXPECT_EQ(all[1], std::tuple(1u, us(115), us(215)));
  EXPECT_EQ(all[2], std::tuple(0u, us(225), us(325)));
  EXPECT_EQ(all[3], std::tuple(1u, us(335), us(435)));
}

TEST(TimeSlices, AnInterruptedBlockGoesOnWithWhatItHasLeft) {
  Sliced s;
  s.one_kernel("a", whole_sm_kernel(12, us(30)));
  s.one_kernel("b", whole_sm_kernel(12, us(30)));
  const Ran ran = s.run();
  const auto blocks = ran.blocks_of(ran.only(kFirst).launch);
  ASSERT_EQ(blocks.size(), 12u);
  EXPECT_EQ(blocks[2].end, us(95));
  EXPECT_EQ(blocks[3].start, us(95));
  EXPECT_EQ(blocks[3].end, us(245));  // 10 us before the switch at 105, 20 us from 225 on
  EXPECT_EQ(blocks[4].end, us(275));
}

TEST(TimeSlices, NothingIsLostOrDoneTwice) {
  Sliced s;
  s.one_kernel("a", whole_sm_kernel(30, us(17)));
  s.one_kernel("b", whole_sm_kernel(25, us(23)));
  s.one_kernel("c", whole_sm_kernel(20, us(29)));
  const Ran ran = s.run();
  std::vector<Time> had(3);
  for (const TurnRecord& t : ran.turns) had[t.context] += t.end - t.start;
  EXPECT_EQ(ran.blocks_run, 30u + 25u + 20u);
  // 5 us of the first turn pass before the first launch arrives.
  EXPECT_GE(had[0], us(30 * 17 + 5));
  EXPECT_GE(had[1], us(25 * 23));
  EXPECT_GE(had[2], us(20 * 29));
  for (std::uint32_t c = 0; c < 3; ++c) {
    Time work{};
    for (const BlockRecord& b : ran.blocks_of(ran.only(ClientId{c}).launch))
      for (const TurnRecord& t : ran.turns)
        if (t.context == c) work += std::max(Time{}, std::min(b.end, t.end) - std::max(b.start, t.start));
    EXPECT_EQ(work, us(c == 0 ? 30 * 17 : c == 1 ? 25 * 23 : 20 * 29));
  }
}

TEST(TimeSlices, ASwitchTakesLongerForEachSmThatItInterrupts) {
  for (const std::uint32_t blocks : {1u, 2u, 3u}) {
    Sliced s;
    s.gpu = slow_host_gpu(4);
    s.gpu.switch_sm = us(3);
    s.one_kernel("a", whole_sm_kernel(blocks, us(500)));
    s.one_kernel("b", whole_sm_kernel(1, us(30)));
    EXPECT_EQ(s.run().only(kSecond).started, us(105 + 10 + 3 * blocks)) << blocks;
  }
}

TEST(TimeSlices, OnlyOneContextRunsAtATime) {
  Sliced s;
  s.one_kernel("a", kernel(200, 256, us(30)));
  s.one_kernel("b", kernel(200, 256, us(30)));
  const Ran ran = s.run();
  ASSERT_GT(ran.turns.size(), 4u);
  for (std::size_t i = 1; i < ran.turns.size(); ++i)
    EXPECT_EQ(ran.turns[i].start, ran.turns[i - 1].end + s.gpu.context_switch);
}

TEST(TimeSlices, WorkThatEndsWithTheSliceIsNotInterrupted) {
  for (const Time more : {ps(0), ps(1)}) {
    Sliced s;
    s.one_kernel("a", whole_sm_kernel(1, us(100) + more));
    s.one_kernel("b", whole_sm_kernel(12, us(20)));
    const Time away = us(10 + 100 + 10);
    EXPECT_EQ(s.run().only(kFirst).finished, us(105) + (more == ps(0) ? ps(0) : away + more));
  }
}

TEST(TimeSlices, AContextWithoutWorkGivesItsTurnUp) {
  Sliced s;
  s.one_kernel("a", whole_sm_kernel(1, us(30)));
  s.one_kernel("b", whole_sm_kernel(1, us(30)));
  const Ran ran = s.run();
  EXPECT_EQ(ran.only(kFirst).finished, us(35));
  EXPECT_EQ(ran.only(kSecond).started, us(35) + s.gpu.context_switch);
}

TEST(TimeSlices, OneContextAloneKeepsTheGpu) {
  Sliced s;
  s.one_kernel("a", whole_sm_kernel(40, us(20)));
  s.one_kernel("b", whole_sm_kernel(1, us(20)), us(900));
  const Ran ran = s.run();
  EXPECT_EQ(ran.only(kFirst).finished, us(5 + 800));
  EXPECT_EQ(ran.turns.front().end, us(905));
}

TEST(TimeSlices, ALateComerWaitsForTheEndOfTheSliceUnderWay) {
  Sliced s;
  s.one_kernel("a", whole_sm_kernel(40, us(20)));
  s.one_kernel("b", whole_sm_kernel(1, us(20)), us(350));
  const Ran ran = s.run();
  EXPECT_EQ(ran.only(kSecond).started, us(5 + 4 * 100) + s.gpu.context_switch);
}

TEST(TimeSlices, ASwitchFromAContextWhoseGraphHasEndedDependsOnWhetherTheNextWasInterrupted) {
  for (const Issue issue : {Issue::graph, Issue::eager}) {
    Sliced s;
    s.gpu.idle_switch = us(2);
    s.gpu.idle_switch_to_interrupted = us(6);
    s.one_kernel("a", whole_sm_kernel(1, us(150)));
    s.client("b", s.program({launch(s.kernel(whole_sm_kernel(1, us(30))))}, issue), Once{});
    s.client("c", s.program({launch(s.kernel(whole_sm_kernel(1, us(30))))}, issue), Once{});
    const Ran ran = s.run();
    const bool graph = issue == Issue::graph;
    const Time fresh = graph ? us(2) : us(10), interrupted = graph ? us(6) : us(10);
    EXPECT_EQ(ran.only(kSecond).finished, us(105 + 10 + 30));
    EXPECT_EQ(ran.only(ClientId{2}).started, us(145) + fresh);
    EXPECT_EQ(ran.only(kFirst).finished, us(175) + fresh + interrupted + us(50));
  }
}

/// A graph of kernels of 20 us, two requests in flight, and another context that always has work.
struct ReadAhead : Sliced {
  void graph(std::uint32_t kernels, bool copied = false) {
    gpu.read_ahead_launches = 12;
    gpu.time_slice = us(500);
    gpu.graph_launch_call = us(1);
    Kernel one = whole_sm_kernel(1, us(20));
    one.name = "one";
    std::vector<Op> ops(kernels, launch(kernel(one)));
    if (copied) ops.insert(ops.begin() + 1, copy(CopyDirection::device_to_device, 64));
    client("graph", program(std::move(ops), Issue::graph), ClosedLoop{Time{}, 2});
    one_kernel("other", whole_sm_kernel(2000, us(20)), us(300));
    trace.run.duration = ms(8);
  }
  /// The longest turn of the graph's context after the other has come.
  Time longest() {
    Time most{};
    for (const TurnRecord& t : run().turns)
      if (t.context == 0 && t.start > us(400)) most = std::max(most, t.end - t.start);
    return most;
  }
};

TEST(TimeSlices, AGraphThatHasBeenReadAheadGivesItsTurnUpWhenItHasEnded) {
  ReadAhead s;
  s.graph(6);  // 12 launches in two requests, of 120 us each
  EXPECT_EQ(s.longest(), us(2 * 120));
}

TEST(TimeSlices, OneLaunchMoreThanIsReadAheadKeepsTheTurnUntilTheFirstRequestsEnd) {
  ReadAhead s;
  s.graph(13);
  EXPECT_EQ(s.longest(), us(500));
}

TEST(TimeSlices, AGraphWithACopyIsNotReadAhead) {
  ReadAhead s;
  s.graph(6, true);
  EXPECT_EQ(s.longest(), us(500));
}

TEST(TimeSlices, ClientsOfOneProcessShareAContext) {
  Sliced s;
  s.one_kernel("a", kernel(1, 256, us(300))).process = "p";
  s.one_kernel("b", kernel(1, 256, us(300))).process = "p";
  const Ran ran = s.run();
  EXPECT_THAT(ran.turns, IsEmpty());
  EXPECT_EQ(most_at_once(ran.kernels), 2u);
}

TEST(TimeSlices, NoTimePassesOnAnIdleGpu) {
  Sliced s;
  s.one_kernel("a", kernel(1, 256, us(1)));
  s.one_kernel("b", kernel(1, 256, us(1)));
  Timeline nobody;
  SimBackend backend(s.trace, s.gpu, {{}, corun::Contexts::per_process}, nobody, {});
  std::vector<Notice> notices;
  backend.wait(kNever, notices);
  EXPECT_THAT(notices, IsEmpty());
  EXPECT_EQ(backend.now(), us(0));
}

}  // namespace
}  // namespace corun::sim
