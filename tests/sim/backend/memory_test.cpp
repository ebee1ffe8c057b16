// Device memory: who gets it, who fails, who waits for whom, and what moves to the host and back.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "policies/api/registry.h"
#include "sim/backend/profile.h"
#include "sim/backend/sim_backend.h"
#include "tests/support/run_trace.h"

namespace corun::sim {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

Gpu gpu_with(std::uint64_t bytes) {
  Gpu gpu = small_gpu(4);
  gpu.memory_bytes = bytes;
  return gpu;
}

/// The simulated GPU, with every move of memory kept.
struct Watched : Backend {
  explicit Watched(SimBackend& watched) : backend(watched) {}
  const Topology& topology() const override { return backend.topology(); }
  Time now() const override { return backend.now(); }
  void wait(Time until, std::vector<Notice>& notices) override { backend.wait(until, notices); }
  Outcome apply(const Decision& d, const LaunchView& l, std::span<const LaunchId> follows) override {
    if (const auto* out = std::get_if<decide::Checkpoint>(&d)) moves.push_back({now(), true, out->buffer});
    if (const auto* back = std::get_if<decide::Restore>(&d)) moves.push_back({now(), false, back->buffer});
    return backend.apply(d, l, follows);
  }
  Outcome copy(const LaunchView& c, std::span<const LaunchId> follows) override {
    return backend.copy(c, follows);
  }
  struct Move {
    Time at;
    bool out;
    BufferId buffer;
  };
  SimBackend& backend;
  std::vector<Move> moves;
};

struct WatchedRun : Ran {
  std::vector<Watched::Move> ordered;
};

WatchedRun watch(const Trace& trace, const Gpu& gpu, Policy& policy) {
  WatchedRun ran;
  Timeline timeline;
  timeline.attach(ran);
  SimBackend simulated(trace, gpu, policy.requirements(), timeline, {true, true});
  Watched backend(simulated);
  Session session(trace, policy, backend, timeline,
                  [&](KernelId k) { return profile_kernel(trace.kernels[k.value], gpu); });
  session.audit(true);
  ran.outcome = session.run();
  simulated.close();
  ran.ordered = backend.moves;
  return ran;
}

WatchedRun watch(const Trace& trace, const Gpu& gpu, const std::string& policy) {
  return watch(trace, gpu, *make_policy(policy));
}

/// A policy in a test's own words.
class Scripted final : public Policy {
 public:
  Scripted(Requirements needed, std::function<void(const Snapshot&, std::vector<Decision>&)> decide)
      : needed_(std::move(needed)), decide_(std::move(decide)) {}
  std::string_view name() const override { return "scripted"; }
  Requirements requirements() const override { return needed_; }
  void decide(const Snapshot& now, std::vector<Decision>& decisions) override { decide_(now, decisions); }

