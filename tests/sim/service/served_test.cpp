// Programs as they are under `sim serve`, in the simulator: what goes when, and what an order to stop does.
#include "sim/service/served_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policies/api/registry.h"
#include "policies/session/session.h"
#include "sim/run/run.h"
#include "sim/service/served_gpu.h"
#include "tests/support/build.h"
#include "tests/support/collect.h"
#include "tests/support/scripted_backend.h"

namespace corun::sim {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// A batch of launches of 100 us, called at 0, and a camera with one request.
struct Script : TraceBuilder {
  ScriptedBackend gpu{small_gpu(10), {Capability::order, Capability::priority, Capability::preempt_at_block}};

  explicit Script(std::uint32_t launches, Time camera_at = us(100'000)) {
    Kernel k = whole_sm_kernel(100, us(10));
    k.solo_time = us(100);
    const KernelId id = kernel(k);
    client("batch", program(std::vector<Op>(launches, launch(id))));
    Client& camera = one_kernel("camera", k, camera_at);
    camera.service_class = ServiceClass::real_time;
    camera.arrivals = Once{camera_at};
  }
  SessionOutcome run(const std::string& spec, Time ahead, decltype(ServedOptions::forecast) forecast = {}) {
    return run(*make_policy(spec), ahead, std::move(forecast));
  }
  SessionOutcome run(Policy& policy, Time ahead, decltype(ServedOptions::forecast) forecast = {}) {
    Timeline timeline;
    ServedLaunches launches;
    ServedPolicy served(policy, trace, gpu.topology().gpu, {ahead, false, std::move(forecast)}, launches);
    ServedGpu reached(gpu, trace, launches, [](const LaunchView&, Time, Time) {});
    Session session(trace, served, reached, timeline, {});
    return session.run();
  }
};

TEST(Served, ALaunchGoesShortlyBeforeTheOneBeforeItEndsAndTheNextWhenThatIsKnown) {
  Script s(3);
  s.gpu.finish(us(100), 0), s.gpu.finish(us(210), 1), s.gpu.finish(us(300), 2), s.gpu.finish(us(100'100), 3);
  EXPECT_EQ(s.run("wait", us(8)).stuck, "");
  EXPECT_THAT(s.gpu.at(us(0)), ElementsAre("launch 0 ctas 0"));
  EXPECT_THAT(s.gpu.at(us(92)), ElementsAre("launch 1 ctas 0"));
  EXPECT_THAT(s.gpu.at(us(192)), ElementsAre("launch 2 ctas 0")) << "which is thought to begin at 100 us and end at 200";
  EXPECT_THAT(s.gpu.at(us(100'000)), ElementsAre("launch 3 ctas 0")) << "a real-time launch at once";
  EXPECT_EQ(s.gpu.decided.size(), 4u);
}

TEST(Served, AnOrderToStopTakesBackWhatHasNotGoneAndWhatHasGoneEnds) {
  Script s(3, us(150));
  s.gpu.finish(us(100), 0), s.gpu.finish(us(200), 1), s.gpu.finish(us(400), 3), s.gpu.finish(us(500), 2);
  EXPECT_EQ(s.run("wait", us(8)).stuck, "");
  EXPECT_THAT(s.gpu.at(us(150)), IsEmpty()) << "under wait the camera waits for launch 1, which is not stopped";
  EXPECT_THAT(s.gpu.at(us(192)), IsEmpty());
  EXPECT_THAT(s.gpu.at(us(200)), ElementsAre("launch 3 ctas 0"));
  EXPECT_THAT(s.gpu.at(us(400)), ElementsAre("launch 2 ctas 0"));
}

TEST(Served, BesideWhatHasGoneARealTimeLaunchNeedNotWait) {
  Script s(3, us(150));
  s.gpu.finish(us(100), 0), s.gpu.finish(us(200), 1), s.gpu.finish(us(250), 3), s.gpu.finish(us(350), 2);
  EXPECT_EQ(s.run("wait:beside=on", us(8)).stuck, "");
  EXPECT_THAT(s.gpu.at(us(150)), ElementsAre("launch 3 ctas 0"));
  EXPECT_THAT(s.gpu.at(us(250)), ElementsAre("launch 2 ctas 0"));
}

TEST(Served, UnderAPolicyThatStopsNothingLaunchesGoAsTheyCome) {
  Script s(3);
  s.gpu.finish(us(100), 0), s.gpu.finish(us(200), 1), s.gpu.finish(us(300), 2), s.gpu.finish(us(100'100), 3);
  EXPECT_EQ(s.run("fcfs", us(8)).stuck, "");
  EXPECT_THAT(s.gpu.at(us(0)), ElementsAre("launch 0 ctas 0", "launch 1 ctas 0", "launch 2 ctas 0"));
}

TEST(Served, WhatTheGpuRefusesGoesLaterAndThePolicyNeedNotDecideItAgain) {
  Script s(2);
  s.gpu.refuse = [&](const Decision&) { return s.gpu.now() < us(50); };
  s.gpu.finish(us(100), 0), s.gpu.finish(us(200), 1), s.gpu.finish(us(100'100), 2);
  s.trace.clients[0].arrivals = Once{};
  struct Asked final : Policy {
    std::string_view name() const override { return "asked"; }
    Requirements requirements() const override { return {{Capability::order}}; }
    void decide(const Snapshot& now, std::vector<Decision>& decisions) override {
      for (const LaunchId id : now.pending) decisions.push_back(decide::Launch{id}), ++decided;
      decisions.push_back(decide::WakeAt{now.now < us(60) ? us(60) : kNever});
    }
    int decided = 0;
  } policy;
  EXPECT_EQ(s.run(policy, us(8)).stuck, "");
  EXPECT_THAT(s.gpu.at(us(60)), ElementsAre("launch 0 ctas 0", "launch 1 ctas 0"));
  EXPECT_EQ(policy.decided, 3);
}

/// A camera's request, and the second of three launches of 100 us, which may go at 92 us, 8 us ahead.
struct GrantBesideARequest : TraceBuilder {
  KernelRecord second(Time request_at) { return batch(request_at).at(1); }
  std::vector<KernelRecord> batch(Time request_at) {
    const KernelId k = kernel([] {
      Kernel each = whole_sm_kernel(10, us(100));
      each.solo_time = us(100);
      return each;
    }());
    client("batch", program({launch(k), launch(k), launch(k)}));
    Client& camera = one_kernel("camera", sim::kernel(1, 32, us(50)), request_at);
    camera.service_class = ServiceClass::real_time;
    RunOptions options{{.policy = "wait:beside=on"}};
    options.served_ahead = us(8);
    Collector ran;
    options.sinks.push_back(&ran);
    Gpu gpu = small_gpu(10);
    gpu.launch_latency = us(6);
    run(trace, gpu, options);
    return ran.of(ClientId{0});
  }
};

TEST(Served, ALaunchThatHasItsGrantWhenARequestBeginsBeginsWithinIt) {
  // The first has its grant at 0 and takes 100 us, so that the second may go at 92 us.
  EXPECT_EQ(GrantBesideARequest{}.second(us(92) + ps(1)).submitted, us(92));
  const KernelRecord granted = GrantBesideARequest{}.second(us(92) + ps(1));
  EXPECT_GT(granted.started, us(92) + ps(1));
  EXPECT_LT(granted.started, us(92) + ps(1) + us(50)) << "while the request is under way";
  EXPECT_GE(GrantBesideARequest{}.second(us(92)).submitted, us(92) + us(50)) << "at that instant it is taken back";
}

TEST(Served, AKernelThatIsGrantedInTimeBeginsAWaitAfterTheOneBeforeIt) {
  const std::vector<KernelRecord> batch = GrantBesideARequest{}.batch(us(1000));
  EXPECT_EQ(batch[0].queued, us(6) + ns(2500));
  EXPECT_EQ(batch[1].queued, batch[0].finished + ns(2500));
}

TEST(Served, WhatWasHeldBeginsSoonerAfterItsGrantThanALaunchAfterItsCall) {
  // The request ends at 80 + 6 + 50 us; the second launch was called at 0 and is granted then.
  const KernelRecord held = GrantBesideARequest{}.second(us(80));
  EXPECT_EQ(held.submitted, us(136));
  EXPECT_EQ(held.queued - held.submitted, us(6) - ns(3520));
}

TEST(Served, ACopyKeepsItsPlaceAmongTheLaunches) {
  Script s(0);
  s.trace.programs[0].ops = {launch(KernelId{0}), launch(KernelId{0}), copy(CopyDirection::device_to_host, 1000), launch(KernelId{0})};
  Kernel& k = s.trace.kernels[0];
  k.solo_time = us(100);
  RunOptions options{{.policy = "wait"}};
  options.served_ahead = us(8);
  Collector ran;
  options.sinks.push_back(&ran);
  run(s.trace, small_gpu(10), options);
  ASSERT_EQ(ran.copies.size(), 1u);
  ASSERT_EQ(ran.kernels.size(), 4u);
  EXPECT_GE(ran.copies[0].started, ran.kernels[1].finished);
  EXPECT_GE(ran.kernels[2].started, ran.copies[0].finished);
}

/// Of each two ways the second ends real-time requests sooner.
struct SecondIsBetter final : Forecast {
  Outlook look(const Snapshot& now, const WayOfDeciding&, const ForecastBounds&) override {
    Outlook o;
    o.clients.resize(now.clients.size());
    for (Outlook::OfClient& c : o.clients) c.request_ends = now.now + (looks_ % 2 == 0 ? us(1000) : us(500));
    ++looks_;
    o.reached = now.now + us(2000);
    return o;
  }
  int looks_ = 0;
};

TEST(Served, WhatIsForetoldIsHeardWhenTheLookHasTakenItsTime) {
  for (const int takes : {40, 60}) {
    Script s(3, us(150));
    s.gpu.finish(us(100), 0), s.gpu.finish(us(200), 1), s.gpu.finish(us(400), 3), s.gpu.finish(us(500), 2);
    s.run("lookahead:ways=now/hold,depth=1,every_us=100000", us(8),
          [&](const Gpu&, const Requirements&) { return std::make_unique<LaterForecast>(std::make_unique<SecondIsBetter>(), us(takes)); });
    EXPECT_THAT(s.gpu.at(us(100)), ElementsAre("launch 1 ctas 0"));
    EXPECT_THAT(s.gpu.at(us(150)), ElementsAre("launch 3 ctas 0")) << "while it looks the way decides that was chosen last";
    if (takes == 40)
      EXPECT_THAT(s.gpu.at(us(200)), IsEmpty()) << "since 190 us launches of the batch are held";
    else
      EXPECT_THAT(s.gpu.at(us(200)), ElementsAre("launch 2 ctas 0")) << "not before 210 us";
  }
}

TEST(Served, WhileItLooksNothingElseIsAskedAndNothingWithoutARealTimeRequest) {
  Client camera, batch;
  camera.service_class = ServiceClass::real_time;
  std::vector<ClientView> clients{{ClientId{0}, &camera}, {ClientId{1}, &batch}};
  Snapshot now{};
  const std::vector<WayOfDeciding> ways(2, [](const Snapshot&, std::vector<Decision>&) {});
  LaterForecast forecast(std::make_unique<SecondIsBetter>(), us(100));
  const auto ask = [&](int at) {
    now.now = us(at), now.clients = clients;
    return forecast.ask(now, ways, {});
  };
  clients[1].busy = true;
  EXPECT_FALSE(ask(10)) << "only best effort is under way";
  clients[0].busy = true;
  EXPECT_TRUE(ask(20));
  EXPECT_EQ(forecast.due(), us(120));
  clients[0].busy = false, clients[0].arrived_at = us(50);
  EXPECT_FALSE(ask(60)) << "it looks";
  EXPECT_FALSE(forecast.answer());
  forecast.hear();
  clients[0].busy = true;
  EXPECT_FALSE(ask(120)) << "nobody has heard of it";
  const std::optional<Foretold> told = forecast.answer();
  ASSERT_TRUE(told);
  EXPECT_EQ(told->of.now, us(20));
  EXPECT_TRUE(told->of.clients[0].busy) << "as it was";
  EXPECT_EQ(told->outlooks.size(), 2u);
  EXPECT_EQ(forecast.due(), kNever);
  EXPECT_TRUE(ask(130));
}

TEST(Served, InTheSimulatorAKernelThatARequestMeetsRunsToItsEnd) {
  Script s(3, us(150));
  const auto latency = [&](std::optional<Time> served) {
    RunOptions options{{.policy = "wait"}};
    options.served_ahead = served;
    return run(s.trace, small_gpu(10), options).clients[1].max_ms;
  };
  EXPECT_NEAR(latency(us(8)), 0.155, 0.001) << "launch 1 ends at 205 us, of which two waits are 5";
  EXPECT_NEAR(latency({}), 0.105, 0.005) << "or at its next blocks";
}

}  // namespace
}  // namespace corun::sim
