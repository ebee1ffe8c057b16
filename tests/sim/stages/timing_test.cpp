// When does each thing happen?  Every latency of the model by itself, to the picosecond, from the host's call
// to the host's knowledge of the end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policies/session/arrivals.h"
#include "sim/backend/sim_backend.h"
#include "tests/support/engine_rig.h"
#include "tests/support/run_trace.h"
#include "tests/support/stages.h"
#include "traces/model/error.h"

namespace corun::sim {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// One client, one request, these operations.
struct Scene : TraceBuilder {
  KernelId k = kernel(sim::kernel(1, 256, us(50)));
  Gpu gpu = slow_host_gpu(8);

  Ran run(std::vector<Op> ops, Issue issue = Issue::eager) {
    client("client", program(std::move(ops), issue));
    return run_trace(trace, gpu);
  }
};

// ---- dispatcher -------------------------------------------------------------------------------------------

TEST(Dispatch, BlocksLeaveOneIntervalApart) {
  EngineRig rig(small_gpu(2));
  const LaunchId launch = rig.accept(kernel(4, 128, us(1)));
  rig.run();
  std::vector<Time> starts;
  for (const BlockRecord& b : rig.blocks(launch)) starts.push_back(b.start);
  EXPECT_THAT(starts, ElementsAre(ns(0), ns(1), ns(2), ns(3)));
}

TEST(Dispatch, TheIntervalAlsoSeparatesKernels) {
  for (const Time late : {ps(-1), ps(0), ps(1)}) {
    EngineRig rig(small_gpu(2));
    rig.accept(kernel(3, 128, us(1)));
    const Time free = ns(3);  // the third block has left at 2 ns
    const LaunchId second = rig.accept(kernel(1, 128, us(1)), {.at = free + late});
    rig.run();
    EXPECT_EQ(rig.record(second).started, std::max(free, free + late));
  }
}

TEST(Dispatch, AFreedPlaceIsTakenAtThatInstantIfTheDispatcherRests) {
  EngineRig rig(small_gpu(1));
  const LaunchId launch = rig.accept(whole_sm_kernel(3, us(2)));
  rig.run();
  EXPECT_EQ(rig.blocks(launch)[2].start, us(4));
  EXPECT_EQ(rig.record(launch).finished, us(6));
}

// ---- host -------------------------------------------------------------------------------------------------

TEST(Host, AKernelReachesTheGpuOneLatencyAfterTheCall) {
  Scene s;
  const Ran ran = s.run({launch(s.k)});
  const KernelRecord& k = ran.only(kFirst);
  EXPECT_EQ(k.ready, us(0));
  EXPECT_EQ(k.submitted, us(0));
  EXPECT_EQ(k.queued, us(5));
  EXPECT_EQ(k.slotted, us(5));
  EXPECT_EQ(k.started, us(5));
  EXPECT_EQ(k.last_block, us(5));
  EXPECT_EQ(k.finished, us(55));
}

TEST(Host, KnowsOfTheEndOneNoticeLater) {
  Scene s;
  const Ran ran = s.run({launch(s.k)});
  ASSERT_EQ(ran.requests.size(), 1u);
  EXPECT_EQ(ran.requests[0].finished, us(55) + ns(700));
  EXPECT_EQ(ran.requests[0].work_done, us(50));
}

TEST(Host, CallsTakeTheirTimeOneAfterTheOther) {
  Scene s;
  const Ran ran = s.run({launch(s.k, 0), launch(s.k, 1), launch(s.k, 2)});
  std::vector<Time> ready;
  for (const KernelRecord& k : ran.of(kFirst)) ready.push_back(k.ready);
  EXPECT_THAT(ready, ElementsAre(us(0), us(3), us(6)));
}

TEST(Host, GapsCountFromThePreviousCallsReturn) {
  Scene s;
  const Ran ran = s.run({host_gap(launch(s.k, 0), us(2)), host_gap(launch(s.k, 1), us(7))});
  std::vector<Time> ready;
  for (const KernelRecord& k : ran.of(kFirst)) ready.push_back(k.ready);
  EXPECT_THAT(ready, ElementsAre(us(2), us(12)));
}

TEST(Host, AKernelAlreadyQueuedStartsOneGapAfterItsPredecessor) {
  Scene s;
  const Ran ran = s.run({launch(s.k), launch(s.k)});
  EXPECT_EQ(ran.of(kFirst)[1].started, us(55) + us(1));
}

TEST(Host, AKernelCalledLateIsNotHeldUpByTheGap) {
  for (const Time late : {ps(-1), ps(0), ps(1), us(100)}) {
    Scene s;
    // The second call is at 3 us + its gap and needs 5 us to the GPU; the stream is free again at 56 us.
    const Ran ran = s.run({launch(s.k), host_gap(launch(s.k), us(56 - 5 - 3) + late)});
    EXPECT_EQ(ran.of(kFirst)[1].queued, std::max(us(56), us(56) + late));
  }
}

TEST(Host, WithoutAnEventStreamsDoNotWaitForEachOther) {
  Scene s;
  const Ran ran = s.run({launch(s.k, 0), launch(s.k, 1)});
  EXPECT_EQ(ran.of(kFirst)[1].started, us(8));
}

TEST(Host, AnEventHoldsAnotherStreamUntilOneGapAfterTheEnd) {
  Scene s;
  const Ran ran = s.run({launch(s.k, 0), after(launch(s.k, 1), {0})});
  EXPECT_EQ(ran.of(kFirst)[1].started, us(56));
}

TEST(Host, OfSeveralEventsTheLastCounts) {
  Scene s;
  const KernelId longer = s.kernel(sim::kernel(1, 256, us(80)));
  const Ran ran = s.run({launch(longer, 0), launch(s.k, 1), after(launch(s.k, 2), {0, 1})});
  EXPECT_EQ(ran.of(kFirst)[2].started, us(5 + 80 + 1));
}

TEST(Host, AnEventOfACopyHoldsAKernel) {
  Scene s;
  const Ran ran = s.run({copy(CopyDirection::host_to_device, 1'000'000, 0), after(launch(s.k, 1), {0})});
  EXPECT_EQ(ran.only(kFirst).started, us(5 + 100 + 1));
}

TEST(Host, SyncWaitsForTheNoticeOfTheLastEnd) {
  Scene s;
  const Ran ran = s.run({launch(s.k, 0), launch(s.k, 1), sync(), host_gap(launch(s.k, 0), us(2))});
  const auto kernels = ran.of(kFirst);
  EXPECT_EQ(kernels[1].finished, us(58));
  EXPECT_EQ(kernels[2].ready, us(58) + ns(700) + us(2));
}

TEST(Host, SyncOfNothingCostsNothing) {
  Scene s;
  const Ran ran = s.run({sync(), launch(s.k)});
  EXPECT_EQ(ran.only(kFirst).ready, us(0));
}

// ---- graphs -----------------------------------------------------------------------------------------------

TEST(GraphIssue, HandsAllOperationsOverAtOnceWithoutHostGaps) {
  Scene s;
  const Ran ran = s.run({launch(s.k, 0), host_gap(launch(s.k, 1), us(9)), launch(s.k, 0)}, Issue::graph);
  for (const KernelRecord& k : ran.of(kFirst)) EXPECT_EQ(k.ready, us(0));
}

TEST(GraphIssue, ComesBehindWhatTheHostDoesBeforeIt) {
  Scene s;
  const Ran ran = s.run({host_gap(launch(s.k), us(9)), launch(s.k)}, Issue::graph);
  for (const KernelRecord& k : ran.of(kFirst)) EXPECT_EQ(k.ready, us(9));
  Scene chosen;
  chosen.client("client", chosen.program({host_gap(launch(chosen.k), us(9)), launch(chosen.k)})).issue = Issue::graph;
  EXPECT_EQ(run_trace(chosen.trace, chosen.gpu).of(kFirst)[0].ready, us(0)) << "under a client's own issue gaps do not apply";
  Scene both;
  both.client("client", both.program({host_gap(launch(both.k), us(9)), launch(both.k)}, Issue::graph)).issue = Issue::graph;
  EXPECT_EQ(run_trace(both.trace, both.gpu).of(kFirst)[0].ready, us(9)) << "of a program that is a graph itself they do";
}

TEST(GraphIssue, WithMemoryItsFirstRequestDoesTheSame) {
  Scene s;
  s.client("client", s.program({host_gap(launch(s.k), us(9))}, Issue::graph)).memory_bytes = 1 << 20;
  EXPECT_EQ(run_trace(s.trace, s.gpu).of(kFirst)[0].ready, us(9));
}

TEST(GraphIssue, HasItsOwnLatencyAndGap) {
  Scene s;
  const Ran ran = s.run({launch(s.k), launch(s.k)}, Issue::graph);
  EXPECT_EQ(ran.of(kFirst)[0].started, us(6));
  EXPECT_EQ(ran.of(kFirst)[1].started, us(56) + ns(600));
}

TEST(GraphIssue, TheClientsChoiceOverridesTheProgramsOwn) {
  Scene s;
  s.client("client", s.program({launch(s.k), launch(s.k, 1)}, Issue::graph)).issue = Issue::eager;
  const Ran ran = run_trace(s.trace, s.gpu);
  EXPECT_EQ(ran.of(kFirst)[1].ready, us(3));
}

TEST(GraphIssue, OfSomeOperationsIsOneCallAmongOthers) {
  Scene s;
  s.gpu.graph_launch_call = us(2);
  const Ran ran = s.run({launch(s.k), host_gap(in_graph(launch(s.k), 1), us(1)), host_gap(in_graph(launch(s.k), 1), us(9)),
                         in_graph(launch(s.k), 2), launch(s.k)});
  std::vector<Time> ready, gaps;
  for (const KernelRecord& k : ran.of(kFirst)) ready.push_back(k.ready);
  EXPECT_THAT(ready, ElementsAre(us(0), us(3 + 1), us(3 + 1), us(4 + 2), us(6 + 2))) << "gaps are between calls";
  const auto kernels = ran.of(kFirst);
  for (std::size_t i = 1; i < kernels.size(); ++i) gaps.push_back(kernels[i].started - kernels[i - 1].finished);
  EXPECT_THAT(gaps, ElementsAre(us(1), ns(600), us(1), us(1))) << "within a graph its own";
}

TEST(GraphIssue, OfSomeOperationsEndsAtAHostCall) {
  Scene s;
  s.gpu.graph_launch_call = us(2);
  const Ran ran = s.run({in_graph(launch(s.k), 1), sync(), in_graph(launch(s.k), 1)});
  EXPECT_EQ(ran.of(kFirst)[0].started, us(6)) << "it comes as a graph does";
  EXPECT_EQ(ran.of(kFirst)[1].ready, us(56) + ns(700));
}

TEST(GraphIssue, OfSomeOperationsIsOverriddenByTheClientsChoice) {
  Scene s;
  s.client("client", s.program({in_graph(launch(s.k), 1), in_graph(launch(s.k, 1), 1)})).issue = Issue::eager;
  EXPECT_EQ(run_trace(s.trace, s.gpu).of(kFirst)[1].ready, us(3));
}

TEST(GraphIssue, AKernelStartsLaterWhereAnotherStreamLaunchedSinceTheOneBeforeIt) {
  Scene s;
  s.gpu.contention.graph_launch_after_others = ns(300);
  s.client("graph", s.program({launch(s.k), launch(s.k), launch(s.k), launch(s.k)}, Issue::graph));
  s.client("other", s.program({launch(s.k)}), Once{us(70)});
  const Ran ran = run_trace(s.trace, s.gpu);
  ASSERT_EQ(ran.only(ClientId{1}).started, us(75)) << "beside the second and third kernel of the graph";
  const auto kernels = ran.of(kFirst);
  std::vector<Time> gaps;
  for (std::size_t i = 1; i < kernels.size(); ++i) gaps.push_back(kernels[i].started - kernels[i - 1].finished);
  EXPECT_THAT(gaps, ElementsAre(ns(600), ns(600 + 300), ns(600))) << "also beside one that came before";
}

TEST(GraphIssue, NobodyWaitsInAChannelBehindItsBranches) {
  for (const bool graph : {true, false}) {
    Scene s;
    s.gpu.host_channels = 2;
    std::vector<Op> ops = {launch(s.k, 0), after(launch(s.k, 1), {0}), after(launch(s.k, 2), {0})};
    if (graph)
      for (Op& op : ops) op = in_graph(op, 1);
    s.client("branches", s.program(ops));
    s.client("other", s.program({launch(s.k)}), Once{us(20)});
    const KernelRecord other = run_trace(s.trace, s.gpu).only(ClientId{1});
    if (graph)
      EXPECT_EQ(other.started, us(20) + us(5));
    else
      EXPECT_GE(other.started, us(55) + us(1)) << "behind streams it does: each has one of two channels";
  }
}

TEST(GraphIssue, ACopyBehindAKernelOfAnotherStreamIsNotLost) {
  Scene s;
  const Ran ran =
      s.run({launch(s.k, 0), after(copy(CopyDirection::device_to_host, 1'000'000, 1), {0}), launch(s.k, 1)},
            Issue::graph);
  ASSERT_EQ(ran.outcome.stuck, "");
  ASSERT_EQ(ran.copies.size(), 1u);
  EXPECT_EQ(ran.copies[0].started, us(56) + ns(600));
  ASSERT_EQ(ran.requests.size(), 1u);
  EXPECT_NE(ran.requests[0].finished, kNever);
}

// ---- copies -----------------------------------------------------------------------------------------------

std::vector<std::pair<Time, Time>> spans(const Ran& ran) {
  std::vector<CopyRecord> copies = ran.copies;
  std::sort(copies.begin(), copies.end(), [](const auto& a, const auto& b) { return a.op < b.op; });
  std::vector<std::pair<Time, Time>> of;
  for (const CopyRecord& c : copies) of.emplace_back(c.started, c.finished);
  return of;
}

constexpr CopyDirection kUp = CopyDirection::host_to_device, kDown = CopyDirection::device_to_host,
                        kInside = CopyDirection::device_to_device;
constexpr std::uint64_t kMegabyte =
    1'000'000;  // 100 us at 10 GB/s; inside the GPU 2 us: read and written at 1 TB/s

TEST(Copies, LastAsLongAsTheirBytesNeed) {
  Scene s;
  const Ran ran = s.run({copy(kUp, kMegabyte)});
  EXPECT_THAT(spans(ran), ElementsAre(std::pair(us(5), us(105))));
  EXPECT_EQ(ran.requests[0].finished, us(105) + ns(700));
}

TEST(Copies, OfOneDirectionGoOneAtATimeFirstInFirstOut) {
  Scene s;
  const Ran ran = s.run({copy(kUp, kMegabyte, 0), copy(kUp, 2 * kMegabyte, 1), copy(kUp, kMegabyte, 2)});
  EXPECT_THAT(spans(ran), ElementsAre(std::pair(us(5), us(105)), std::pair(us(105), us(305)),
                                      std::pair(us(305), us(405))));
}

TEST(Copies, OfDifferentDirectionsOverlap) {
  Scene s;
  const Ran ran = s.run({copy(kUp, kMegabyte, 0), copy(kDown, kMegabyte, 1), copy(kInside, kMegabyte, 2)});
  EXPECT_THAT(spans(ran),
              ElementsAre(std::pair(us(5), us(105)), std::pair(us(8), us(108)), std::pair(us(11), us(13))));
}

/// Smaller ones go another way, which takes longer.
TEST(Copies, WithinTheDeviceAreAKernelOfTheDriverFromSoManyBytesOn) {
  const auto lasts = [](std::uint64_t bytes) {
    Scene s;
    s.gpu.device_copy = us(3), s.gpu.copy_kernel = us(1), s.gpu.copy_kernel_bytes = kMegabyte;
    const auto [from, to] = spans(s.run({copy(kInside, bytes)})).front();
    return to - from;
  };
  EXPECT_EQ(lasts(kMegabyte), us(1) + us(2));
  EXPECT_EQ(lasts(kMegabyte - 500), us(3) + us(2) - ns(1));
}

TEST(Copies, ShareTheEngineIfThereIsOnlyOne) {
  Scene s;
  s.gpu.copy_engines = 1;
  const Ran ran = s.run({copy(kUp, kMegabyte, 0), copy(kDown, kMegabyte, 1)});
  EXPECT_THAT(spans(ran), ElementsAre(std::pair(us(5), us(105)), std::pair(us(105), us(205))));
}

TEST(Copies, OverlapWithKernelsOfOtherStreams) {
  Scene s;
  const Ran ran = s.run({copy(kUp, kMegabyte, 0), launch(s.k, 1)});
  EXPECT_EQ(ran.only(kFirst).started, us(8));
}

TEST(Copies, KeepTheirPlaceInTheStream) {
  Scene s;
  const Ran ran = s.run({launch(s.k), copy(kDown, kMegabyte), launch(s.k)});
  EXPECT_THAT(spans(ran), ElementsAre(std::pair(us(56), us(156))));
  EXPECT_EQ(ran.of(kFirst)[1].started, us(157));
}

// ---- hardware channels ------------------------------------------------------------------------------------

/// `streams` streams of two long kernels each, called stream by stream; which streams start before any kernel
/// ends.
std::vector<std::uint32_t> streams_at_once(std::uint32_t streams) {
  TraceBuilder b;
  const KernelId k = b.kernel(kernel(1, 32, ms(1)));
  std::vector<Op> ops;
  for (std::uint32_t i = 0; i < streams; ++i) {
    ops.push_back(launch(k, i));
    ops.push_back(launch(k, i));
  }
  b.client("client", b.program(ops));
  Gpu gpu = slow_host_gpu(4);
  gpu.task_slots = 64;
  const Ran ran = run_trace(b.trace, gpu);
  std::vector<std::uint32_t> early;
  for (const KernelRecord& kernel : ran.of(kFirst))
    if (kernel.started < ms(1)) early.push_back(kernel.stream.value);
  return early;
}

TEST(Channels, EightStreamsOnEightChannelsAreIndependent) {
  EXPECT_THAT(streams_at_once(8), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

TEST(Channels, TheNinthStreamFalselyWaitsForAnother) {
  EXPECT_THAT(streams_at_once(9), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

TEST(Channels, AFullOneRefusesAndTheLaunchIsMadeLater) {
  Scene s;
  s.gpu.channel_depth = 2;
  const Ran ran = s.run(std::vector<Op>(6, launch(s.k)));
  EXPECT_GT(ran.outcome.refusals, 0u);
  const auto kernels = ran.of(kFirst);
  ASSERT_EQ(kernels.size(), 6u);
  for (std::size_t i = 1; i < 6; ++i) EXPECT_GE(kernels[i].started, kernels[i - 1].finished + us(1));
  EXPECT_GT(kernels[5].submitted, kernels[5].ready);
}

// ---- time slices ------------------------------------------------------------------------------------------

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

// ---- arrivals ---------------------------------------------------------------------------------------------

std::vector<Time> first_arrivals(const Client& client, std::uint64_t seed, std::size_t n) {
  ArrivalProcess process(client, seed);
  std::vector<Time> times;
  for (; times.size() < n; process.advance()) times.push_back(process.next());
  return times;
}

Client client_with(Arrivals arrivals, const std::string& name = "client") {
  Client c;
  c.name = name;
  c.arrivals = std::move(arrivals);
  return c;
}

TEST(Arrivals, PeriodicOnesStartAtTheOffset) {
  EXPECT_THAT(first_arrivals(client_with(Periodic{us(10), us(3)}), 1, 4),
              ElementsAre(us(3), us(13), us(23), us(33)));
}

TEST(Arrivals, ExplicitOnesEndWithTheList) {
  EXPECT_THAT(first_arrivals(client_with(ExplicitTimes{{us(1), us(1), us(9)}}), 1, 4),
              ElementsAre(us(1), us(1), us(9), kNever));
}

TEST(Arrivals, OnceIsOnce) {
  EXPECT_THAT(first_arrivals(client_with(Once{us(4)}), 1, 2), ElementsAre(us(4), kNever));
}

TEST(Arrivals, PoissonOnesDependOnTheSeedAndTheNameOnly) {
  const auto times = [](std::uint64_t own_seed, std::uint64_t run_seed, const char* name) {
    return first_arrivals(client_with(Poisson{1000, own_seed}, name), run_seed, 50);
  };
  EXPECT_EQ(times(1, 1, "a"), times(1, 1, "a"));
  EXPECT_NE(times(1, 1, "a"), times(1, 2, "a"));
  EXPECT_NE(times(1, 1, "a"), times(2, 1, "a"));
  EXPECT_NE(times(1, 1, "a"), times(1, 1, "b"));
}

TEST(Arrivals, PoissonOnesKeepTheirRate) {
  const auto times = first_arrivals(client_with(Poisson{1000, 1}), 1, 20'000);
  EXPECT_NEAR(to_seconds(times.back()) / 20'000, 1e-3, 3e-5);  // 4 standard deviations
  double squares = 0;
  for (std::size_t i = 1; i < times.size(); ++i) squares += std::pow(to_seconds(times[i] - times[i - 1]), 2);
  EXPECT_NEAR(squares / 20'000, 2e-6, 2e-7);
}

/// Arrival times of a client's requests, and what became of them, in a run.
std::vector<RequestRecord> requests_of(const Ran& ran, ClientId client) {
  std::vector<RequestRecord> mine;
  for (const RequestRecord& r : ran.requests)
    if (r.client == client) mine.push_back(r);
  std::sort(mine.begin(), mine.end(), [](const auto& a, const auto& b) { return a.request < b.request; });
  return mine;
}
std::vector<Time> arrivals_of(const Ran& ran, ClientId client) {
  std::vector<Time> times;
  for (const RequestRecord& r : requests_of(ran, client)) times.push_back(r.arrival);
  return times;
}

TEST(Arrivals, PoissonOnesAreTheSameWhoeverRunsBeside) {
  const auto arrivals = [](bool with_rival) {
    Scene s;
    const ProgramId p = s.program({launch(s.k)});
    if (with_rival) s.client("rival", p, Poisson{30'000, 1});
    s.client("client", p, Poisson{5'000, 1});
    s.trace.run.duration = ms(5);
    return arrivals_of(run_trace(s.trace, s.gpu), with_rival ? kSecond : kFirst);
  };
  EXPECT_GT(arrivals(false).size(), 10u);
  EXPECT_EQ(arrivals(false), arrivals(true));
}

TEST(Arrivals, AClosedLoopThinksBeforeItsNextRequest) {
  Scene s;
  s.client("client", s.program({launch(s.k)}), ClosedLoop{us(7)});
  s.trace.run.duration = us(130);
  const Ran ran = run_trace(s.trace, s.gpu);
  const auto requests = requests_of(ran, kFirst);
  ASSERT_GE(requests.size(), 3u);
  const Time first_end = us(55) + ns(700);
  EXPECT_EQ(requests[0].arrival, us(0));
  EXPECT_EQ(requests[0].finished, first_end);
  EXPECT_EQ(requests[1].arrival, first_end + us(7));
  EXPECT_EQ(requests[1].started, first_end + us(7));
  EXPECT_EQ(requests[2].finished, kNever);  // the run ends
}

TEST(Arrivals, ASecondRequestInFlightRunsBehindTheFirstWithoutAPause) {
  Scene s;
  s.client("client", s.program({launch(s.k), sync()}, Issue::graph), ClosedLoop{Time{}, 2});
  s.trace.run.duration = us(200);
  const Ran ran = run_trace(s.trace, s.gpu);
  const auto requests = requests_of(ran, kFirst);
  const auto kernels = ran.of(kFirst);
  ASSERT_GE(requests.size(), 4u);
  ASSERT_GE(kernels.size(), 3u);
  EXPECT_EQ(requests[0].started, us(0));
  EXPECT_EQ(requests[1].started, us(0));
  EXPECT_EQ(requests[2].started, requests[0].finished);
  for (std::size_t i = 1; i < 3; ++i)
    EXPECT_EQ(kernels[i].started, kernels[i - 1].finished + s.gpu.graph_gap) << i;
}

TEST(Graphs, HaveAGapOfTheirOwnUnderMpsAndInTurns) {
  Gpu gpu = slow_host_gpu(2);
  gpu.graph_gap = ns(600), gpu.mps_graph_gap = ns(900), gpu.turn_graph_gap = ns(100);
  TraceBuilder b;
  const KernelId k = b.kernel(whole_sm_kernel(1, us(5)));
  b.client("graph", b.program({launch(k), launch(k)}, Issue::graph));
  b.one_kernel("other", whole_sm_kernel(1, us(5)), us(80));
  for (const auto& [policy, gap] : {std::pair("fcfs", ns(600)), {"mps", ns(900)}, {"timeslice", ns(100)}}) {
    const auto kernels = run_trace(b.trace, gpu, policy).of(kFirst);
    ASSERT_EQ(kernels.size(), 2u);
    EXPECT_EQ(kernels[1].started, kernels[0].finished + gap) << policy;
  }
}

TEST(Arrivals, SeveralInFlightNeedOneStream) {
  Scene s;
  s.client("client", s.program({launch(s.k, 0), launch(s.k, 1)}), ClosedLoop{Time{}, 2});
  s.trace.run.duration = us(200);
  EXPECT_THROW(run_trace(s.trace, s.gpu), InputError);
}

TEST(Arrivals, SeveralInFlightNeedAProgramThatDoesNotStopInItsMiddle) {
  Scene s;
  s.client("client", s.program({launch(s.k), sync(), launch(s.k)}), ClosedLoop{Time{}, 2});
  s.trace.run.duration = us(200);
  EXPECT_THROW(run_trace(s.trace, s.gpu), InputError);
}

TEST(Arrivals, ARequestStartsWhenThePreviousOneHasEnded) {
  Scene s;
  s.client("client", s.program({launch(s.k)}), ExplicitTimes{{us(0), us(10)}}).stale = Stale::queue;
  s.trace.run.duration = us(200);
  const auto requests = requests_of(run_trace(s.trace, s.gpu), kFirst);
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_EQ(requests[1].arrival, us(10));
  EXPECT_EQ(requests[1].started, us(55) + ns(700));
}

/// Requests every 20 us, each of which takes 55.7 us: served at 0, and then whatever waits at 55.7 and 111.4.
std::vector<RequestRecord> overrun(Stale stale) {
  Scene s;
  s.client("client", s.program({launch(s.k)}), Periodic{us(20), us(0)}).stale = stale;
  s.trace.run.duration = us(130);
  return requests_of(run_trace(s.trace, s.gpu), kFirst);
}

TEST(Stale, KeepNewestDropsWhatANewerRequestFindsWaiting) {
  std::vector<std::uint64_t> dropped, served;
  for (const RequestRecord& r : overrun(Stale::keep_newest)) {
    if (r.dropped)
      dropped.push_back(r.request);
    else if (r.finished != kNever)
      served.push_back(r.request);
  }
  EXPECT_THAT(served, ElementsAre(0, 2));  // at 55.7 us the one of 40 us waits
  EXPECT_THAT(dropped, ElementsAre(1, 3, 4 /* by that of 100 us; that one is served from 111.4 us on */));
}

TEST(Stale, QueueServesAllInOrder) {
  std::vector<std::uint64_t> served;
  Time previous{};
  for (const RequestRecord& r : overrun(Stale::queue)) {
    EXPECT_FALSE(r.dropped);
    if (r.finished == kNever) continue;
    served.push_back(r.request);
    EXPECT_GE(r.started, previous);
    previous = r.finished;
  }
  EXPECT_THAT(served, ElementsAre(0, 1));
}

TEST(Stale, ARequestThatArrivesAsThePreviousOneEndsReplacesTheWaitingOne) {
  const Time end = us(55) + ns(700);
  for (const Time late : {ps(-1), ps(0), ps(1)}) {
    Scene s;
    s.client("client", s.program({launch(s.k)}), ExplicitTimes{{us(0), us(10), end + late}});
    s.trace.run.duration = us(300);
    const auto requests = requests_of(run_trace(s.trace, s.gpu), kFirst);
    ASSERT_EQ(requests.size(), 3u);
    EXPECT_EQ(requests[1].dropped, late <= ps(0));
  }
}

}  // namespace
}  // namespace corun::sim
