// What the results of one trace share is simulated once, however many ask for it at once.
#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "sim/run/in_parallel.h"
#include "sim/run/run.h"
#include "tests/support/build.h"
#include "traces/json/trace_json.h"

namespace corun::sim {
namespace {

TEST(Common, WhatSeveralThreadsAskForAtOnceIsSimulatedOnce) {
  Common common(read_gpu("h200"));
  std::atomic<int> simulated = 0;
  in_parallel(8, 8, [&](std::size_t) {
    const Common::Requests alone = common.alone({}, [&] {
      ++simulated;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      return Common::Requests(3);
    });
    EXPECT_EQ(alone.size(), 3u);
  });
  EXPECT_EQ(simulated, 1);
  const auto again = [&](const Common::Alone& which) {
    common.alone(which, [&] { return ++simulated, Common::Requests(); });
    return simulated.load();
  };
  EXPECT_EQ(again({}), 1);
  EXPECT_EQ(again({0, Time{1}, 0, ""}), 2);
  EXPECT_EQ(again({1, kNever, 0, ""}), 3);
  EXPECT_EQ(again({0, kNever, 1, ""}), 4);
  EXPECT_EQ(again({0, kNever, 0, "others"}), 5);
  EXPECT_EQ(again({0, kNever, 1, ""}), 5);
}

TEST(Common, WhoWaitedForARunThatWasEndedSimulatesItself) {
  Common common(read_gpu("h200"));
  std::atomic<int> ended = 0, done = 0;
  in_parallel(4, 4, [&](std::size_t) {
    try {
      common.alone({}, [&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        if (ended++ == 0) throw std::runtime_error("ended");
        return Common::Requests(1);
      });
      ++done;
    } catch (const std::runtime_error&) {
    }
  });
  EXPECT_EQ(done, 3);
  EXPECT_EQ(ended, 2) << "once ended, once simulated";
}

TEST(Common, OtherArrivalsAndAnotherSeedOfATraceAreNotTakenForItsOwn) {
  TraceBuilder b;
  b.client("camera", b.program({launch(b.kernel(whole_sm_kernel(30, us(10))))}));
  b.trace.run.duration = ms(20);
  const Gpu gpu = slow_host_gpu(2);
  Common common(gpu);
  const std::vector<Arrivals> all{ClosedLoop{},        ClosedLoop{us(40)},  ClosedLoop{us(40), 2}, Once{},
                                  Once{us(3)},         Periodic{us(400)},   Periodic{us(400), us(7)},
                                  Poisson{3'000},      Poisson{3'000, 1},   ExplicitTimes{{us(1), us(9)}},
                                  ExplicitTimes{{us(1), us(900)}}};
  for (const Arrivals& arrivals : all)
    for (const std::uint64_t seed : {1, 2}) {
      b.trace.clients.front().arrivals = arrivals;
      b.trace.run.seed = seed;
      const auto mean = [&](Common* shared) {
        RunOptions options;
        options.policy = "priority", options.threads = 1, options.common = shared;
        return run(b.trace, gpu, options).clients.front().alone_mean_ms;
      };
      EXPECT_EQ(mean(&common), mean(nullptr)) << arrivals.index() << ", seed " << seed;
    }
}

TEST(Common, TheOnlyClientUnderFcfsIsNotSimulatedAloneButUnderOthersAndServedItIs) {
  TraceBuilder b;
  const KernelId k = b.kernel(whole_sm_kernel(100, us(10)));
  b.client("camera", b.program({copy(CopyDirection::host_to_device, 1 << 20), launch(k), sync()}), Poisson{1000});
  b.trace.run.duration = ms(2000);
  const Gpu gpu = slow_host_gpu(10);
  std::set<std::string> stages;
  const auto result = [&](const char* policy, std::optional<Time> served = {}) {
    stages.clear();
    RunOptions options;
    options.policy = policy, options.served_ahead = served, options.threads = 1;
    options.progress = [&](const char* stage, double) { stages.insert(stage); };
    return run(b.trace, gpu, options).clients.front();
  };
  const std::string alone = "camera alone";
  const auto fcfs = result("fcfs");
  EXPECT_FALSE(stages.contains(alone));
  EXPECT_EQ(fcfs.alone_mean_ms, fcfs.mean_ms);
  const auto other = result("priority");
  EXPECT_TRUE(stages.contains(alone));
  EXPECT_EQ(other.alone_mean_ms, fcfs.alone_mean_ms);
  EXPECT_EQ(result("fcfs", us(8)).alone_mean_ms, fcfs.alone_mean_ms) << "without the service";
  EXPECT_TRUE(stages.contains(alone));
}

}  // namespace
}  // namespace corun::sim
