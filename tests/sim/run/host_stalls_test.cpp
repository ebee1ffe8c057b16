// What becomes of requests whose host stands still now and then?
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "policies/session/host_clock.h"
#include "sim/run/alone.h"
#include "sim/run/run.h"
#include "tests/support/build.h"
#include "tests/support/random_trace.h"
#include "tests/support/run_trace.h"
#include "traces/json/trace_json.h"

namespace corun::sim {
namespace {

/// A client of one request at `at`; the stall begins at `from` and ends at `to` of the run.
Trace stalled(std::vector<Op> ops, Kernel k, Time from, Time to, Arrivals arrivals = Once{}, Issue issue = Issue::eager) {
  TraceBuilder b;
  const KernelId id = b.kernel(std::move(k));
  for (Op& op : ops)
    if (auto* launch = std::get_if<corun::Launch>(&op.what)) launch->kernel = id;
  Client& client = b.client("c", b.program(std::move(ops), issue), std::move(arrivals));
  client.host_stalls = HostStalls{ms(1000), {{Time{}, to - from}}};
  const Time place = HostClock(client, b.trace.run.seed).place();
  client.host_stalls->stalls.front().at = (from + place) % ms(1000);
  EXPECT_LE(client.host_stalls->stalls.front().at + (to - from), ms(1000)) << "of this seed";
  b.trace.run.duration = ms(2);
  return std::move(b.trace);
}

RequestRecord first_request(const Trace& trace) {
  const Ran ran = run_trace(trace, slow_host_gpu(1));
  for (const RequestRecord& r : ran.requests)
    if (r.request == 0) return r;
  ADD_FAILURE() << "no request";
  return {};
}

// On slow_host_gpu a launch called at 0 is on the GPU at 5 us and known to have ended 0.7 us after its end.
const std::vector<Op> kOneLaunch = {launch(KernelId{0}), sync()};
Kernel of_100_us() { return kernel(1, 32, us(100)); }

TEST(HostStalls, AWorkingHostTakesAsMuchLongerAsItStands) {
  std::vector<Op> ops = {host_gap(launch(KernelId{0}), us(50)), sync()};
  const Time undisturbed = first_request(stalled(ops, of_100_us(), us(500), us(600))).finished;
  EXPECT_EQ(undisturbed, us(50 + 5 + 100) + ns(700));
  EXPECT_EQ(first_request(stalled(ops, of_100_us(), us(20), us(60))).finished, undisturbed + us(40));
  EXPECT_EQ(first_request(stalled(ops, of_100_us(), us(50), us(60))).finished, undisturbed + us(10)) << "the call's own instant";
  EXPECT_EQ(first_request(stalled(ops, of_100_us(), us(50) + ps(1), us(60))).finished, undisturbed) << "called just before it";
}

TEST(HostStalls, TheGpuGoesOnWhileTheHostStands) {
  // Of the host's 3 us and 50 us a launch, ten launches of 100 us are 0.5 ms ahead.
  std::vector<Op> ops(10, host_gap(launch(KernelId{0}), us(50)));
  ops.push_back(sync());
  const Time undisturbed = first_request(stalled(ops, of_100_us(), us(1900), us(1901))).finished;
  EXPECT_EQ(first_request(stalled(ops, of_100_us(), us(300), us(400))).finished, undisturbed) << "there was enough in its queue";
  EXPECT_GT(first_request(stalled(ops, of_100_us(), us(300), us(800))).finished, undisturbed);
}

TEST(HostStalls, AHostThatStandsLearnsOfAnEndWhenItGoesOn) {
  const Time known = us(5 + 100) + ns(700);
  EXPECT_EQ(first_request(stalled(kOneLaunch, of_100_us(), us(90), known)).finished, known);
  EXPECT_EQ(first_request(stalled(kOneLaunch, of_100_us(), us(90), known + ps(1))).finished, known + ps(1));
  EXPECT_EQ(first_request(stalled(kOneLaunch, of_100_us(), known, us(300))).finished, us(300));
  EXPECT_EQ(first_request(stalled(kOneLaunch, of_100_us(), known + ps(1), us(300))).finished, known);
  const std::vector<Op> without_sync = {launch(KernelId{0})};
  EXPECT_EQ(first_request(stalled(without_sync, of_100_us(), us(90), us(300))).finished, us(300)) << "also without a sync";
}

TEST(HostStalls, ARequestThatComesMeanwhileWaits) {
  const RequestRecord r = first_request(stalled(kOneLaunch, of_100_us(), us(200), us(300), Once{us(250)}));
  EXPECT_EQ(r.arrival, us(250));
  EXPECT_EQ(r.started, us(300));
  EXPECT_EQ(r.finished, us(300 + 5 + 100) + ns(700));
}

TEST(HostStalls, ARequestThatWaitsIsDroppedForANewerOneAsEver) {
  const Ran ran = run_trace(stalled(kOneLaunch, of_100_us(), us(200), us(700), Periodic{us(150), us(60)}), slow_host_gpu(1));
  // Come at 60, 210, 360, 510, 660 us; those of 210 to 510 give way.
  std::vector<std::uint64_t> dropped;
  for (const RequestRecord& r : ran.requests)
    if (r.dropped) dropped.push_back(r.request);
  EXPECT_EQ(dropped, (std::vector<std::uint64_t>{1, 2, 3}));
}

TEST(HostStalls, SeveralRequestsInFlightEndWhenTheHostSeesThem) {
  const Trace trace = stalled({launch(KernelId{0})}, of_100_us(), us(150), us(450), ClosedLoop{Time{}, 2});
  const Ran ran = run_trace(trace, slow_host_gpu(1));
  std::vector<Time> ends;
  for (const RequestRecord& r : ran.requests)
    if (r.finished != kNever) ends.push_back(r.finished);
  ASSERT_GE(ends.size(), 4u);
  EXPECT_LT(ends[0], us(150));
  EXPECT_EQ(ends[1], us(450)) << "the second ended at some 207 us";
  EXPECT_EQ(ends[2], us(450)) << "and the third, issued when the first ended, at some 310";
  EXPECT_GT(ends[3], us(450 + 100)) << "what is issued then begins anew";
}

TEST(HostStalls, AClientAloneHasTheSameStallsSoThatTheyAreNoSlowdown) {
  Trace trace = stalled({host_gap(launch(KernelId{0}), us(20)), sync()}, of_100_us(), us(300), us(900), ClosedLoop{});
  const Gpu gpu = slow_host_gpu(1);
  const RunResult with = run(trace, gpu, {{.policy = "fcfs"}});
  EXPECT_NEAR(with.clients[0].progress, 1, 1e-12);
  EXPECT_NEAR(with.antt, 1, 1e-12);
  trace.clients[0].host_stalls.reset();
  const RunResult without = run(trace, gpu, {{.policy = "fcfs"}});
  EXPECT_LT(with.clients[0].finished, without.clients[0].finished);
}

TEST(HostStalls, RequestsOfAClientAloneAreNotRepeatedWhereTheHostStands) {
  Trace trace = stalled(kOneLaunch, of_100_us(), us(300), us(900), ClosedLoop{});
  const Gpu gpu = slow_host_gpu(1);
  Shapes shapes(gpu);
  EXPECT_FALSE(repeat_alone(trace, gpu, shapes, {}));
  trace.clients[0].host_stalls->stalls.clear();
  EXPECT_TRUE(repeat_alone(trace, gpu, shapes, {})) << "watched, and it never stood";
}

TEST(HostStalls, AnotherClientsHostGoesOn) {
  Trace trace = stalled(kOneLaunch, of_100_us(), us(100), us(1900), ClosedLoop{});
  Client other = trace.clients[0];
  other.name = other.process = "other";
  other.host_stalls.reset();
  trace.clients.push_back(other);
  const Ran ran = run_trace(trace, slow_host_gpu(2));
  const auto finished = [&](std::uint32_t client) {
    return std::ranges::count_if(ran.requests, [&](const RequestRecord& r) { return r.client.value == client && r.finished != kNever; });
  };
  EXPECT_LE(finished(0), 2);
  EXPECT_GE(finished(1), 15);
}

TEST(HostStalls, OfRandomTracesNothingThatAHostDoesFallsIntoAStall) {
  std::size_t seen = 0, stood = 0;
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    Scenario s = random_scenario(seed, Requests::repeated);
    Dice dice(seed);
    for (Client& client : s.trace.clients) {
      HostStalls& record = client.host_stalls.emplace();
      Time over{};
      for (std::uint32_t i = dice.any(1, 4); i > 0; --i) {
        record.stalls.push_back({over + ns(dice.any(0, 30'000)), ns(dice.any(1, 20'000))});
        over = record.stalls.back().at + record.stalls.back().lasting;
      }
      record.observed = over + ns(dice.any(1, 30'000));
    }
    const Ran ran = run_trace(s.trace, s.gpu);
    EXPECT_EQ(ran.outcome.stuck, "") << "seed " << seed;
    std::vector<HostClock> hosts;
    for (const Client& client : s.trace.clients) hosts.emplace_back(client, s.trace.run.seed);
    const auto goes = [&](ClientId client, Time at) {
      ++seen;
      return hosts[client.value].after(at) == at;
    };
    for (const KernelRecord& r : ran.kernels) ASSERT_TRUE(goes(r.client, r.ready)) << "seed " << seed;
    for (const RequestRecord& r : ran.requests) {
      ASSERT_TRUE(r.started == kNever || goes(r.client, r.started)) << "seed " << seed;
      ASSERT_TRUE(r.finished == kNever || goes(r.client, r.finished)) << "seed " << seed;
      if (r.started != kNever && r.started > r.arrival) ++stood;
    }
  }
  EXPECT_GT(seen, 5000u);
  EXPECT_GT(stood, 300u);
}

TEST(HostStalls, TokensOfAServerComeWhenItsHostGoesOn) {
  nlohmann::json document = nlohmann::json::parse(R"({"corun_trace": 1, "name": "s", "gpu": "h200",
    "kernels": [{"name": "p", "grid": [132,1,1], "block": [256,1,1], "solo_time_ns": 300000, "registers_per_thread": 32},
                {"name": "d", "grid": [132,1,1], "block": [128,1,1], "solo_time_ns": 100000, "registers_per_thread": 32}],
    "programs": [{"name": "prefill", "ops": [{"launch": "p"}, {"sync": true}]}, {"name": "decode", "ops": [{"launch": "d"}, {"sync": true}]}],
    "clients": [{"name": "llm", "program": "decode", "serving": {
      "steps": [{"program": "prefill", "tokens": 128}, {"program": "decode", "batch": 4, "context": 1000}],
      "sequences": [[1000000, 128, 3], [1050000, 128, 3]]}}], "run": {"duration_ns": 100000000}})");
  const auto served = [&] { return *run(read_trace(document, "s.json"), read_gpu("h200"), {{.policy = "fcfs"}}).clients[0].served; };
  const ServedResult without = served();
  // One stall of 20 ms, which begins 1.2 ms after the run: both prompts are late by what is left of it.
  document["clients"][0]["host_stalls"] = {{"observed_ns", 1000000000}, {"stalls", {{0, 20000000}}}};
  const Trace trace = read_trace(document, "s.json");
  const double place_ns = to_ns(HostClock(trace.clients[0], trace.run.seed).place());
  document["clients"][0]["host_stalls"]["stalls"][0][0] = place_ns + 1.2e6;
  const ServedResult with = served();
  EXPECT_EQ(with.finished, 2u);
  EXPECT_NEAR(with.first_token_mean_ms, without.first_token_mean_ms + 20, 0.3);
  EXPECT_NEAR(with.between_tokens_mean_ms, without.between_tokens_mean_ms, 0.2) << "the stall is over before the decodes";
}

}  // namespace
}  // namespace corun::sim
