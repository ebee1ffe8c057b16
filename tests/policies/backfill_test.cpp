// Which best-effort launches go before a real-time request that is expected?  By hand, to the picosecond, and what it comes to
// in the simulator.
#include "policies/backfill.h"

#include <gtest/gtest.h>

#include <deque>

#include "policies/api/registry.h"
#include "tests/support/build.h"
#include "tests/support/run_trace.h"
#include "traces/json/input_file.h"

namespace corun::sim {
namespace {

/// A camera whose requests come, and a batch with launches in one stream or two.
struct Expected {
  Client camera, batch;
  Kernel kernel;
  std::vector<ClientView> clients;
  std::vector<LaunchView> launches;
  std::vector<LaunchId> running;
  std::vector<StreamView> streams;
  Backfill backfill;

  Expected() {
    camera.service_class = ServiceClass::real_time;
    clients = {{ClientId{0}, &camera}, {ClientId{1}, &batch}};
    streams = {{ClientId{1}, StreamId{0}}, {ClientId{1}, StreamId{1}}};
  }
  void look(Time at, const std::vector<Notice>& notices = {}) {
    backfill.look(Snapshot{at, notices, clients, launches, {}, running, {}, {}, {}, 0, streams});
  }
  void requests(const std::vector<Time>& at) {
    for (const Time t : at) look(t, {RequestArrived{ClientId{0}, 0}});
  }
  void every_ms(int count) {
    for (int i = 0; i < count; ++i) requests({ms(i)});
  }
  LaunchId waits(Time solo, std::uint32_t stream = 0) {
    LaunchView& l = launches.emplace_back();
    l.id = {static_cast<std::uint32_t>(launches.size() - 1), static_cast<std::uint32_t>(launches.size())};
    l.client = ClientId{1}, l.stream = StreamId{stream};
    l.kernel = &kernel, l.solo_time = solo;
    return l.id;
  }
  void runs(LaunchId id, Time since) {
    launches[id.slot].state = LaunchState::submitted;
    launches[id.slot].submitted_at = since;
    running.push_back(id);
  }
  bool goes(LaunchId id) { return backfill.may_go(launches[id.slot]); }
  bool goes_at(Time at, LaunchId id) { return look(at), goes(id); }
};

TEST(Backfill, ALaunchGoesThatEndsWhenTheNextRequestIsExpectedAndNoneThatEndsLater) {
  Expected s;
  s.every_ms(9);  // at 0 to 8 ms
  const LaunchId at = s.waits(us(400)), over = s.waits(us(400) + ps(1));
  EXPECT_TRUE(s.goes_at(ms(8) + us(600), at));
  EXPECT_EQ(s.backfill.until(), kNever) << "nothing is held";
  EXPECT_FALSE(s.goes_at(ms(8) + us(600), over));
  EXPECT_EQ(s.backfill.until(), ms(9) + us(125)) << "an eighth of a gap later, if none comes";
}

TEST(Backfill, WhatIsBeforeALaunchCounts) {
  Expected s;
  s.every_ms(9);
  s.runs(s.waits(us(100)), ms(8) + us(550));  // half of it is done at 600 us
  s.runs(s.waits(us(50)), ms(8) + us(550));
  const LaunchId at = s.waits(us(200)), next = s.waits(us(100)), last = s.waits(us(1));
  s.look(ms(8) + us(600));
  EXPECT_TRUE(s.goes(at));
  EXPECT_TRUE(s.goes(next)) << "50 + 50 + 200 + 100 us";
  EXPECT_FALSE(s.goes(last));
}

TEST(Backfill, ALaunchThatRunsBeganWhenTheOneBeforeItInItsStreamEnded) {
  Expected s;
  s.every_ms(9);
  s.runs(s.waits(us(100)), ms(8) + us(400));
  s.streams[0].ended_at = ms(8) + us(590);
  s.look(ms(8) + us(600));
  EXPECT_FALSE(s.goes(s.waits(us(310) + ps(1))));
  s.look(ms(8) + us(600));
  EXPECT_TRUE(s.goes(s.waits(us(310))));
}

TEST(Backfill, OfALaunchThatWasStoppedCountsWhatIsNotDone) {
  Expected s;
  s.kernel = sim::kernel(10, 32, us(1));
  s.every_ms(9);
  const LaunchId id = s.waits(us(1000));
  s.launches[id.slot].blocks_done = 5;
  EXPECT_FALSE(s.goes_at(ms(8) + us(500) + ps(1), id));
  EXPECT_TRUE(s.goes_at(ms(8) + us(500), id));
}

TEST(Backfill, WhileARequestIsExpectedFourLaunchesOfAStreamAreOnTheGpu) {
  Expected s;
  s.every_ms(8);
  std::vector<LaunchId> launches;
  for (int i = 0; i < 5; ++i) launches.push_back(s.waits(us(1)));
  const auto gone = [&] { return std::ranges::count_if(launches, [&](LaunchId id) { return s.goes(id); }); };
  s.look(ms(7) + us(100));
  EXPECT_EQ(gone(), 5) << "none is expected yet";
  s.requests({ms(8)});
  s.look(ms(8) + us(100));
  EXPECT_EQ(gone(), 4);
  EXPECT_EQ(s.backfill.until(), kNever) << "the end of one is the occasion";
}

TEST(Backfill, WhatIsBehindAHeldLaunchWaitsTooButNotInAnotherStream) {
  Expected s;
  s.every_ms(9);
  const LaunchId first = s.waits(us(500)), behind = s.waits(us(1)), beside = s.waits(us(1), 1);
  s.look(ms(8) + us(600));
  EXPECT_FALSE(s.goes(first));
  EXPECT_FALSE(s.goes(behind));
  EXPECT_TRUE(s.goes(beside));
}

TEST(Backfill, ARequestThatIsLaterByMoreThanAnEighthOfAGapIsNotWaitedFor) {
  Expected s;
  s.requests({ms(0), ms(1), ms(2), ms(3), ms(4), ms(5) + us(20), ms(6) + us(40), ms(7) + us(40), ms(8) + us(40)});
  const LaunchId id = s.waits(us(500));  // the gaps, without the shortest and the longest: 1 to 1.02 ms
  EXPECT_FALSE(s.goes_at(ms(8) + us(900), id));
  EXPECT_EQ(s.backfill.until(), ms(9) + us(165));
  EXPECT_FALSE(s.goes_at(ms(9) + us(165) - ps(1), id));
  EXPECT_TRUE(s.goes_at(ms(9) + us(165), id));
}

TEST(Backfill, ALaunchIsHeldBackFromOneRequestAtMost) {
  Expected s;
  s.every_ms(9);
  const LaunchId longer_than_a_gap = s.waits(ms(5)), next = s.waits(us(10));
  EXPECT_FALSE(s.goes_at(ms(8) + us(900), longer_than_a_gap));
  s.requests({ms(9)});
  s.look(ms(9) + us(400));
  EXPECT_TRUE(s.goes(longer_than_a_gap));
  EXPECT_FALSE(s.goes(next)) << "which is behind it";
}

TEST(Backfill, GapsThatDifferByMoreThanAnEighthHoldNothingBack) {
  for (const Time more : {us(125), us(125) + ps(1)}) {
    Expected s;
    Time at{};
    s.requests({at});
    for (int i = 0; i < 8; ++i) s.requests({at += i < 4 ? ms(1) : ms(1) + more});
    EXPECT_EQ(s.goes_at(at + us(900), s.waits(us(101))), more > us(125));
  }
}

TEST(Backfill, OneRequestThatWasLateChangesNothing) {
  Expected s;
  s.requests({ms(0), ms(1), ms(2), ms(3) + us(500), ms(4), ms(5), ms(6), ms(7), ms(8)});  // gaps of 1.5 and 0.5 ms
  EXPECT_FALSE(s.goes_at(ms(8) + us(600), s.waits(us(400) + ps(1))));
}

TEST(Backfill, TooFewRequestsHoldNothingBack) {
  Expected s;
  s.every_ms(8);
  EXPECT_TRUE(s.goes_at(ms(7) + us(600), s.waits(us(500))));
}

TEST(Backfill, OfSeveralClientsTheFirstRequestCounts) {
  Expected s;
  s.clients.push_back({ClientId{2}, &s.camera});
  for (int i = 0; i < 9; ++i) s.look(ms(i), {RequestArrived{ClientId{0}, 0}}), s.look(ms(i) + us(300), {RequestArrived{ClientId{2}, 0}});
  const LaunchId id = s.waits(us(400));
  EXPECT_TRUE(s.goes_at(ms(8) + us(600), id));
  EXPECT_FALSE(s.goes_at(ms(8) + us(600) + ps(1), id));
  EXPECT_FALSE(s.goes_at(ms(9) + us(125), s.waits(us(175) + ps(1))));
  EXPECT_TRUE(s.goes_at(ms(9) + us(125), s.waits(us(175)))) << "the first is late, the second comes at 9.3 ms";
}

TEST(RegularArrivals, OfAProgramOnACardAreLaterThanExpectedOnceInAHundredTimes) {
  for (const char* file : {"arrivals-4", "arrivals-5"}) {
    const auto in = open_input(std::string("experiments/h200/live/") + file + ".txt.gz");
    RegularArrivals arrivals;
    int requests = 0, expected = 0, later = 0;
    for (double seconds = 0; *in >> seconds; ++requests) {
      const Time at = from_ns(1e9 * seconds);
      if (const auto next = arrivals.next()) ++expected, later += at >= next->latest;
      arrivals.arrived(at);
    }
    EXPECT_EQ(requests, 2000);
    EXPECT_GT(expected, 1900);
    EXPECT_LT(later, expected / 100) << file << ": by their last eight gaps, without the longest, 420";
  }
}

/// A camera of 100 us each millisecond beside kernels of 10 and 150 us that run to their ends.
Ran beside_long_kernels(const std::string& policy, const Arrivals& arrivals) {
  TraceBuilder b;
  Kernel k = kernel(20, 1024, us(50));
  k.solo_time = us(50);
  Client& camera = b.one_kernel("camera", k);
  camera.service_class = ServiceClass::real_time, camera.priority = -2, camera.arrivals = arrivals;
  Kernel short_one = kernel(10, 1024, us(10)), long_one = kernel(20, 1024, us(150));
  short_one.solo_time = us(10), long_one.solo_time = us(150);
  const KernelId s = b.kernel(short_one), l = b.kernel(long_one);
  b.client("batch", b.program({launch(s), launch(s), launch(l), launch(s)}), ClosedLoop{});
  b.trace.run.duration = ms(50);
  return run_trace(b.trace, small_gpu(10), policy);
}
Time longest(const Ran& ran, Time from) {
  Time most{};
  for (const RequestRecord& r : ran.requests)
    if (r.client == ClientId{0} && r.arrival >= from && r.finished != kNever) most = std::max(most, r.finished - r.arrival);
  return most;
}
std::size_t batch_requests(const Ran& ran) {
  return static_cast<std::size_t>(std::ranges::count_if(
      ran.requests, [](const RequestRecord& r) { return r.client == ClientId{1} && r.finished != kNever; }));
}

TEST(Backfill, RegularRequestsMeetNoKernelAndTheBatchLosesLessThanOneOfItsKernelsAGap) {
  const Ran plain = beside_long_kernels("wait", Periodic{ms(1)}), held = beside_long_kernels("wait:backfill=on", Periodic{ms(1)});
  EXPECT_GT(longest(plain, ms(10)), us(150));
  EXPECT_LT(longest(held, ms(10)), us(60));
  EXPECT_GT(batch_requests(held) + 50, batch_requests(plain));
}

TEST(Backfill, RandomRequestsAreServedAsWithoutIt) {
  const Arrivals random = Poisson{1000, 1};
  const Ran plain = beside_long_kernels("wait", random), held = beside_long_kernels("wait:backfill=on", random);
  EXPECT_EQ(longest(held, {}), longest(plain, {}));
  EXPECT_EQ(batch_requests(held), batch_requests(plain));
}

}  // namespace
}  // namespace corun::sim
