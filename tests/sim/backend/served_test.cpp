// Programs as they are under `sim serve`, in the simulator: what goes when, and what an order to stop does.
#include "sim/backend/served.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policies/api/registry.h"
#include "policies/session/session.h"
#include "sim/backend/run.h"
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
  SessionOutcome run(const std::string& spec, Time ahead) {
    Timeline timeline;
    const auto policy = make_policy(spec);
    Served served(gpu, trace, policy->requirements(), ahead);
    Session session(trace, *policy, served, timeline, {});
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

TEST(Served, InTheSimulatorAKernelThatARequestMeetsRunsToItsEnd) {
  Script s(3, us(150));
  const auto latency = [&](std::optional<Time> served) {
    RunOptions options{{.policy = "wait"}};
    options.served_ahead = served;
    return run(s.trace, small_gpu(10), options).clients[1].max_ms;
  };
  EXPECT_NEAR(latency(us(8)), 0.15, 0.002) << "launch 1 ends at 200 us";
  EXPECT_NEAR(latency({}), 0.105, 0.005) << "or at its next blocks";
}

}  // namespace
}  // namespace corun::sim