 private:
  Requirements needed_;
  std::function<void(const Snapshot&, std::vector<Decision>&)> decide_;
};

Requirements moves_memory() {
  Requirements needed{{Capability::order, Capability::memory_swap}, corun::Contexts::one, false};
  needed.memory = needed.deferred_memory = true;
  return needed;
}

// ---- without a policy for memory --------------------------------------------------------------------------

TEST(Memory, AnAllocationFitsUpToTheLastByteAndFailsOneBeyond) {
  for (const std::uint64_t asked : {599u, 600u, 601u}) {
    TraceBuilder b;
    const KernelId k = b.kernel(kernel(4, 256, us(100)));
    b.client("holds", b.program({alloc(0, 400), launch(k)}));
    b.client("asks", b.program({alloc(0, asked), launch(k)}), Once{us(1)});
    const Ran ran = run_trace(b.trace, gpu_with(1000));
    EXPECT_EQ(ran.outcome.failed[0], "");
    EXPECT_EQ(ran.of(ClientId{0}).size(), 1u);
    if (asked <= 600) {
      EXPECT_EQ(ran.outcome.failed[1], "");
      EXPECT_EQ(ran.outcome.memory_peak, 400 + asked);
    } else {
      EXPECT_EQ(ran.outcome.failed[1],
                "out of memory: it asks for 601 bytes, and 600 bytes of 1000 bytes are free");
      EXPECT_THAT(ran.of(ClientId{1}), IsEmpty());
      EXPECT_EQ(ran.outcome.memory_peak, 400u);
    }
  }
}

TEST(Memory, AClientThatFailsGivesBackWhatItHeldWhenItsLaunchesHaveEnded) {
  TraceBuilder b;
  const KernelId k = b.kernel(whole_sm_kernel(4, us(50)));
  b.client("fails",
           b.program({alloc(0, 700), launch(k), launch(k), host_gap(alloc(1, 301), us(1)), launch(k)}));
  b.client("early", b.program({alloc(0, 500), launch(k)}), Once{us(99)});
  b.client("late", b.program({alloc(0, 1000), launch(k)}), Once{us(101)});
  const Ran ran = run_trace(b.trace, gpu_with(1000));
  EXPECT_THAT(ran.outcome.failed[0], HasSubstr("out of memory"));
  EXPECT_EQ(ran.of(ClientId{0}).size(), 2u) << "what was launched before still runs";
  EXPECT_THAT(ran.outcome.failed[1], HasSubstr("300 bytes of 1000 bytes are free"));
  EXPECT_EQ(ran.outcome.failed[2], "");
}

TEST(Memory, AFailedClientSendsNoFurtherRequests) {
  TraceBuilder b;
  const KernelId k = b.kernel(kernel(1, 256, us(5)));
  b.client("fails", b.program({alloc(0, 1001), launch(k)}), Periodic{us(10), us(0)});
  b.client("loops", b.program({launch(k)}), ClosedLoop{});
  b.trace.run.duration = us(200);
  const Ran ran = run_trace(b.trace, gpu_with(1000));
  EXPECT_EQ(std::ranges::count(ran.requests, ClientId{0}, &RequestRecord::client), 1);
  EXPECT_GT(ran.of(ClientId{1}).size(), 10u);
}

TEST(Memory, ARealTimeClientThatFailsInItsTurnLeavesItToTheNext) {
  for (const char* policy : {"reef", "reef-n", "wait"}) {
    TraceBuilder b;
    const KernelId k = b.kernel(kernel(1, 256, us(5)));
    for (const char* name : {"fails", "next"}) {
      Client& c = b.client(name, b.program({launch(k), sync(), alloc(0, *name == 'f' ? 1001 : 1), launch(k)}), Once{us(1)});
      c.service_class = ServiceClass::real_time;
    }
    const Ran ran = run_trace(b.trace, gpu_with(1000), policy);
    EXPECT_EQ(ran.outcome.stuck, "") << policy;
    EXPECT_NE(ran.outcome.failed[0], "") << policy;
    EXPECT_EQ(ran.of(ClientId{1}).size(), 2u) << policy;
  }
}

TEST(Memory, MemoryBytesIsHeldFromTheFirstRequestToTheEnd) {
  for (const std::uint64_t others : {300u, 301u})
    for (const Time arrives : {us(0), us(5), us(500)}) {
      TraceBuilder b;
      const KernelId k = b.kernel(kernel(1, 256, us(5)));
      b.client("model", b.program({launch(k)}), Once{us(1)}).memory_bytes = 700;
      b.client("other", b.program({alloc(0, others), launch(k)}), Once{arrives});
      const Ran ran = run_trace(b.trace, gpu_with(1000));
      const bool first = arrives == us(0);
      EXPECT_EQ(ran.outcome.failed[first ? 0 : 1].empty(), others == 300) << others;
      EXPECT_EQ(ran.outcome.failed[first ? 1 : 0], "");
    }
}

TEST(Memory, WhatARequestDoesNotFreeItsEndFrees) {
  for (const bool synced : {false, true}) {
    TraceBuilder b;
    const KernelId k = b.kernel(kernel(1, 256, us(5)));
    std::vector<Op> ops{alloc(0, 600), launch(k), alloc(1, 400)};
    if (synced) ops.push_back(sync());
    b.client("loops", b.program(ops), ClosedLoop{});
    b.trace.run.duration = us(100);
    const Ran ran = run_trace(b.trace, gpu_with(1000));
    EXPECT_EQ(ran.outcome.failed[0], "");
    EXPECT_GT(ran.of(ClientId{0}).size(), 10u);
    EXPECT_EQ(ran.outcome.memory_peak, 1000u);
  }
}

TEST(Memory, AProgramThatEndsInAHostCallStartsItsNextRequestAnew) {
  // Its second request must wait for its own first launch, not be taken for having waited.
  TraceBuilder b;
  const KernelId k = b.kernel(kernel(1, 256, us(5)));
  b.client("loops", b.program({launch(k, 0), after(launch(k, 1), {0}), sync()}), ClosedLoop{});
  b.trace.run.duration = us(100);
  const Ran ran = run_trace(b.trace, gpu_with(1000));
  const std::vector<KernelRecord> kernels = ran.of(ClientId{0});
  for (const KernelRecord& second : kernels)
    for (const KernelRecord& first : kernels)
      if (first.request == second.request && first.op == OpId{0} && second.op == OpId{1}) {
        EXPECT_GE(second.started, first.finished) << "request " << first.request;
      }
}

TEST(Memory, AFreeWaitsForWhatItsRequestHasIssued) {
  TraceBuilder b;
  const KernelId k = b.kernel(kernel(4, 256, us(50)));
  b.client("frees", b.program({alloc(0, 600), launch(k), free_of(0), launch(k)}));
  b.client("waits", b.program({alloc(0, 600), launch(k)}), Once{us(1)});
  const Ran ran = run_trace(b.trace, gpu_with(1000), "memory-wait");
  const Time first_end = ran.of(ClientId{0})[0].finished;
  EXPECT_EQ(ran.only(ClientId{1}).ready, first_end);
  EXPECT_EQ(ran.of(ClientId{0})[1].ready, first_end);
}

TEST(Memory, AGraphEndsAtAnAllocation) {
  TraceBuilder b;
  const KernelId k = b.kernel(kernel(1, 256, us(5)));
  b.client("graph", b.program({alloc(0, 100), launch(k), launch(k), alloc(1, 100), launch(k)}, Issue::graph));
  const Ran ran = run_trace(b.trace, slow_host_gpu(4));
  const std::vector<KernelRecord> kernels = ran.of(ClientId{0});
  EXPECT_EQ(kernels[0].ready, us(0)) << "nothing to hand over before the first allocation";
  EXPECT_EQ(kernels[1].ready, us(0));
  EXPECT_EQ(kernels[2].ready, us(4)) << "one graph's call";
}

// ---- what a session refuses -------------------------------------------------------------------------------

TEST(MemorySession, RefusesWhatMemoryDoesNotAllow) {
  TraceBuilder b;
  const KernelId k = b.kernel(kernel(4, 256, us(50)));
  b.client("a", b.program({alloc(0, 600), alloc(1, 500), uses(launch(k), {0}), uses(launch(k), {1})}));
  std::uint64_t step = 0;
  // Each decision alone in its turn; the next turn sees whether the one before was refused.
  const auto first = BufferId{0};
  LaunchId allocations[2], launches[2];
  Scripted policy(moves_memory(), [&](const Snapshot& now, std::vector<Decision>& d) {
    if (now.allocating.size() == 2) std::copy_n(now.allocating.begin(), 2, allocations);
    if (now.pending.size() == 2) std::copy_n(now.pending.begin(), 2, launches);
    if (now.pending.size() < 2 && step == 0) return;
    switch (step++) {
      case 0:
        d.push_back(decide::Launch{launches[0]});       // refused: not allocated
        d.push_back(decide::Checkpoint{first});         // refused: not on the device
        d.push_back(decide::Restore{first});            // refused: not on the host
        d.push_back(decide::Restore{BufferId{7}});      // refused: no such buffer
        d.push_back(decide::Allocate{allocations[0]});  // applied
        d.push_back(decide::Allocate{allocations[0]});  // refused: granted already
        d.push_back(decide::Allocate{allocations[1]});  // refused: 500 of 400
        d.push_back(decide::Restore{first});            // refused: on the device
        d.push_back(decide::Launch{launches[0]});       // applied
        d.push_back(decide::Checkpoint{first});         // refused: in use
        break;
      default:
        if (now.running.empty() && now.buffers[0].place == BufferView::Place::device) {
          d.push_back(decide::Checkpoint{first});         // applied
          d.push_back(decide::Checkpoint{first});         // refused: on its way
          d.push_back(decide::Restore{first});            // refused: on its way
          d.push_back(decide::Allocate{allocations[1]});  // refused: its bytes count until it is out
        } else if (now.buffers[0].place == BufferView::Place::host && !now.allocating.empty()) {
          d.push_back(decide::Allocate{allocations[1]});  // applied
          d.push_back(decide::Restore{first});            // refused: 600 of 500
          d.push_back(decide::Launch{launches[1]});       // applied
        }
    }
  });
  const WatchedRun ran = watch(b.trace, gpu_with(1000), policy);
  EXPECT_EQ(ran.outcome.refusals, 8u + 3u + 1u);
  EXPECT_EQ(ran.outcome.decisions - ran.outcome.refusals, 5u);
  EXPECT_EQ(ran.of(ClientId{0}).size(), 2u);
  EXPECT_EQ(ran.outcome.memory_peak, 600u);
  ASSERT_EQ(ran.ordered.size(), 1u);
}

TEST(MemorySession, RefusesMovesOfAPolicyThatDidNotSayItMovesMemory) {
  TraceBuilder b;
  const KernelId k = b.kernel(kernel(4, 256, us(50)));
  b.client("a", b.program({alloc(0, 600), sync(), launch(k)}));
  Scripted policy({{Capability::order}, corun::Contexts::one, false},
                  [](const Snapshot& now, std::vector<Decision>& d) {
                    d.push_back(decide::Checkpoint{BufferId{0}});
                    for (LaunchId id : now.pending) d.push_back(decide::Launch{id});
                  });
  const WatchedRun ran = watch(b.trace, gpu_with(1000), policy);
  EXPECT_GE(ran.outcome.refusals, 1u);
  EXPECT_THAT(ran.ordered, IsEmpty());
}

TEST(MemorySession, ACopyWaitsUntilItsBufferIsOnTheDevice) {
  TraceBuilder b;
  const KernelId k = b.kernel(kernel(1, 256, us(5)));
  b.client("a", b.program({alloc(0, 600), copy(CopyDirection::host_to_device, 600), launch(k)}));
  bool wanted = false;
  Scripted policy(moves_memory(), [&](const Snapshot& now, std::vector<Decision>& d) {
    for (const Notice& n : now.notices) wanted |= std::holds_alternative<BufferWanted>(n);
    if (std::ranges::any_of(now.notices, [](const Notice& n) { return std::holds_alternative<WokeUp>(n); })) {
      EXPECT_EQ(now.buffers[0].copies_wait, 1u);
      d.push_back(decide::Allocate{now.allocating.front()});
    } else if (!now.allocating.empty()) {
      d.push_back(decide::WakeAt{us(70)});
    }
    for (LaunchId id : now.pending) d.push_back(decide::Launch{id});
  });
  const WatchedRun ran = watch(b.trace, gpu_with(1000), policy);
  EXPECT_TRUE(wanted);
  ASSERT_EQ(ran.copies.size(), 1u);
  EXPECT_EQ(ran.copies[0].started, us(70));
  EXPECT_GE(ran.only(ClientId{0}).started, ran.copies[0].finished);
}

TEST(MemorySession, ThePolicyIsAskedAtOnceAboutACopyThatALaunchUncovers) {
  TraceBuilder b;
  const KernelId k = b.kernel(kernel(1, 256, us(50)));
  b.client("a", b.program({alloc(0, 300), alloc(1, 300), uses(launch(k), {0}),
                           uses(copy(CopyDirection::host_to_device, 300), {1})}));
  Time wanted = kNever;
  Scripted policy(moves_memory(), [&](const Snapshot& now, std::vector<Decision>& d) {
    for (const Notice& n : now.notices)
      if (std::holds_alternative<BufferWanted>(n)) wanted = now.now;
    if (wanted != kNever && !now.allocating.empty()) d.push_back(decide::Allocate{now.allocating.front()});
    if (now.pending.empty()) return;
    d.push_back(decide::Allocate{now.allocating.front()});
    d.push_back(decide::Launch{now.pending.front()});
  });
  const WatchedRun ran = watch(b.trace, gpu_with(1000), policy);
  EXPECT_EQ(wanted, us(0));
  EXPECT_EQ(ran.copies.size(), 1u);
}

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

TEST(FlexGpu, WhoHasBeenPassedOftenEnoughLetsNoOtherPass) {
  for (const std::uint32_t patience : {0u, 1u, 3u}) {
    TraceBuilder b;
    Kernel most = kernel(4, 256, us(20)), some = kernel(4, 256, us(50));
    most.counters.warps_active_pct = 60;
    some.counters.warps_active_pct = 50;
    const KernelId k = b.kernel(some);
    b.client("runs", b.program({launch(k), launch(k), launch(k), launch(k), launch(k), launch(k)}));
    b.one_kernel("waits", most, us(1));
    b.client("passes", b.program({launch(k)}), Periodic{us(10), us(5)});
    b.trace.run.duration = us(500);
    const Ran ran = run_trace(b.trace, gpu_with(1000), "flexgpu:patience=" + std::to_string(patience));
    std::size_t passed = 0;
    for (const KernelRecord& r : ran.kernels)
      passed += r.client == ClientId{2} && r.submitted < ran.only(ClientId{1}).submitted;
    EXPECT_LE(passed, patience);
  }
}

TEST(FlexGpu, WhoLacksMemoryLetsOthersPassForSoManyTimesAsLongAsItsMoveTakes) {
  for (const double turn : {0.0, 0.5, 1.0, 2.0}) {
    TraceBuilder b;
    Kernel most = kernel(4, 256, us(20)), some = kernel(4, 256, us(50));
    most.counters.warps_active_pct = 60;
    some.counters.warps_active_pct = 50;
    const KernelId k = b.kernel(some);
    b.client("runs", b.program({launch(k), launch(k), launch(k), launch(k), launch(k), launch(k)}));
    b.client("waits", b.program({alloc(0, 600'000), uses(launch(b.kernel(most)), {0})}), Once{us(1)});
    b.client("passes", b.program({launch(k)}), Periodic{us(10), us(5)});
    b.trace.run.duration = us(500);
    const Ran ran = run_trace(b.trace, gpu_with(1'000'000), fmt::format("flexgpu:patience=0,turn={}", turn));
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
