// Does a policy under `--as-served` see programs as `sim serve` shows them, and do its decisions mean the same?
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <ranges>

#include "sim/run/run.h"
#include "tests/support/build.h"
#include "tests/support/collect.h"
#include "tests/support/random_trace.h"

namespace corun::sim {
namespace {

/// Launches all that is pending, and keeps what it saw of it.
struct Watcher final : Policy {
  std::string_view name() const override { return "watcher"; }
  Requirements requirements() const override { return {{Capability::order, Capability::preempt_at_block}}; }
  void decide(const Snapshot& now, std::vector<Decision>& decisions) override {
    for (const Notice& n : now.notices) requests += std::holds_alternative<RequestFinished>(n);
    for (const LaunchId id : now.pending) {
      seen.push_back(now.launch(id)), kernels.push_back(*now.launch(id).kernel), busy.push_back(now.clients[0].busy);
      decisions.push_back(decide::Launch{id});
    }
  }
  std::vector<LaunchView> seen;
  std::vector<Kernel> kernels;
  std::vector<bool> busy;
  int requests = 0;
};

/// A policy that has watched a program run again and again.
Watcher watched(std::vector<Op> ops, Issue issue, Collector& ran) {
  TraceBuilder b;
  b.kernel(whole_sm_kernel(10, us(10)));
  b.client("work", b.program(std::move(ops), issue), ClosedLoop{});
  b.trace.run.duration = us(500);
  const auto policy = std::make_shared<Watcher>();
  RunOptions options{{.policy = "watcher", .sinks = {&ran}}};
  options.served_ahead = us(8);
  const Gpu gpu = small_gpu(10);
  run(simulated({b.trace, gpu, options.policy, policy, false}), options);
  return *policy;
}

TEST(ServedPolicy, AGraphIsOneLaunchThatIsKnownByItsNodesAndByWhatItTook) {
  Collector ran;
  const Watcher policy = watched({launch(KernelId{0}), launch(KernelId{0}), launch(KernelId{0})}, Issue::graph, ran);
  ASSERT_GT(policy.seen.size(), 2u);
  EXPECT_EQ(policy.kernels[0].grid.x, 3u) << "nodes";
  EXPECT_EQ(policy.kernels[0].registers_per_thread, 0u);
  EXPECT_FALSE(policy.seen[0].stoppable);
  EXPECT_EQ(policy.seen[0].solo_time, Time{}) << "nobody has seen it end";
  EXPECT_EQ(policy.seen[1].solo_time, ran.kernels.at(2).finished) << "from its grant at 0 to its end";
  EXPECT_EQ(policy.requests, static_cast<int>(policy.seen.size()) - 1);
}

TEST(ServedPolicy, AKernelIsKnownByItsShapeAndByWhatItTook) {
  Collector ran;
  const Watcher policy = watched({launch(KernelId{0}), sync()}, Issue::eager, ran);
  ASSERT_GT(policy.seen.size(), 2u);
  EXPECT_EQ(policy.kernels[0].grid.x, 10u);
  EXPECT_EQ(policy.kernels[0].shared_memory_bytes(), whole_sm_kernel(10, us(10)).shared_memory_bytes());
  EXPECT_EQ(policy.seen[0].solo_time, us(10)) << "alone, where it has run before";
  EXPECT_EQ(policy.seen[1].solo_time, us(10)) << "the shortest of what it took";
  EXPECT_GT(policy.seen.back().solo_time, us(10)) << "from its grant to its end";
}

TEST(ServedPolicy, AWaitEndsARequestForThePolicy) {
  Collector ran;
  const Watcher policy = watched({launch(KernelId{0}), sync(), launch(KernelId{0}), launch(KernelId{0})}, Issue::eager, ran);
  EXPECT_NEAR(policy.requests, 2.0 / 3 * static_cast<double>(policy.seen.size()), 2) << "of three launches";
  EXPECT_TRUE(std::ranges::all_of(policy.busy, std::identity{}));
}

/// Kernels of 10 us that a camera launches one by one, each behind a wait of its host for the one before or not, beside a batch: those of the batch that run.
std::size_t between_kernels(bool waits) {
  TraceBuilder b;
  const KernelId k = b.kernel(whole_sm_kernel(10, us(10)));
  Op next = launch(k);
  next.host_gap = us(1);
  std::vector<Op> ops;
  for (int i = 0; i < 50; ++i) {
    ops.push_back(next);
    if (waits) ops.push_back(Op{Sync{}, {}, {}, {}, {}});
  }
  Client& camera = b.client("camera", b.program(std::move(ops)), Once{us(100)});
  camera.service_class = ServiceClass::real_time;
  b.client("batch", b.program({launch(k)}), ClosedLoop{});
  b.trace.run.duration = us(2000);
  RunOptions options{{.policy = "wait"}};
  options.served_ahead = us(8);
  Collector ran;
  options.sinks.push_back(&ran);
  run(b.trace, small_gpu(10), options);
  const auto of = [&](std::uint32_t c) { return std::ranges::count_if(ran.kernels, [&](const KernelRecord& r) { return r.client == ClientId{c}; }); };
  EXPECT_EQ(of(0), 50);
  const auto [first, last] = std::ranges::minmax(ran.kernels | std::views::filter([](const KernelRecord& r) { return r.client == ClientId{0}; }), {}, &KernelRecord::started);
  return static_cast<std::size_t>(std::ranges::count_if(
      ran.kernels, [&](const KernelRecord& r) { return r.client == ClientId{1} && r.started > first.started && r.started < last.started; }));
}

TEST(ServedPolicy, WhereTheHostWaitsMeanwhileARequestOfTheTraceIsSeveral) {
  EXPECT_EQ(between_kernels(false), 0u);
  EXPECT_GE(between_kernels(true), 40u) << "a best-effort kernel at each wait";
}

/// Ten kernels that a camera launches, each 20 us after the call before it returned, while a kernel of 150 us is on the GPU: what the request takes under `wait`.
double behind_a_kernel_ms(std::optional<Time> served) {
  TraceBuilder b;
  const KernelId k = b.kernel(whole_sm_kernel(10, us(1))), blocking = b.kernel(whole_sm_kernel(10, us(150)));
  Op next = launch(k);
  next.host_gap = us(20);
  b.client("batch", b.program({launch(blocking)}), Once{});
  Client& camera = b.client("camera", b.program(std::vector<Op>(10, next)), Once{us(20)});
  camera.service_class = ServiceClass::real_time;
  RunOptions options{{.policy = "wait"}};
  options.served_ahead = served;
  return run(b.trace, small_gpu(10), options).clients[1].max_ms;
}

TEST(ServedPolicy, AHostStaysInItsCallUntilTheLaunchIsGranted) {
  EXPECT_LT(behind_a_kernel_ms({}), 0.26) << "in a session's own program it calls what follows meanwhile";
  EXPECT_NEAR(behind_a_kernel_ms(us(8)), 0.15 + 9 * 0.02, 0.06) << "nine calls are made behind the kernel's end";
}

/// A camera that makes one request after the other, each after `gap` on its host, beside a batch: the batch's kernels that run.
std::size_t in_between(Time gap, std::optional<Time> served) {
  TraceBuilder b;
  const KernelId k = b.kernel(whole_sm_kernel(10, us(10)));
  Op first = launch(k);
  first.host_gap = gap;
  Client& camera = b.client("camera", b.program({first}), ClosedLoop{});
  camera.service_class = ServiceClass::real_time;
  b.client("batch", b.program({launch(k)}), ClosedLoop{});
  b.trace.run.duration = us(5000);
  RunOptions options{{.policy = "wait"}};
  options.served_ahead = served;
  Collector ran;
  options.sinks.push_back(&ran);
  run(b.trace, small_gpu(10), options);
  return static_cast<std::size_t>(std::ranges::count_if(ran.kernels, [](const KernelRecord& r) { return r.client == ClientId{1}; }));
}

TEST(ServedPolicy, BetweenTwoRequestsOfAClosedLoopOthersBegin) {
  EXPECT_LE(in_between({}, us(8)), 1u) << "the next launch is there when the one before it is known to have ended";
  EXPECT_GE(in_between(from_ns(1), us(8)), 50u) << "a host that does anything in between leaves room for one";
  EXPECT_LE(in_between(us(5), {}), 1u) << "but where a session knows of the request before its launch";
}

/// How long a request waits at most under `wait` that comes while a graph of 100 kernels of 10 us each is on the GPU.
double waits_ms(std::optional<Time> served) {
  TraceBuilder b;
  const KernelId k = b.kernel(whole_sm_kernel(10, us(10)));
  b.client("batch", b.program(std::vector<Op>(100, launch(k)), Issue::graph));
  Client& camera = b.client("camera", b.program({launch(k)}), Once{us(100)});
  camera.service_class = ServiceClass::real_time;
  RunOptions options{{.policy = "wait"}};
  options.served_ahead = served;
  return run(b.trace, small_gpu(10), options).clients[1].max_ms;
}

TEST(ServedPolicy, NothingStopsAGraph) {
  EXPECT_GT(waits_ms(us(8)), 0.9);
  EXPECT_LT(waits_ms({}), 0.2) << "its kernels could be stopped one by one";
}

class EachServed : public testing::TestWithParam<const char*> {};

TEST_P(EachServed, EachLaunchOfRandomProgramsRunsOnce) {
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE(seed);
    Scenario s = random_scenario(seed, Requests::one);
    Dice dice(seed);
    s.gpu.mps_client_channels = s.gpu.mps_client_channels.value_or(2);
    for (Client& c : s.trace.clients) c.service_class = dice.one_in(2) ? ServiceClass::real_time : ServiceClass::best_effort;
    for (Kernel& k : s.trace.kernels) k.ptx = true;
    std::size_t launches = 0;
    for (const Client& c : s.trace.clients)
      launches += static_cast<std::size_t>(std::ranges::count_if(s.trace.programs[c.program.value].ops, [](const Op& op) { return std::holds_alternative<Launch>(op.what); }));
    Collector ran(true);
    RunOptions options{{.policy = GetParam(), .sinks = {&ran}}, {true, true}};
    options.served_ahead = us(8);
    options.served_look = us(50);
    options.served_persistent = std::string_view(GetParam()).starts_with("wait");
    run(s.trace, s.gpu, options);
    EXPECT_EQ(ran.kernels.size(), launches);
    std::map<std::uint32_t, std::size_t> blocks;
    for (const BlockRecord& b : ran.blocks) ++blocks[b.launch.serial];
    for (const KernelRecord& k : ran.kernels) EXPECT_EQ(blocks[k.launch.serial], k.blocks);
  }
}
INSTANTIATE_TEST_SUITE_P(Policies, EachServed, testing::Values("fcfs", "priority", "timeslice", "tpc-mask", "wait", "wait:beside=on,backfill=on", "reef-n", "smguard", "lookahead"),
                         [](const auto& p) { return std::to_string(p.index); });

}  // namespace
}  // namespace corun::sim
