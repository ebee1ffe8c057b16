// Do clients share CPU cores as their hosts use them, and are several processes of a server that server?
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "sim/run/run.h"
#include "tests/support/random_trace.h"
#include "tests/support/run_trace.h"
#include "traces/json/trace_json.h"

namespace corun::sim {
namespace {

CpuSet cpus_of(std::uint32_t first, std::uint32_t last) {
  CpuSet set;
  for (std::uint32_t cpu = first; cpu <= last; ++cpu) set.set(cpu);
  return set;
}

std::vector<std::string> lines_of(const Ran& ran) {
  std::vector<std::string> all = lines(ran.kernels), requests = lines(ran.requests);
  all.insert(all.end(), requests.begin(), requests.end());
  return all;
}

TEST(CoresOfClients, AClientWithACoreToItselfRunsAsOneThatNamesNone) {
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    const Scenario s = random_scenario(seed, seed % 2 != 0 ? Requests::repeated : Requests::one);
    for (const char* policy : {"fcfs", "timeslice", "mps", "wait"}) {
      for (const bool blocking : {false, true}) {
        Trace named = s.trace;
        for (std::uint32_t i = 0; i < named.clients.size(); ++i) named.clients[i].cpus = cpus_of(2 * i, 2 * i + 1), named.clients[i].blocking = blocking;
        ASSERT_EQ(lines_of(run_trace(s.trace, s.gpu, policy)), lines_of(run_trace(named, s.gpu, policy))) << policy << ", seed " << seed;
      }
    }
  }
}

TEST(CoresOfClients, EveryRequestIsServedOnceWhateverCoresAreShared) {
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    Scenario s = random_scenario(seed, Requests::one);
    for (std::uint32_t i = 0; i < s.trace.clients.size(); ++i) s.trace.clients[i].cpus = cpus_of(0, i % 2), s.trace.clients[i].blocking = seed % 2 == 0;
    s.trace.run.cpu_slice = us(20);
    for (const char* policy : {"fcfs", "timeslice", "mps"}) {
      const Ran ran = run_trace(s.trace, s.gpu, policy);
      std::size_t wanted = 0;
      for (const Client& client : s.trace.clients) wanted += std::holds_alternative<ClosedLoop>(client.arrivals) || std::holds_alternative<Once>(client.arrivals);
      std::size_t finished = 0;
      for (const RequestRecord& r : ran.requests) finished += r.finished != kNever;
      EXPECT_GE(finished, wanted) << policy << ", seed " << seed;
      EXPECT_TRUE(ran.outcome.stuck.empty()) << ran.outcome.stuck;
    }
  }
}

/// So many closed loops: 1 ms of host, a kernel of `kernel_time` beside which others have room, a wait.
Trace host_loops(std::uint32_t count, Time kernel_time, std::optional<CpuSet> cpus, bool blocking = false) {
  TraceBuilder b;
  const KernelId k = b.kernel(kernel(1, 32, kernel_time));
  const ProgramId program = b.program({host_gap(launch(k), ms(1)), sync()});
  for (std::uint32_t i = 0; i < count; ++i) {
    Client& client = b.client(fmt::format("c{}", i), program, ClosedLoop{});
    client.cpus = cpus;
    client.blocking = blocking;
  }
  b.trace.run.duration = ms(400);
  return b.trace;
}
std::size_t requests_served(const Trace& trace) {
  const Ran ran = run_trace(trace, small_gpu(4), "mps");
  return static_cast<std::size_t>(std::ranges::count_if(ran.requests, [](const RequestRecord& r) { return r.finished != kNever; }));
}

TEST(CoresOfClients, HostsThatSpinServeNoMoreThanTheirCores) {
  const std::size_t one = requests_served(host_loops(1, us(250), {})), four = requests_served(host_loops(4, us(250), {}));
  EXPECT_NEAR(double(four), 4.0 * double(one), 8) << "a core each";
  EXPECT_NEAR(double(requests_served(host_loops(4, us(250), cpus_of(0, 0)))), double(one), 0.1 * double(one)) << "what waits for the GPU keeps the core";
  EXPECT_NEAR(double(requests_served(host_loops(4, us(250), cpus_of(0, 1)))), 2.0 * double(one), 0.2 * double(one));
  EXPECT_NEAR(double(requests_served(host_loops(4, us(250), cpus_of(0, 3)))), double(four), 1) << "as many cores as hosts";
}

