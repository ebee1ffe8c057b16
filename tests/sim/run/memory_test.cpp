// Device memory without a policy for it, and what a session refuses of those that have one.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "tests/support/watched_memory.h"
#include "traces/model/error.h"

namespace corun::sim {
namespace {

using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;

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

TEST(MemorySession, EndsWithAnErrorWhereAPolicyMovesMemoryAndDidNotRequireIt) {
  TraceBuilder b;
  const KernelId k = b.kernel(kernel(4, 256, us(50)));
  b.client("a", b.program({alloc(0, 600), sync(), launch(k)}));
  Scripted policy({{Capability::order}, corun::Contexts::one, false},
                  [](const Snapshot& now, std::vector<Decision>& d) {
                    d.push_back(decide::Checkpoint{BufferId{0}});
                    for (LaunchId id : now.pending) d.push_back(decide::Launch{id});
                  });
  EXPECT_THROW(watch(b.trace, gpu_with(1000), policy), InputError);
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

}  // namespace
}  // namespace corun::sim
