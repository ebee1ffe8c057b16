// What a policy sees of programs under `sim serve`, and what its decisions mean there.
#include "sim/service/service_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <ranges>

#include "sim/run/run.h"
#include "tests/support/build.h"
#include "tests/support/collect.h"

namespace corun::sim {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// Launches all that is pending, but where the test says otherwise, and keeps what it saw last.
struct Watcher final : Policy {
  std::string_view name() const override { return "watcher"; }
  Requirements requirements() const override { return {{Capability::order}}; }
  void decide(const Snapshot& now, std::vector<Decision>& decisions) override {
    ++asked;
    notices.assign(now.notices.begin(), now.notices.end());
    pending.clear(), running.clear();
    for (const LaunchId id : now.pending) pending.push_back(now.launch(id));
    for (const LaunchId id : now.running) running.push_back(now.launch(id));
    busy.clear();
    for (const ClientView& c : now.clients) busy.push_back(c.busy);
    if (instead) return instead(now, decisions);
    for (const LaunchId id : now.pending) decisions.push_back(decide::Launch{id, -1});
  }
  std::function<void(const Snapshot&, std::vector<Decision>&)> instead{};
  int asked = 0;
  std::vector<Notice> notices;
  std::vector<LaunchView> pending, running;
  std::vector<bool> busy;
};

/// A camera that is a graph of three kernels, and a batch of one kernel, as a session shows them: launches 0 to 2, and 3.
struct Shown : TraceBuilder {
  Shown() {
    const KernelId k = kernel(whole_sm_kernel(10, us(10)));
    client("camera", program({launch(k), launch(k), launch(k)}, Issue::graph));
    client("batch", program({launch(k)}));
    for (std::uint32_t i = 0; i < 4; ++i) views.push_back(view(i, i < 3 ? 0 : 1, i < 3 ? i : 0));
    for (std::uint32_t c = 0; c < 2; ++c) clients.push_back({ClientId{c}, &trace.clients[c]}), streams.push_back({ClientId{c}, StreamId{0}});
    seen.emplace(policy, trace);
  }
  LaunchView view(std::uint32_t i, std::uint32_t of, std::uint32_t op) {
    LaunchView l;
    l.id = {i, i};
    l.client = ClientId{of}, l.op = OpId{op};
    l.kernel = trace.kernels.data();
    l.operation = &trace.programs[of].ops[op];
    l.solo_time = us(10);
    l.state = LaunchState::finished;  // it has not been called
    return l;
  }
  /// Which launches the session is to launch, then and at once, but for those that the GPU refuses.
  std::vector<std::uint32_t> told(Time at, std::vector<Notice> notices) {
    std::vector<LaunchId> pending, running;
    for (const LaunchView& l : views) {
      if (l.state == LaunchState::pending) pending.push_back(l.id);
      if (l.state == LaunchState::submitted) running.push_back(l.id);
    }
    Snapshot now{at, notices, clients, views, pending, running, {}};
    now.streams = streams;
    std::vector<Decision> decisions;
    seen->decide(now, decisions);
    std::vector<std::uint32_t> launched;
    for (const Decision& d : decisions)
      if (const auto* launch = std::get_if<decide::Launch>(&d)) {
        launched.push_back(launch->launch.serial);
        EXPECT_EQ(launch->priority, -1);
        if (std::ranges::find(refused, launch->launch.serial) == refused.end())
          views[launch->launch.slot].state = LaunchState::submitted;
      }
    preempted.clear();
    for (const Decision& d : decisions)
      if (const auto* preempt = std::get_if<decide::Preempt>(&d)) preempted.push_back(preempt->launch.serial);
    return launched;
  }
  LaunchReady ready(std::uint32_t i) {
    views[i].state = LaunchState::pending;
    return {{i, i}};
  }
  KernelFinished finished(std::uint32_t i) {
    views[i].state = LaunchState::finished;
    return {{i, i}};
  }
  Preempted back(std::uint32_t i) {
    views[i].state = LaunchState::pending;
    return {{i, i}, 0};
  }
  std::vector<Notice> graph() { return {RequestArrived{ClientId{0}, 0}, ready(0), ready(1), ready(2)}; }

