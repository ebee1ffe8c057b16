// When does each request arrive, start and end, and which are dropped?
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policies/session/arrivals.h"
#include "tests/support/engine_rig.h"
#include "tests/support/run_trace.h"
#include "tests/support/stages.h"
#include "traces/model/error.h"

namespace corun::sim {
namespace {

using testing::ElementsAre;

/// A kernel of one block that takes 50 us.
struct KernelClient : TraceBuilder {
  KernelId k = kernel(sim::kernel(1, 256, us(50)));
  Gpu gpu = slow_host_gpu(8);
};

std::vector<Time> first_arrivals(const Client& client, std::uint64_t seed, std::size_t n) {
  ArrivalProcess process(client, seed);
  std::vector<Time> times;
  for (; times.size() < n; process.advance()) times.push_back(process.next());
  return times;
}

Client client_with(Arrivals arrivals, const std::string& name = "client") {
  Client c;
  c.name = name;
  c.arrivals = std::move(arrivals);
  return c;
}

TEST(Arrivals, PeriodicOnesStartAtTheOffset) {
  EXPECT_THAT(first_arrivals(client_with(Periodic{us(10), us(3)}), 1, 4),
              ElementsAre(us(3), us(13), us(23), us(33)));
}

TEST(Arrivals, ExplicitOnesEndWithTheList) {
  EXPECT_THAT(first_arrivals(client_with(ExplicitTimes{{us(1), us(1), us(9)}}), 1, 4),
              ElementsAre(us(1), us(1), us(9), kNever));
}

TEST(Arrivals, OnceIsOnce) {
  EXPECT_THAT(first_arrivals(client_with(Once{us(4)}), 1, 2), ElementsAre(us(4), kNever));
}

TEST(Arrivals, PoissonOnesDependOnTheSeedAndTheNameOnly) {
  const auto times = [](std::uint64_t own_seed, std::uint64_t run_seed, const char* name) {
    return first_arrivals(client_with(Poisson{1000, own_seed}, name), run_seed, 50);
  };
  EXPECT_EQ(times(1, 1, "a"), times(1, 1, "a"));
  EXPECT_NE(times(1, 1, "a"), times(1, 2, "a"));
  EXPECT_NE(times(1, 1, "a"), times(2, 1, "a"));
  EXPECT_NE(times(1, 1, "a"), times(1, 1, "b"));
}

TEST(Arrivals, PoissonOnesKeepTheirRate) {
  const auto times = first_arrivals(client_with(Poisson{1000, 1}), 1, 20'000);
  EXPECT_NEAR(to_seconds(times.back()) / 20'000, 1e-3, 3e-5);  // 4 standard deviations
  double squares = 0;
  for (std::size_t i = 1; i < times.size(); ++i) squares += std::pow(to_seconds(times[i] - times[i - 1]), 2);
  EXPECT_NEAR(squares / 20'000, 2e-6, 2e-7);
}

/// Arrival times of a client's requests, and what became of them, in a run.
std::vector<RequestRecord> requests_of(const Ran& ran, ClientId client) {
  std::vector<RequestRecord> mine;
  for (const RequestRecord& r : ran.requests)
    if (r.client == client) mine.push_back(r);
  std::sort(mine.begin(), mine.end(), [](const auto& a, const auto& b) { return a.request < b.request; });
  return mine;
}
std::vector<Time> arrivals_of(const Ran& ran, ClientId client) {
  std::vector<Time> times;
  for (const RequestRecord& r : requests_of(ran, client)) times.push_back(r.arrival);
  return times;
}

TEST(Arrivals, PoissonOnesAreTheSameWhoeverRunsBeside) {
  const auto arrivals = [](bool with_rival) {
    KernelClient s;
    const ProgramId p = s.program({launch(s.k)});
    if (with_rival) s.client("rival", p, Poisson{30'000, 1});
    s.client("client", p, Poisson{5'000, 1});
    s.trace.run.duration = ms(5);
    return arrivals_of(run_trace(s.trace, s.gpu), with_rival ? kSecond : kFirst);
  };
  EXPECT_GT(arrivals(false).size(), 10u);
  EXPECT_EQ(arrivals(false), arrivals(true));
}

TEST(Arrivals, AClosedLoopThinksBeforeItsNextRequest) {
  KernelClient s;
  s.client("client", s.program({launch(s.k)}), ClosedLoop{us(7)});
  s.trace.run.duration = us(130);
  const Ran ran = run_trace(s.trace, s.gpu);
  const auto requests = requests_of(ran, kFirst);
  ASSERT_GE(requests.size(), 3u);
  const Time first_end = us(55) + ns(700);
  EXPECT_EQ(requests[0].arrival, us(0));
  EXPECT_EQ(requests[0].finished, first_end);
  EXPECT_EQ(requests[1].arrival, first_end + us(7));
  EXPECT_EQ(requests[1].started, first_end + us(7));
  EXPECT_EQ(requests[2].finished, kNever);  // the run ends
}

TEST(Arrivals, ASecondRequestInFlightRunsBehindTheFirstWithoutAPause) {
  KernelClient s;
  s.client("client", s.program({launch(s.k), sync()}, Issue::graph), ClosedLoop{Time{}, 2});
  s.trace.run.duration = us(200);
  const Ran ran = run_trace(s.trace, s.gpu);
  const auto requests = requests_of(ran, kFirst);
  const auto kernels = ran.of(kFirst);
  ASSERT_GE(requests.size(), 4u);
  ASSERT_GE(kernels.size(), 3u);
  EXPECT_EQ(requests[0].started, us(0));
  EXPECT_EQ(requests[1].started, us(0));
  EXPECT_EQ(requests[2].started, requests[0].finished);
  for (std::size_t i = 1; i < 3; ++i)
    EXPECT_EQ(kernels[i].started, kernels[i - 1].finished + s.gpu.graph_gap) << i;
}

TEST(Arrivals, SeveralInFlightMayUseSeveralStreams) {
  KernelClient s;
  s.client("client", s.program({launch(s.k, 0), launch(s.k, 1)}), ClosedLoop{Time{}, 2});
  s.trace.run.duration = us(400);
  const Ran ran = run_trace(s.trace, s.gpu);
  const auto kernels = ran.of(kFirst);
  ASSERT_GE(kernels.size(), 6u);
  for (std::size_t i = 2; i < 6; ++i) EXPECT_EQ(kernels[i].started, kernels[i - 2].finished + s.gpu.stream_gap) << "each stream in its order, " << i;
}

TEST(Arrivals, OfSeveralInFlightOneMayWaitInItsMiddleForItsOwn) {
  KernelClient s;
  s.client("client", s.program({launch(s.k), sync(), launch(s.k)}), ClosedLoop{Time{}, 2});
  s.trace.run.duration = us(400);
  const Ran ran = run_trace(s.trace, s.gpu);
  const auto kernels = ran.of(kFirst);
  ASSERT_GE(kernels.size(), 4u);
  EXPECT_EQ(kernels[1].ready, kernels[0].finished + s.gpu.completion_notice);
  EXPECT_EQ(kernels[2].ready, kernels[1].ready + s.gpu.launch_call) << "the next request does not wait for this one's end";
  EXPECT_EQ(kernels[2].started, kernels[1].finished + s.gpu.stream_gap);
  EXPECT_EQ(kernels[3].ready, kernels[2].finished + s.gpu.completion_notice) << "but for its own first kernel";
}

TEST(Arrivals, SeveralInFlightNeedAProgramWithoutAllocations) {
  KernelClient s;
  const ProgramId program = s.program({alloc(0, 1000), launch(s.k), free_of(0)});
  s.trace.programs[program.value].buffers = {"b"};
  s.client("client", program, ClosedLoop{Time{}, 2});
  s.trace.run.duration = us(200);
  EXPECT_THROW(run_trace(s.trace, s.gpu), InputError);
}

TEST(Arrivals, ARequestStartsWhenThePreviousOneHasEnded) {
  KernelClient s;
  s.client("client", s.program({launch(s.k)}), ExplicitTimes{{us(0), us(10)}}).stale = Stale::queue;
  s.trace.run.duration = us(200);
  const auto requests = requests_of(run_trace(s.trace, s.gpu), kFirst);
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_EQ(requests[1].arrival, us(10));
  EXPECT_EQ(requests[1].started, us(55) + ns(700));
}

/// Requests every 20 us, each of which takes 55.7 us: served at 0, and then whatever waits at 55.7 and 111.4.
std::vector<RequestRecord> overrun(Stale stale) {
  KernelClient s;
  s.client("client", s.program({launch(s.k)}), Periodic{us(20), us(0)}).stale = stale;
  s.trace.run.duration = us(130);
  return requests_of(run_trace(s.trace, s.gpu), kFirst);
}

TEST(Stale, KeepNewestDropsWhatANewerRequestFindsWaiting) {
  std::vector<std::uint64_t> dropped, served;
  for (const RequestRecord& r : overrun(Stale::keep_newest)) {
    if (r.dropped)
      dropped.push_back(r.request);
    else if (r.finished != kNever)
      served.push_back(r.request);
  }
  EXPECT_THAT(served, ElementsAre(0, 2));  // at 55.7 us the one of 40 us waits
  EXPECT_THAT(dropped, ElementsAre(1, 3, 4 /* by that of 100 us; that one is served from 111.4 us on */));
}

TEST(Stale, QueueServesAllInOrder) {
  std::vector<std::uint64_t> served;
  Time previous{};
  for (const RequestRecord& r : overrun(Stale::queue)) {
    EXPECT_FALSE(r.dropped);
    if (r.finished == kNever) continue;
    served.push_back(r.request);
    EXPECT_GE(r.started, previous);
    previous = r.finished;
  }
  EXPECT_THAT(served, ElementsAre(0, 1));
}

TEST(Stale, ARequestThatArrivesAsThePreviousOneEndsReplacesTheWaitingOne) {
  const Time end = us(55) + ns(700);
  for (const Time late : {ps(-1), ps(0), ps(1)}) {
    KernelClient s;
    s.client("client", s.program({launch(s.k)}), ExplicitTimes{{us(0), us(10), end + late}});
    s.trace.run.duration = us(300);
    const auto requests = requests_of(run_trace(s.trace, s.gpu), kFirst);
    ASSERT_EQ(requests.size(), 3u);
    EXPECT_EQ(requests[1].dropped, late <= ps(0));
  }
}

}  // namespace
}  // namespace corun::sim