TEST(CoresOfClients, AHostThatSleepsWhileItWaitsLeavesItsCoreToTheOthers) {
  const std::size_t one = requests_served(host_loops(1, ms(1), {}));
  EXPECT_NEAR(double(requests_served(host_loops(2, ms(1), cpus_of(0, 0)))), double(one), 0.15 * double(one));
  EXPECT_NEAR(double(requests_served(host_loops(2, ms(1), cpus_of(0, 0), true))), 2.0 * double(one), 0.02 * double(one)) << "one's host works while the other's kernel runs";
  EXPECT_NEAR(double(requests_served(host_loops(4, ms(1), cpus_of(0, 0), true))), 400, 4) << "the core is never idle: 1 ms a request";
}

TEST(CoresOfClients, ARequestWhoseHostLosesItsCoreTakesTheOthersSlicesLonger) {
  const auto longest = [](const Trace& trace) {
    Time most{};
    for (const RequestRecord& r : run_trace(trace, small_gpu(4), "mps").requests)
      if (r.finished != kNever) most = std::max(most, r.finished - r.started);
    return most;
  };
  Trace three = host_loops(3, us(100), cpus_of(0, 0));
  EXPECT_NEAR(to_ms(longest(three)), 1.1 + 2 * 4, 0.01) << "two others' slices of 4 ms";
  three.run.cpu_slice = ms(1);
  EXPECT_NEAR(to_ms(longest(three)), 1 + 2 * 1, 0.01) << "its kernel runs while the others have the core";
}

TEST(CoresOfClients, AnIdleServerHoldsNoCore) {
  Trace trace = host_loops(2, us(100), cpus_of(0, 0));
  trace.clients[1].arrivals = Periodic{ms(100), ms(50)};
  trace.clients[1].stale = Stale::queue;
  EXPECT_GE(requests_served(trace), 4 + (400 - 4 * 10) / 11 * 10) << "but for four requests of 1.1 ms, each with a slice at most";
}

// ---- several processes of a server

nlohmann::json eager_server(const std::string& arrivals) {
  return nlohmann::json::parse(R"({"corun_trace": 1, "name": "s", "gpu": "h200",
    "kernels": [{"name": "k", "grid": [16,1,1], "block": [128,1,1], "solo_time_ns": 100000}],
    "programs": [{"name": "p", "ops": [{"launch": "k", "host_gap_ns": 700000}, {"sync": true}]}],
    "clients": [{"name": "s", "program": "p", "class": "real_time", "arrivals": )" + arrivals + R"(}], "run": {"duration_ns": 200000000}})");
}
nlohmann::json replicated(nlohmann::json document, int among) {
  const nlohmann::json of = document["clients"][0];
  document["clients"].clear();
  for (int i = 1; i <= among; ++i) {
    document["clients"].push_back(of);
    document["clients"].back()["name"] = fmt::format("s-{}", i);
    document["clients"].back()["replica"] = {{"of", "s"}, {"number", i}, {"among", among}};
  }
  return document;
}
RunResult run_replicas(const nlohmann::json& document, const char* policy = "mps") {
  return run(read_trace(document, "s.json"), read_gpu("h200"), {{.policy = policy}});
}
std::vector<Time> arrivals_of_run(const nlohmann::json& document) {
  std::vector<Time> all;
  for (const RequestRecord& r : run_trace(read_trace(document, "s.json"), read_gpu("h200"), "mps").requests) all.push_back(r.arrival);
  std::ranges::sort(all);
  return all;
}