  std::vector<LaunchView> views;
  std::vector<ClientView> clients;
  std::vector<StreamView> streams;
  std::vector<std::uint32_t> refused, preempted;
  Watcher policy;
  std::optional<ServiceView> seen;
};

template <class N>
std::size_t count(const std::vector<Notice>& notices) {
  return static_cast<std::size_t>(std::ranges::count_if(notices, [](const Notice& n) { return std::holds_alternative<N>(n); }));
}

TEST(ServiceView, AGraphIsOneLaunchThatGoesAsAWhole) {
  Shown s;
  EXPECT_THAT(s.told(us(10), s.graph()), ElementsAre(0, 1, 2));
  ASSERT_EQ(s.policy.pending.size(), 1u);
  EXPECT_EQ(s.policy.pending[0].kernel->grid.x, 3u) << "nodes";
  EXPECT_EQ(s.policy.pending[0].kernel->registers_per_thread, 0u) << "what a graph is to the books";
  EXPECT_FALSE(s.policy.pending[0].sizable || s.policy.pending[0].stoppable);
  EXPECT_EQ(count<LaunchReady>(s.policy.notices), 1u);
  EXPECT_THAT(s.told(us(11), {s.ready(3)}), ElementsAre(3));
  EXPECT_EQ(s.policy.pending[0].kernel, s.trace.kernels.data()) << "the batch is as it is";
  ASSERT_EQ(s.policy.running.size(), 1u);
  EXPECT_EQ(s.policy.running[0].submitted_at, us(10));
}

TEST(ServiceView, AGraphIsOverWithItsLastKernelAndIsThenKnownToTakeWhatItTook) {
  Shown s;
  s.told(us(10), s.graph());
  EXPECT_EQ(s.policy.pending[0].solo_time, Time{}) << "nobody has seen it end";
  for (const std::uint32_t i : {0, 1}) s.told(us(100), {s.finished(i)});
  EXPECT_EQ(s.policy.asked, 1) << "nothing has happened that a service is told";
  s.told(us(260), {s.finished(2), RequestFinished{ClientId{0}, 0}});
  EXPECT_EQ(s.policy.asked, 2);
  EXPECT_EQ(count<KernelFinished>(s.policy.notices), 1u);
  EXPECT_THAT(s.policy.running, IsEmpty());
  for (std::uint32_t i = 0; i < 3; ++i) s.views[i].request = 1;
  s.told(us(300), s.graph());
  EXPECT_EQ(s.policy.pending[0].solo_time, us(250)) << "from 10 to 260, though its kernels take 30 alone";
}

TEST(ServiceView, WhatDidNotFitTheChannelGoesOnWithItsGraphWithoutThePolicy) {
  Shown s;
  s.refused = {1, 2};
  EXPECT_THAT(s.told(us(10), s.graph()), ElementsAre(0, 1, 2));
  s.refused = {2};
  EXPECT_THAT(s.told(us(20), {s.finished(0)}), ElementsAre(1, 2));
  s.refused = {};
  EXPECT_THAT(s.told(us(30), {s.finished(1)}), ElementsAre(2));
  EXPECT_EQ(s.policy.asked, 1);
}

TEST(ServiceView, AGraphOfWhichNothingWentIsAskedAboutAgain) {
  Shown s;
  s.refused = {0, 1, 2};
  s.told(us(10), s.graph());
  EXPECT_THAT(s.told(us(20), {s.ready(3)}), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(count<Preempted>(s.policy.notices), 0u) << "it was not on the GPU";
  s.refused = {};
  EXPECT_THAT(s.told(us(30), {s.finished(3), RequestFinished{ClientId{1}, 0}}), ElementsAre(0, 1, 2));
}

TEST(ServiceView, AnOrderToStopAGraphIsOfAllOfIt) {
  Shown s;
  s.told(us(10), s.graph());
  s.policy.instead = [](const Snapshot& now, std::vector<Decision>& d) { d.emplace_back(decide::Preempt{now.running[0]}); };
  s.told(us(20), {WokeUp{}});
  EXPECT_THAT(s.preempted, ElementsAre(0)) << "and what is behind it";
  s.policy.instead = [](const Snapshot&, std::vector<Decision>&) {};
  s.told(us(30), {s.back(0), s.back(1), s.back(2)});
  EXPECT_EQ(count<Preempted>(s.policy.notices), 1u);
  EXPECT_EQ(s.policy.pending.size(), 1u);
  s.policy.instead = {};
  EXPECT_THAT(s.told(us(40), {WokeUp{}}), ElementsAre(0, 1, 2));
}

TEST(ServiceView, ARequestBeginsWithItsFirstLaunchAndEndsWithItsLast) {
  Shown s;
  s.told(us(5), {RequestArrived{ClientId{1}, 0}, WokeUp{}});
  EXPECT_THAT(s.policy.busy, ElementsAre(false, false)) << "nobody knows of it";
  EXPECT_EQ(count<RequestArrived>(s.policy.notices), 0u);
  s.told(us(10), {s.ready(3)});
  EXPECT_THAT(s.policy.busy, ElementsAre(false, true));
  EXPECT_EQ(count<RequestArrived>(s.policy.notices), 1u);
  s.told(us(15), {RequestFinished{ClientId{1}, 0}});
  EXPECT_THAT(s.policy.busy, ElementsAre(false, true)) << "a launch of it is under way";
  s.told(us(20), {s.finished(3), RequestFinished{ClientId{1}, 1}});
  EXPECT_THAT(s.policy.busy, ElementsAre(false, false));
  EXPECT_EQ(count<RequestFinished>(s.policy.notices), 1u);
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

TEST(ServiceView, WhereTheHostWaitsMeanwhileARequestOfTheTraceIsSeveral) {
  EXPECT_EQ(between_kernels(false), 0u);
  EXPECT_GE(between_kernels(true), 40u) << "a best-effort kernel at each wait";
}

TEST(ServiceView, AWaitEndsARequestForThePolicy) {
  TraceBuilder b;
  const KernelId k = b.kernel(whole_sm_kernel(10, us(10)));
  b.client("camera", b.program({launch(k), Op{Sync{}, {}, {}, {}, {}}, launch(k), launch(k)}));
  Watcher policy;
  ServiceView seen(policy, b.trace);
  std::vector<LaunchView> views(3);
  const std::vector<std::uint32_t> ops = {0, 2, 3};
  for (std::uint32_t i = 0; i < 3; ++i) {
    views[i].id = {i, i}, views[i].op = OpId{ops[i]};
    views[i].kernel = b.trace.kernels.data(), views[i].operation = &b.trace.programs[0].ops[ops[i]];
  }
  const std::vector<ClientView> clients = {{ClientId{0}, &b.trace.clients[0]}};
  const std::vector<StreamView> streams = {{ClientId{0}, StreamId{0}}};
  const auto told = [&](Time at, std::vector<Notice> notices, LaunchState first, LaunchState others) {
    views[0].state = first, views[1].state = views[2].state = others;
    Snapshot now{at, notices, clients, views, {}, {}, {}};
    now.streams = streams;
    std::vector<Decision> decisions;
    seen.decide(now, decisions);
    return policy.busy.at(0);
  };
  EXPECT_TRUE(told(us(1), {LaunchReady{views[0].id}}, LaunchState::pending, LaunchState::finished));
  EXPECT_FALSE(told(us(11), {KernelFinished{views[0].id}}, LaunchState::finished, LaunchState::finished));
  EXPECT_EQ(count<RequestFinished>(policy.notices), 1u);
  EXPECT_TRUE(told(us(12), {LaunchReady{views[1].id}}, LaunchState::finished, LaunchState::pending));
  EXPECT_EQ(count<RequestArrived>(policy.notices), 1u);
  EXPECT_TRUE(told(us(22), {KernelFinished{views[1].id}}, LaunchState::finished, LaunchState::submitted)) << "nothing is waited for";
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

TEST(ServiceView, AHostStaysInItsCallUntilTheLaunchIsGranted) {
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

TEST(ServiceView, BetweenTwoRequestsOfAClosedLoopOthersBegin) {
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

TEST(ServiceView, NothingStopsAGraph) {
  EXPECT_GT(waits_ms(us(8)), 0.9);
  EXPECT_LT(waits_ms({}), 0.2) << "its kernels could be stopped one by one";
}

}  // namespace
}  // namespace corun::sim
