// When does each thing happen?  Every latency of a launch and a copy by itself, to the picosecond, from the host's call
// to the host's knowledge of the end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/engine_rig.h"
#include "tests/support/run_trace.h"
#include "tests/support/stages.h"

namespace corun::sim {
namespace {

using testing::ElementsAre;

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

/// When the second of two short kernels of a stream or of a graph starts, beside a kernel that does `bytes` of DRAM.
Time second_start(const Contention& contention, Issue issue, double bytes) {
  Scene s;
  s.gpu.contention = contention;
  Kernel reads = sim::kernel(2, 256, us(400));
  reads.counters.dram_read_bytes = reads.counters.l2_bytes = bytes;
  s.client("load", s.program({launch(s.kernel(reads))}), Once{});
  s.client("chain", s.program({launch(s.k), launch(s.k)}, issue), Once{us(70)});
  return run_trace(s.trace, s.gpu).of(ClientId{1})[1].started;
}

TEST(Launches, WaitForTheirAccessesToAFullMemoryButNoLongerThanAnAccessDoes) {
  const double full = 4.6e12 * 400e-6;
  for (const Issue issue : {Issue::eager, Issue::graph}) {
    Contention c = small_gpu(2).contention;
    c.launch_memory_accesses = c.graph_launch_memory_accesses = 0;
    const Time none = second_start(c, issue, full);
    c.launch_memory_accesses = c.graph_launch_memory_accesses = 3;
    c.launch_access_most_wait = ns(20);
    EXPECT_EQ(second_start(c, issue, full) - none, 3 * ns(20));
    c.launch_access_most_wait = Time{};
    const Time three = second_start(c, issue, full) - none;
    EXPECT_GT(three, 3 * ns(20));
    c.launch_memory_accesses = c.graph_launch_memory_accesses = 6;
    EXPECT_NEAR(to_ns(second_start(c, issue, full) - none), 2 * to_ns(three), 0.01) << "one after the other";
  }
}

TEST(Launches, OfAStreamTakeLongerBesideWhoMovesBytesAtAll) {
  Contention c = small_gpu(2).contention;
  c.launch_memory_accesses = c.graph_launch_memory_accesses = 0;
  for (const double share : {0.03, 0.06, 0.5}) {
    const double bytes = share * 4.64e12 * 400e-6;
    c.launch_beside_memory = Time{};
    const Time stream = second_start(c, Issue::eager, bytes), graph = second_start(c, Issue::graph, bytes);
    c.launch_beside_memory = ns(800);
    EXPECT_EQ(second_start(c, Issue::eager, bytes) - stream, share < 0.05 ? Time{} : ns(800)) << share;
    EXPECT_EQ(second_start(c, Issue::graph, bytes), graph);
  }
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

TEST(DependentLaunches, StartWithoutAGapWhenTheirStreamsPreviousKernelHasEnded) {
  Gpu gpu = slow_host_gpu(2);
  gpu.stream_gap = us(1), gpu.graph_gap = ns(600);
  for (const Issue issue : {Issue::eager, Issue::graph}) {
    TraceBuilder b;
    const KernelId k = b.kernel(whole_sm_kernel(1, us(50)));
    Op dependent = launch(k);
    std::get<Launch>(dependent.what).dependent = true;
    b.client("one", b.program({launch(k), dependent, launch(k)}, issue));
    const auto kernels = run_trace(b.trace, gpu, "fcfs").of(kFirst);
    ASSERT_EQ(kernels.size(), 3u);
    EXPECT_EQ(kernels[1].started, kernels[0].finished);
    EXPECT_EQ(kernels[2].started, kernels[1].finished + (issue == Issue::graph ? ns(600) : us(1)));
  }
}

TEST(LaunchGaps, OfALaunchThatSaysItsOwnReplaceTheStreamsAndNotTheGraphs) {
  Gpu gpu = slow_host_gpu(2);
  gpu.stream_gap = us(1), gpu.graph_gap = ns(600);
  for (const Issue issue : {Issue::eager, Issue::graph}) {
    TraceBuilder b;
    const KernelId k = b.kernel(whole_sm_kernel(1, us(50)));
    Op later = launch(k);
    std::get<Launch>(later.what).gap = us(7);
    b.client("one", b.program({launch(k), later, launch(k)}, issue));
    const auto kernels = run_trace(b.trace, gpu, "fcfs").of(kFirst);
    ASSERT_EQ(kernels.size(), 3u);
    EXPECT_EQ(kernels[1].started, kernels[0].finished + (issue == Issue::graph ? ns(600) : us(7)));
    EXPECT_EQ(kernels[2].started, kernels[1].finished + (issue == Issue::graph ? ns(600) : us(1)));
  }
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

}  // namespace
}  // namespace corun::sim