TEST(Replicas, TheServersRequestsAreDealtToThemAndNoneIsLostOrServedTwice) {
  for (const char* arrivals : {R"({"type": "poisson", "rate_per_s": 900, "stale": "queue"})", R"({"type": "periodic", "period_ns": 1100000, "offset_ns": 7, "stale": "queue"})",
                               R"({"type": "explicit", "times_ns": [1000, 2000, 2000, 5000000, 80000000], "stale": "queue"})", R"({"type": "once", "at_ns": 5})"})
    for (const int among : {1, 2, 3, 7}) EXPECT_EQ(arrivals_of_run(replicated(eager_server(arrivals), among)), arrivals_of_run(eager_server(arrivals))) << arrivals << among;
}

TEST(Replicas, EachInTurnGetsTheNextRequest) {
  const Trace trace = read_trace(replicated(eager_server(R"({"type": "explicit", "times_ns": [1000, 2000, 3000, 4000, 5000], "stale": "queue"})"), 2), "s.json");
  for (const RequestRecord& r : run_trace(trace, read_gpu("h200"), "mps").requests)
    EXPECT_EQ(r.client.value, (r.arrival / us(1) - 1) % 2) << to_ns(r.arrival);
}

TEST(Replicas, TheServersLineCountsAllOfTheirRequests) {
  const RunResult r = run_replicas(replicated(eager_server(R"({"type": "poisson", "rate_per_s": 1500, "stale": "queue"})"), 3));
  ASSERT_EQ(r.servers.size(), 1u);
  const ClientResult& all = r.servers[0];
  EXPECT_EQ(all.name, "s");
  EXPECT_EQ(all.replicas, 3u);
  std::uint64_t finished = 0;
  double per_s = 0, mean = 0, least = INFINITY, most = 0;
  for (const ClientResult& c : r.clients) {
    EXPECT_EQ(c.replica_of, "s");
    finished += c.finished, per_s += c.throughput_per_s, mean += c.mean_ms * double(c.finished);
    least = std::min(least, c.p99_ms), most = std::max(most, c.p99_ms);
  }
  EXPECT_EQ(all.finished, finished);
  EXPECT_NEAR(all.throughput_per_s, per_s, 1e-9);
  EXPECT_NEAR(all.mean_ms, mean / double(finished), 0.01 * all.mean_ms);
  EXPECT_GE(all.p99_ms, least);
  EXPECT_LE(all.p99_ms, most);
}

TEST(Replicas, MoreOfAHostBoundServerServeMoreUntilTheirCoresAreAllUsed) {
  const auto per_s = [](int among, const char* cpus) {
    nlohmann::json document = replicated(eager_server(R"({"type": "closed_loop"})"), among);
    for (auto& client : document["clients"])
      if (*cpus != '\0') client["cpus"] = cpus;
    const RunResult r = run_replicas(document);
    return r.servers[0].throughput_per_s;
  };
  const double one = per_s(1, "");
  EXPECT_NEAR(per_s(2, ""), 2 * one, 0.05 * one);
  EXPECT_NEAR(per_s(4, ""), 4 * one, 0.1 * one);
  EXPECT_NEAR(per_s(4, "0-1"), 2 * one, 0.2 * one);
  EXPECT_NEAR(per_s(4, "3"), one, 0.1 * one);
}

