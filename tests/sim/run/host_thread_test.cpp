// One host thread that issues for all clients, as hw/backend has it: what it costs them.
#include <gmock/gmock.h>

#include <algorithm>

#include "hw/run/profile.h"
#include "policies/session/session.h"
#include "sim/run/run.h"
#include "tests/support/fake_driver.h"
#include "tests/support/run_trace.h"
#include "traces/json/trace_json.h"

namespace corun::sim {
namespace {

Profiles host_of(Time launch, Time end, Time held, Time hand_over) {
  Profiles profiles{"", "small", "made up", {}, HostCosts{}};
  HostCosts& h = *profiles.host;
  h.launch_call = launch, h.end_call = end, h.held_call = held, h.hand_over = hand_over;
  return profiles;
}

Collector ran(const Trace& trace, const std::string& policy, const Profiles* profiles,
              const Gpu& gpu = small_gpu(4)) {
  Collector collector;
  RunOptions options;
  options.policy = policy, options.engine = {true, true}, options.sinks = {&collector};
  options.profiles = profiles;
  run(trace, gpu, options);
  return collector;
}

/// Clients of a stream each, with `launches` launches of one block of `block_time`.
Trace rows(std::uint32_t clients, std::uint32_t launches, Time block_time) {
  TraceBuilder build;
  const KernelId k = build.kernel(kernel(1, 128, block_time));
  const ProgramId row = build.program(std::vector<Op>(launches, launch(k)));
  for (std::uint32_t c = 0; c < clients; ++c) build.client("client" + std::to_string(c), row);
  return build.trace;
}

TEST(HostThread, IssuesTheLaunchesOfAllClientsOneAfterTheOther) {
  const Trace trace = rows(3, 1, us(100));
  const Profiles one = host_of(us(9), us(1), us(3), us(6));
  for (const bool shared : {false, true}) {
    const Collector all = ran(trace, "fcfs", shared ? &one : nullptr);
    for (std::uint32_t c = 0; c < 3; ++c)
      EXPECT_EQ(all.only(ClientId{c}).queued, shared ? us(9) * c : Time{}) << c;
  }
}

TEST(HostThread, HearsOfAnEndWhenItHasDoneWhatItIsAt) {
  // The first kernel ends while the second launch is issued; its client's next request waits for that.
  TraceBuilder build;
  const KernelId brief = build.kernel(kernel(1, 128, us(2))), slow = build.kernel(kernel(1, 128, us(500)));
  build.client("brief", build.program({launch(brief)}), ClosedLoop{});
  build.client("slow", build.program({launch(slow)}));
  build.trace.run.duration = us(60);
  const Profiles one = host_of(us(9), us(1), us(3), us(6));
  const auto requests = ran(build.trace, "fcfs", &one).requests;
  const auto first = std::ranges::find_if(
      requests, [](const RequestRecord& r) { return r.client == ClientId{0} && r.request == 0; });
  ASSERT_NE(first, requests.end());
  EXPECT_EQ(first->finished, us(18));
}

TEST(HostThread, ProcessesHandTheirLaunchesOverByThemselves) {
  const Trace trace = rows(3, 1, us(100));
  const Profiles one = host_of(us(9), us(1), us(3), us(6));
  const Collector all = ran(trace, "mps", &one);
  for (std::uint32_t c = 0; c < 3; ++c) EXPECT_EQ(all.only(ClientId{c}).queued, us(3) * (c + 1)) << c;
}

TEST(HostThread, HandsThreeLaunchesOfAStreamOverThatMayBeStoppedOrTwoOfLongOnes) {
  const Profiles one = host_of(us(9), us(1), us(3), us(6));
  for (const Time block : {us(11), us(40)}) {
    const Trace trace = rows(1, 8, block);
    auto kernels = ran(trace, "wait", &one).of(ClientId{0});
    ASSERT_EQ(kernels.size(), 8u);
    const std::size_t ahead = block < us(25) ? 3 : 2;
    for (std::size_t i = ahead; i < kernels.size(); ++i)
      EXPECT_GE(kernels[i].queued, kernels[i - ahead].finished) << i;
    // Enough that the GPU does not wait.
    for (std::size_t i = ahead + 1; i < kernels.size(); ++i)
      EXPECT_EQ(kernels[i].queued, kernels[i - 1].finished) << i;
  }
}

TEST(HostThread, StreamsRunDryWhereKernelsAreShorterThanWhatTheHostDoesForThem) {
  const Profiles one = host_of(us(9), us(1), us(3), us(6));
  const Trace trace = rows(4, 40, us(12));
  const auto last = [&](const Profiles* profiles, const char* policy) {
    Time end{};
    for (const KernelRecord& k : ran(trace, policy, profiles).kernels) end = std::max(end, k.finished);
    return end;
  };
  EXPECT_LT(last(nullptr, "wait"), us(40 * 12 + 5));
  // 160 launches of 3 + 6 + 1 us, one after the other.
  EXPECT_GT(last(&one, "wait"), us(1590));
  EXPECT_LT(last(&one, "wait"), us(1700));
}

TEST(HostThread, WhatIsHeldOnTheHostComesOffAtOnce) {
  TraceBuilder build;
  const KernelId k = build.kernel(kernel(1, 128, us(50)));
  build.client("batch", build.program(std::vector<Op>(30, launch(k))));
  build.one_kernel("urgent", kernel(1, 128, us(5)), us(200)).service_class = ServiceClass::real_time;
  Gpu gpu = small_gpu(4);
  gpu.preemption.evicted_launch = gpu.preemption.evicted_launch_interval = us(20);
  const Profiles one = host_of(us(1), us(1), us(1), us(1));
  const auto off = [&](const Profiles* profiles) {
    const Collector all = ran(build.trace, "wait", profiles, gpu);
    EXPECT_EQ(all.of(ClientId{0}).size(), 30u);
    for (const KernelRecord& kernel : all.kernels) EXPECT_NE(kernel.finished, kNever);
    return all.preemptions.at(0).cleared - all.preemptions.at(0).decided;
  };
  EXPECT_GT(off(nullptr), us(20 * 20));
  EXPECT_LE(off(&one), us(50 + 2 * 20));
}

TEST(HostThread, ItsCostsAreMeasuredWithAClientAlone) {
  hw::FakeDriver driver;
  hw::FakeCompiler compiler;
  {
    hw::Workbench work(driver, compiler);
    HostCosts costs;
    hw::measure_calls(read_gpu("h200"), work, costs);
    // Nothing but a look without news takes this driver any time: a microsecond.
    EXPECT_GT(costs.launch_call, Time{});
    for (const Time t :
         {costs.launch_call, costs.end_call, costs.held_call, costs.hand_over, costs.take_back})
      EXPECT_LE(t, us(5));
  }
  EXPECT_EQ(driver.left(), 0u);
}

}  // namespace
}  // namespace corun::sim
