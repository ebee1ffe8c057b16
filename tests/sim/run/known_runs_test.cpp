// Is a run that others share simulated once, however many ask for it at once, and never taken for another?
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

TEST(MadeOnce, WhatSeveralThreadsAskForAtOnceIsMadeOnce) {
  MadeOnce<int, int> known;
  std::atomic<int> made = 0;
  in_parallel(8, 8, [&](std::size_t) {
    EXPECT_EQ(known.of(1,
                       [&] {
                         std::this_thread::sleep_for(std::chrono::milliseconds(20));
                         return ++made * 3;
                       }),
              3);
  });
  EXPECT_EQ(made, 1);
  EXPECT_EQ(known.of(2, [&] { return ++made; }), 2);
}

TEST(MadeOnce, WhoWaitedForOneThatWasEndedMakesItHimself) {
  MadeOnce<int, int> known;
  std::atomic<int> ended = 0, done = 0;
  in_parallel(4, 4, [&](std::size_t) {
    try {
      known.of(1, [&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        if (ended++ == 0) throw std::runtime_error("ended");
        return 1;
      });
      ++done;
    } catch (const std::runtime_error&) {
    }
  });
  EXPECT_EQ(done, 3);
  EXPECT_EQ(ended, 2) << "once ended, once made";
}

TEST(AloneRuns, AreKnownByAllThatDecidesThem) {
  TraceBuilder b;
  b.client("camera", b.program({launch(b.kernel(whole_sm_kernel(30, us(10))))}), Poisson{100, 1});
  AloneRuns known;
  int played = 0;
  const auto asks = [&](const auto& change) {
    Trace trace = b.trace;
    Gpu gpu = small_gpu(2);
    change(trace, gpu);
    known.of({trace, gpu}, [&] { return ++played, Player::Requests(1); });
    return played;
  };
  const auto as_it_is = [](Trace&, Gpu&) {};
  EXPECT_EQ(asks(as_it_is), 1);
  EXPECT_EQ(asks(as_it_is), 1);
  EXPECT_EQ(asks([](Trace& t, Gpu&) { t.run.warm_up = us(1), t.name = "of another file"; }), 1);
  EXPECT_EQ(asks([](Trace& t, Gpu&) { t.run.duration = us(1); }), 2);
  EXPECT_EQ(asks([](Trace& t, Gpu&) { t.run.seed = 7; }), 3);
  EXPECT_EQ(asks([](Trace& t, Gpu&) { std::get<Poisson>(t.clients.front().arrivals).seed = 2; }), 4);
  EXPECT_EQ(asks([](Trace& t, Gpu&) { t.clients.front().host_stalls.emplace(); }), 5);
  EXPECT_EQ(asks([](Trace& t, Gpu&) { t.programs.front().ops.front().host_gap = us(1); }), 6);
  EXPECT_EQ(asks([](Trace& t, Gpu&) { t.kernels.front().counters.dram_read_bytes = 1; }), 7);
  EXPECT_EQ(asks([](Trace&, Gpu& g) { g.launch_latency += us(1); }), 8);
  EXPECT_EQ(asks(as_it_is), 8);
}

TEST(KnownRuns, OtherArrivalsAndAnotherSeedOfATraceAreNotTakenForItsOwn) {
  TraceBuilder b;
  b.client("camera", b.program({launch(b.kernel(whole_sm_kernel(30, us(10))))}));
  b.trace.run.duration = ms(20);
  const Gpu gpu = slow_host_gpu(2);
  Memory memory;
  const std::vector<Arrivals> all{ClosedLoop{},
                                  ClosedLoop{us(40)},
                                  ClosedLoop{us(40), 2},
                                  Once{},
                                  Once{us(3)},
                                  Periodic{us(400)},
                                  Periodic{us(400), us(7)},
                                  Poisson{3'000},
                                  Poisson{3'000, 1},
                                  ExplicitTimes{{us(1), us(9)}},
                                  ExplicitTimes{{us(1), us(900)}}};
  for (const Arrivals& arrivals : all)
    for (const std::uint64_t seed : {1, 2}) {
      b.trace.clients.front().arrivals = arrivals;
      b.trace.run.seed = seed;
      const auto mean = [&](Memory* shared) {
        RunOptions options;
        options.policy = "priority", options.threads = 1, options.memory = shared;
        return run(b.trace, gpu, options).clients.front().alone_mean_ms;
      };
      EXPECT_EQ(mean(&memory), mean(nullptr)) << arrivals.index() << ", seed " << seed;
    }
}

TEST(KnownRuns, AnotherCardAndTheSameWithoutContentionAreOtherPlaces) {
  Memory memory;
  const Gpu gpu = small_gpu(2);
  Gpu slower = gpu;
  slower.launch_latency += us(1);
  Memory::OnPlace& here = memory.at({gpu, gpu});
  EXPECT_EQ(&memory.at({gpu, Gpu(gpu)}), &here);
  EXPECT_NE(&memory.at({slower, slower}), &here);
  EXPECT_NE(&memory.at({gpu, slower}), &here);
  EXPECT_NE(&memory.at({gpu, gpu, false}), &here);
  EXPECT_NE(&memory.at({gpu, gpu, true, HostCosts{}}), &here);
}

TEST(KnownRuns, TheOnlyClientUnderFcfsIsNotSimulatedAloneButUnderOthersAndServedItIs) {
  TraceBuilder b;
  const KernelId k = b.kernel(whole_sm_kernel(100, us(10)));
  b.client("camera", b.program({copy(CopyDirection::host_to_device, 1 << 20), launch(k), sync()}),
           Poisson{1000});
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