TEST(Replicas, OfALanguageModelsServerEachHasABatchOfItsOwnSoThatFewerSequencesShareAStep) {
  const auto decoded = [](int among) {
    nlohmann::json document = nlohmann::json::parse(R"({"corun_trace": 1, "name": "s", "gpu": "h200",
      "kernels": [{"name": "p", "grid": [264,1,1], "block": [256,1,1], "solo_time_ns": 150000}, {"name": "d", "grid": [132,1,1], "block": [128,1,1], "solo_time_ns": 50000}],
      "programs": [{"name": "prefill", "ops": [{"launch": "p"}, {"sync": true}]}, {"name": "decode", "ops": [{"launch": "d"}, {"sync": true}]}],
      "clients": [{"name": "s", "program": "decode", "serving": {"steps": [{"program": "prefill", "tokens": 128}, {"program": "decode", "batch": 8, "context": 1000}],
         "sequences": [[0,100,20],[0,100,20],[0,100,20],[0,100,20],[0,100,20],[0,100,20],[0,100,20],[0,100,20]]}}],
      "run": {"duration_ns": 100000000}})");
    return run_replicas(among == 0 ? document : replicated(document, among), "timeslice");
  };
  const RunResult one = decoded(0), same = decoded(1), four = decoded(4);
  EXPECT_EQ(one.clients[0].finished, 8u + 19u) << "eight prompts, nineteen decodes of eight";
  EXPECT_EQ(same.clients[0].finished, one.clients[0].finished);
  std::uint64_t steps = 0;
  for (const ClientResult& c : four.clients) {
    EXPECT_EQ(c.served->sequences, 2u) << "of eight";
    EXPECT_EQ(c.served->finished, 2u);
    steps += c.finished;
  }
  EXPECT_EQ(steps, 8u + 4u * 19u) << "each decodes two";
  ASSERT_TRUE(four.servers[0].served);
  EXPECT_EQ(four.servers[0].served->sequences, 8u);
  EXPECT_EQ(four.servers[0].served->finished, 8u);
  EXPECT_NEAR(four.servers[0].served->tokens_per_s, one.clients[0].served->tokens_per_s, 1e-9) << "the same tokens in the window";
  EXPECT_GT(four.servers[0].served->end_to_end_p99_ms, one.clients[0].served->end_to_end_p99_ms) << "in turns for four times the steps";
}

TEST(Replicas, AServerThatLacksOneIsRefused) {
  nlohmann::json document = replicated(eager_server(R"({"type": "closed_loop"})"), 3);
  const auto refused = [](const nlohmann::json& d) -> std::string {
    try {
      read_trace(d, "s.json");
    } catch (const InputError& error) {
      return error.what();
    }
    return {};
  };
  EXPECT_EQ(refused(document), "");
  nlohmann::json less = document;
  less["clients"].erase(2);
  EXPECT_NE(refused(less).find("'s' has 2 replicas here, not 3"), std::string::npos) << refused(less);
  nlohmann::json twice = document;
  twice["clients"][1]["replica"]["number"] = 1;
  EXPECT_NE(refused(twice).find("two replicas with number 1"), std::string::npos) << refused(twice);
  nlohmann::json beyond = document;
  beyond["clients"][1]["replica"]["number"] = 4;
  EXPECT_NE(refused(beyond).find("expected 1 to 3, got 4"), std::string::npos) << refused(beyond);
  nlohmann::json core = document;
  core["clients"][1]["cpus"] = "1024";
  EXPECT_NE(refused(core).find("expected CPUs from 0 to 1023"), std::string::npos) << refused(core);
}

TEST(Replicas, WhereHostsDecideAndTheirCoresAreNotGivenTheResultSaysSo) {
  const auto said = [](const nlohmann::json& document) {
    for (const std::string& note : texts_of(run_replicas(document)))
      if (note.find("CPU core to itself") != std::string::npos) return note;
    return std::string();
  };
  const std::string two = said(replicated(eager_server(R"({"type": "closed_loop"})"), 2));
  EXPECT_NE(two.find("(s-1 8"), std::string::npos) << two;
  EXPECT_NE(two.find("cpus=0-3"), std::string::npos) << two;
  EXPECT_EQ(said(eager_server(R"({"type": "closed_loop"})")), "") << "nobody to share cores with";
  nlohmann::json given = replicated(eager_server(R"({"type": "closed_loop"})"), 2);
  for (auto& client : given["clients"]) client["cpus"] = "0";
  EXPECT_EQ(said(given), "");
  nlohmann::json busy = replicated(eager_server(R"({"type": "closed_loop"})"), 2);
  busy["programs"][0]["ops"][0]["host_gap_ns"] = 1000;
  EXPECT_EQ(said(busy), "") << "the GPU decides";
}

}  // namespace
}  // namespace corun::sim
