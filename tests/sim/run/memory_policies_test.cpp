// Device memory under the policies for it: who waits for whom (memory-wait), and what moves to the host and back (flexgpu).
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/watched_memory.h"

namespace corun::sim {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// ---- memory-wait ------------------------------------------------------------------------------------------

/// Each client holds some and then asks for more.
Trace hold_and_ask(const std::vector<std::uint64_t>& holds, const std::vector<std::uint64_t>& asks) {
  TraceBuilder b;
  const KernelId k = b.kernel(kernel(4, 256, us(50)));
  for (std::size_t i = 0; i < holds.size(); ++i)
    b.client("m" + std::to_string(i + 1),
             b.program({alloc(0, holds[i]), launch(k), sync(), alloc(1, asks[i]), launch(k)}));
  return b.trace;
}

TEST(MemoryWait, ADeadlockNamesWhoHoldsAndWhoWaitsForHowMuch) {
  const Ran ran =
      run_trace(hold_and_ask({361, 136, 188, 388}, {336, 309, 351, 251}), gpu_with(1200), "memory-wait");
  EXPECT_EQ(
      ran.outcome.deadlock,
      "m1 holds 361 bytes and waits for 336 bytes; m2 holds 136 bytes and waits for 309 bytes; m3 holds 188 "
      "bytes and waits for 351 bytes; m4 holds 388 bytes and waits for 251 bytes; 127 bytes of 1200 bytes "
      "are "
      "free; each waits for what the next holds: m1 -> m2 -> m3 -> m4 -> m1");
  EXPECT_THAT(ran.outcome.failed, Each(HasSubstr("deadlock")));
  EXPECT_EQ(ran.outcome.stuck, "");
}

TEST(MemoryWait, ThereIsNoDeadlockIfOneFitsToTheLastByte) {
  // m4 needs 251 of the 250 or 251 left.
  const auto run = [](std::uint64_t capacity) {
    return run_trace(hold_and_ask({361, 136, 188, 388}, {336, 309, 351, 251}), gpu_with(capacity),
                     "memory-wait");
  };
  const std::uint64_t held = 361 + 136 + 188 + 388;
  EXPECT_NE(run(held + 250).outcome.deadlock, "");
  const Ran ran = run(held + 251);
  EXPECT_EQ(ran.outcome.deadlock, "");
  EXPECT_THAT(ran.outcome.failed, Each(""));
  EXPECT_EQ(ran.outcome.memory_peak, held + 251);
}

TEST(MemoryWait, ADeadlockIsSeenAlsoWhereTheRunHasALength) {
  Trace trace = hold_and_ask({600, 400}, {1, 1});
  trace.run.duration = ms(1);
  EXPECT_THAT(run_trace(trace, gpu_with(1000), "memory-wait").outcome.deadlock, HasSubstr("m1 -> m2 -> m1"));
}

TEST(MemoryWait, WhoeverWaitsForWhatIsHeldForGoodIsNamedWithTheHolder) {
  TraceBuilder b;
  const KernelId k = b.kernel(kernel(4, 256, us(50)));
  b.client("model", b.program({launch(k)})).memory_bytes = 700;
  b.client("late", b.program({alloc(0, 400), launch(k)}), Once{us(10)});
  const Ran ran = run_trace(b.trace, gpu_with(1000), "memory-wait");
  EXPECT_THAT(ran.outcome.deadlock,
              AllOf(HasSubstr("model holds 700 bytes; late holds nothing and waits for 400 bytes"),
                    Not(HasSubstr("->"))));
  EXPECT_EQ(ran.outcome.failed[0], "");
}

TEST(MemoryWait, WhatAClientCanNeverHaveFailsAtOnce) {
  const Ran ran = run_trace(hold_and_ask({600, 100}, {401, 100}), gpu_with(1000), "memory-wait");
  EXPECT_THAT(ran.outcome.failed[0], HasSubstr("out of memory: it asks for 401 bytes"));
  EXPECT_EQ(ran.outcome.failed[1], "");
}

TEST(MemoryWait, FifoLetsNoneThatFitsPassAnEarlierOne) {
  for (const bool fifo : {false, true}) {
    TraceBuilder b;
    const KernelId k = b.kernel(kernel(4, 256, us(50)));
    b.client("holds", b.program({alloc(0, 600), launch(k)}));
    b.client("large", b.program({alloc(0, 500), launch(k)}), Once{us(1)});
    b.client("small", b.program({alloc(0, 100), launch(k)}), Once{us(2)});
    const Ran ran = run_trace(b.trace, gpu_with(1000), fifo ? "memory-wait:order=fifo" : "memory-wait");
    EXPECT_EQ(ran.only(ClientId{2}).ready, fifo ? ran.only(ClientId{0}).finished : us(2));
  }
}

// ---- flexgpu ----------------------------------------------------------------------------------------------

TEST(FlexGpu, GoesOnWhereWaitingForMemoryDeadlocks) {
  const Trace trace = hold_and_ask({361, 136, 188, 388}, {336, 309, 351, 251});
  const Ran ran = run_trace(trace, gpu_with(1200), "flexgpu");
  EXPECT_EQ(ran.outcome.deadlock, "");
  EXPECT_THAT(ran.outcome.failed, Each(""));
  EXPECT_GT(ran.outcome.checkpoints, 0u);
  EXPECT_LE(ran.outcome.memory_peak, 1200u);
}

TEST(FlexGpu, EveryMoveIsOnTheTimelineWhereItsEngineIsFree) {
  const Trace trace = hold_and_ask({361, 136, 188, 388}, {336, 309, 351, 251});
  const Ran ran = run_trace(trace, gpu_with(1200), "flexgpu");
  std::uint64_t bytes = 0, out = 0;
  std::map<std::pair<std::uint32_t, BufferId>, bool> away;
  std::map<std::uint32_t, Time> free_at;
  for (const MoveRecord& m : ran.moves) {
    bytes += m.bytes, out += m.to_host;
    bool& is_away = away[{m.client.value, m.buffer}];
    EXPECT_NE(is_away, m.to_host) << "buffer " << m.buffer.value << " moved the same way twice";
    is_away = m.to_host;
    EXPECT_GE(m.started, free_at[m.engine]);
    EXPECT_GT(m.finished, m.started);
    free_at[m.engine] = m.finished;
  }
  EXPECT_EQ(bytes, ran.outcome.moved_bytes);
  EXPECT_EQ(out, ran.outcome.checkpoints);
  EXPECT_GT(ran.moves.size(), out);
}

TEST(FlexGpu, FailsOnlyWhatOneOperationCannotHave) {
  TraceBuilder b;
  const KernelId k = b.kernel(kernel(4, 256, us(50)));
  b.client("fits", b.program({alloc(0, 600), alloc(1, 400), launch(k)}));
  b.client("apart", b.program({alloc(0, 600), alloc(1, 600), uses(launch(k), {0}), uses(launch(k), {1})}));
  b.client("fails", b.program({alloc(0, 600), alloc(1, 401), launch(k)}));
  const Ran ran = run_trace(b.trace, gpu_with(1000), "flexgpu");
  EXPECT_EQ(ran.outcome.failed[0], "");
  EXPECT_EQ(ran.outcome.failed[1], "");
  EXPECT_EQ(ran.outcome.failed[2],
            "out of memory: one operation uses 1001 bytes, and the GPU has 1000 bytes");
}

/// "holds" has 600,000 idle bytes (60 us to move) and uses them again at 1 ms; "runs" a kernel that takes
/// `longest` from 100 us on; "asks" for 600,000 of a million at 110 us.
Trace idle_contents(Time longest) {
  TraceBuilder b;
  const KernelId k = b.kernel(kernel(4, 256, us(10)));
  const KernelId other = b.kernel(kernel(4, 256, longest));
  b.client("holds", b.program({alloc(0, 600'000), launch(k), host_gap(launch(k), ms(1))}));
  b.client("runs", b.program({launch(other)}), Once{us(100)});
  b.client("asks", b.program({alloc(0, 600'000), launch(k)}), Once{us(110)});
  return b.trace;
}

TEST(FlexGpu, MovesContentsOnlyIfThatIsShorterThanTheShortestRunningKernel) {
  for (const Time longest : {us(60), us(60) + ps(1)}) {
    const WatchedRun ran = watch(idle_contents(longest), gpu_with(1'000'000), "flexgpu");
    ASSERT_GE(ran.ordered.size(), 2u);
    EXPECT_TRUE(ran.ordered[0].out);
    if (longest == us(60))
      EXPECT_EQ(ran.ordered[0].at, ran.only(ClientId{1}).finished);
    else
      EXPECT_EQ(ran.ordered[0].at, us(110));
    // Back before the owner's next launch.
    EXPECT_FALSE(ran.ordered[1].out);
    EXPECT_EQ(ran.ordered[1].buffer, ran.ordered[0].buffer);
    EXPECT_GE(ran.of(ClientId{0})[1].started, ran.ordered[1].at + us(60));
    EXPECT_EQ(ran.outcome.moved_bytes, 1'200'000u + 600'000u * (ran.ordered.size() == 3));
  }
}

TEST(FlexGpu, ChoosesTheLeastFrequentlyUsedContentsAndNoMoreThanNeeded) {
  TraceBuilder b;
  const KernelId k = b.kernel(kernel(4, 256, us(10)));
  std::vector<Op> ops{alloc(0, 300), alloc(1, 300), alloc(2, 300)};
  for (const std::uint32_t buffer : {0u, 1u, 2u, 0u, 2u, 0u, 2u, 2u})
    ops.push_back(uses(launch(k), {buffer}));
  ops.push_back(host_gap(uses(launch(k), {0, 1, 2}), ms(1)));
  b.client("holds", b.program(ops));
  b.client("asks", b.program({alloc(0, 500), launch(k)}), Once{us(500)});
  const WatchedRun ran = watch(b.trace, gpu_with(1000), "flexgpu");
  // Used 3, 1 and 4 times: buffer 1 first, and 100 + 300 free bytes are not 500, so buffer 0 too.
  std::vector<std::uint32_t> out;
  for (const Watched::Move& m : ran.ordered)
    if (m.out && m.at == us(500)) out.push_back(m.buffer.value);
  EXPECT_THAT(out, ElementsAre(1, 0));
}

TEST(FlexGpu, MovesNothingIfThatWouldNotSuffice) {
  TraceBuilder b;
  const KernelId k = b.kernel(kernel(4, 256, us(10)));
  const KernelId busy = b.kernel(kernel(4, 256, us(500)));
  b.client("runs", b.program({alloc(0, 500'000), launch(busy)}));
  b.client("holds", b.program({alloc(0, 100'000), launch(k), host_gap(launch(k), ms(2))}));
  b.client("asks", b.program({alloc(0, 600'000), launch(k)}), Once{us(100)});
  const WatchedRun ran = watch(b.trace, gpu_with(1'000'000), "flexgpu");
  // 400,000 are free and 100,000 idle; the rest is in use until "runs" ends.
  for (const Watched::Move& m : ran.ordered) EXPECT_GE(m.at, ran.only(ClientId{0}).finished);
  EXPECT_EQ(ran.only(ClientId{2}).submitted, ran.only(ClientId{0}).finished);
}

TEST(FlexGpu, KernelsJoinUpToFullOccupancy) {
  for (const double percent : {50.0, 50.1}) {
    TraceBuilder b;
    Kernel k = kernel(4, 256, us(50));
    k.counters.warps_active_pct = percent;
    b.one_kernel("a", k);
    b.one_kernel("b", k);
    const Ran ran = run_trace(b.trace, gpu_with(1000), "flexgpu");
    EXPECT_EQ(most_at_once(ran.kernels), percent == 50 ? 2u : 1u);
  }
}

TEST(FlexGpu, WithoutACounterOccupancyIsWhatTheBlocksFill) {
  // An SM holds 8 of these blocks: 16 fill half of 4 SMs, 17 a little more.
  for (const std::uint32_t blocks : {16u, 17u}) {
    TraceBuilder b;
    b.one_kernel("a", kernel(blocks, 256, us(50)));
    b.one_kernel("b", kernel(16, 256, us(50)));
    EXPECT_EQ(most_at_once(run_trace(b.trace, gpu_with(1000), "flexgpu").kernels), blocks == 16 ? 2u : 1u);
  }
}

TEST(FlexGpu, ABadPairDoesNotRunTogether) {
  TraceBuilder b;
  b.one_kernel("a", kernel(4, 256, us(50)));
  b.one_kernel("b", kernel(4, 256, us(50)));
  b.one_kernel("c", kernel(4, 256, us(50)));
  const Ran ran = run_trace(b.trace, gpu_with(1000), "flexgpu:bad=kernel9+kernel0/kernel2+kernel0");
  EXPECT_EQ(ran.only(ClientId{1}).started, ran.only(ClientId{0}).started + ns(4));
  EXPECT_GE(ran.only(ClientId{2}).started, ran.only(ClientId{0}).finished);
}

TEST(FlexGpu, LaunchesOfOneStreamCountOnceAndAreQueuedBehindEachOther) {
  TraceBuilder b;
  Kernel k = kernel(4, 256, us(50));
  k.counters.warps_active_pct = 90;
  const KernelId id = b.kernel(k);
  b.client("a", b.program({launch(id), launch(id), launch(id)}));
  const Ran ran = run_trace(b.trace, slow_host_gpu(4), "flexgpu");
  for (const KernelRecord& r : ran.of(ClientId{0})) EXPECT_EQ(r.submitted, r.ready);
}

/// One that runs for long, and others that arrive often and fit beside it; `waits` gets a launch that fits beside neither.
template <class Waits>
Trace passed_by_others(Waits waits) {
  TraceBuilder b;
  Kernel most = kernel(4, 256, us(20)), some = kernel(4, 256, us(50));
  most.counters.warps_active_pct = 60;
  some.counters.warps_active_pct = 50;
  const KernelId k = b.kernel(some);
  b.client("runs", b.program({launch(k), launch(k), launch(k), launch(k), launch(k), launch(k)}));
  waits(b, most);
  b.client("passes", b.program({launch(k)}), Periodic{us(10), us(5)});
  b.trace.run.duration = us(500);
  return b.trace;
}

TEST(FlexGpu, WhoHasBeenPassedOftenEnoughLetsNoOtherPass) {
  for (const std::uint32_t patience : {0u, 1u, 3u}) {
    const Trace trace = passed_by_others([](TraceBuilder& b, const Kernel& most) { b.one_kernel("waits", most, us(1)); });
    const Ran ran = run_trace(trace, gpu_with(1000), "flexgpu:patience=" + std::to_string(patience));
    std::size_t passed = 0;
    for (const KernelRecord& r : ran.kernels)
      passed += r.client == ClientId{2} && r.submitted < ran.only(ClientId{1}).submitted;
    EXPECT_LE(passed, patience);
  }
}

TEST(FlexGpu, WhoLacksMemoryLetsOthersPassForSoManyTimesAsLongAsItsMoveTakes) {
  for (const double turn : {0.0, 0.5, 1.0, 2.0}) {
    const Trace trace = passed_by_others([](TraceBuilder& b, const Kernel& most) {
      b.client("waits", b.program({alloc(0, 600'000), uses(launch(b.kernel(most)), {0})}), Once{us(1)});
    });
    const Ran ran = run_trace(trace, gpu_with(1'000'000), fmt::format("flexgpu:patience=0,turn={}", turn));
    Time last{};
    for (const KernelRecord& r : ran.kernels)
      if (r.client == ClientId{2} && r.submitted < ran.only(ClientId{1}).submitted)
        last = std::max(last, r.submitted);
    const Time until =
        us(1) + ps(static_cast<std::int64_t>(turn * 120e6));  // 600 kB in and as much out take 120 us
    EXPECT_LT(last, turn == 0 ? us(5) : until) << turn;
    if (turn != 0) {
      EXPECT_GE(last, until - us(60)) << turn;
    }
  }
}

}  // namespace
}  // namespace corun::sim
