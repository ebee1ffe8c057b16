// `sim validate` of networks that shared a GPU: are the files read, matched and scored as they were made?
#include "sim/validate/networks.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/wait.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "sim/validate/networks_report.h"
#include "sim/validate/networks_score.h"
#include "sim/validate/timeline_compare.h"
#include "tests/support/sim_file.h"
#include "traces/model/error.h"

namespace corun::sim {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::DoubleEq;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

/// Two networks of two kernels; `fast` is real-time each millisecond.
class Networks : public testing::Test {
 protected:
  Networks() : folder_(fs::temp_directory_path() / fmt::format("corun_networks{}", std::random_device{}())) {
    fs::create_directories(folder_ / "timelines");
    for (const auto& [name, ns] : {std::pair{"fast", 20'000}, {"slow", 200'000}}) {
      const json kernel = {{"grid", {66, 1, 1}}, {"block", {128, 1, 1}}, {"registers_per_thread", 32}};
      json first = kernel, second = kernel;
      first.update({{"name", "void gemm<float>(int)"}, {"solo_time_ns", ns}});
      second.update({{"name", "relu"}, {"solo_time_ns", ns}, {"grid", {33, 1, 1}}});
      write(fmt::format("{}.json", name),
            {{"corun_trace", 1},
             {"gpu", "h200"},
             {"kernels", {first, second}},
             {"programs",
              {{{"name", name},
                {"issue", "graph"},
                {"ops", {{{"launch", "void gemm<float>(int)"}}, {{"launch", "relu"}}}}}}},
             {"clients", {{{"name", "main"}, {"program", name}}}}});
    }
    write("mix.json", {{"corun_trace", 1},
                       {"gpu", "h200"},
                       {"include", {"fast.json", "slow.json"}},
                       {"clients",
                        {{{"name", "fast"},
                          {"program", "fast"},
                          {"class", "real_time"},
                          {"arrivals", {{"type", "periodic"}, {"period_ns", 1'000'000}}}},
                         {{"name", "slow"}, {"program", "slow"}}}},
                       {"run", {{"duration_ns", 20'000'000}}}});
    document_ = {
        {"corun_networks", 1},
        {"device", "a card"},
        {"networks",
         {{{"name", "fast"}, {"trace", "fast.json"}, {"graph_ms", {0.05, 0.03}}},
          {{"name", "slow"}, {"trace", "slow.json"}, {"graph_ms", {0.4}}, {"set_aside", true}}}},
        {"mixes", {{{"name", "mix"}, {"trace", "mix.json"}, {"networks", {"fast", "slow"}}}}},
        {"runs",
         {{{"mix", "mix"},
           {"mode", "streams"},
           {"policy", "fcfs"},
           {"clients",
            {{{{"latencies_us", {50, 60, 70}}, {"dropped", 1}}, {{"latencies_us", {60}}, {"dropped", 0}}},
             {{{"done", 9}, {"per_s", 2000.0}}, {{"done", 1}, {"per_s", nullptr}}}}}}}}};
  }
  ~Networks() override {
    std::error_code error;
    fs::remove_all(folder_, error);
  }
  void write(const std::string& name, const json& document) const {
    std::ofstream(folder_ / name) << document.dump();
  }
  MeasuredNetworks read(const NetworksOptions& options = {}) const {
    write("networks.json", document_);
    return read_networks(find_networks(folder_), options);
  }
  void expect_refused(const std::string& place, const json& value, const std::string& at,
                      const std::string& word) {
    const json valid = document_;
    document_[json::json_pointer(place)] = value;
    try {
      read();
      ADD_FAILURE() << "accepted; expected an error about " << word;
    } catch (const InputError& error) {
      EXPECT_EQ(error.place(), at) << error.what();
      EXPECT_THAT(error.what(), HasSubstr(word));
      EXPECT_NE(error.remedy(), "") << error.what();
    }
    document_ = valid;
  }
  fs::path folder_;
  json document_;
};

TEST_F(Networks, AreReadWithTheirRepeats) {
  const MeasuredNetworks all = read();
  ASSERT_THAT(all.runs, SizeIs(1));
  EXPECT_DOUBLE_EQ(all.networks[0].measured_ms, 0.04);
  EXPECT_TRUE(all.mixes[0].set_aside);
  EXPECT_THAT(all.runs[0].measured[0][0].latencies_us, ElementsAre(50, 60, 70));
  EXPECT_TRUE(std::isnan(all.runs[0].measured[1][1].per_s));
}

TEST_F(Networks, SayWhereTheyAreWrong) {
  expect_refused("/mixes/0/networks/1", "slwo", "/mixes/0/networks/1", "did you mean 'slow'");
  expect_refused("/mixes/0/networks", json::array({"fast"}), "/mixes/0/networks", "expected the 2 clients");
  expect_refused("/runs/0/clients", json::array({json::array({json::object()})}), "/runs/0/clients",
                 "expected the 2 clients");
  expect_refused("/runs/0/clients/0/1", json{{"per_s", 2.0}}, "/runs/0/clients/0/1",
                 "there is no latencies_us");
  expect_refused("/runs/0/mix", "other", "/runs/0/mix", "other");
  expect_refused("/networks/1/name", "fast", "/networks/1/name", "exists already");
  expect_refused("/runs/0/clients/1/1/per_s", "", "/runs/0/clients/1/1/per_s", "expected a number or null, got \"\"");
  expect_refused("/networks/0/graph_ms/0", -1, "/networks/0/graph_ms/0", "0");
}

TEST_F(Networks, WrongFilesEndTheCommandWithTwo) {
  document_["runs"][0].erase("policy");
  write("networks.json", document_);
  const int status = std::system(
      fmt::format("{} validate {} > /dev/null 2> {}/error", sim_file(), folder_.string(), folder_.string()).c_str());
  EXPECT_EQ(WEXITSTATUS(status), 2);
}

TEST_F(Networks, AreSimulatedAloneAndTogether) {
  for (const unsigned threads : {1u, 2u}) {
    NetworksOptions options;
    options.threads = threads;
    MeasuredNetworks all = read();
    simulate_networks(all, options);
    EXPECT_NEAR(all.networks[1].simulated_ms, 0.4, 0.02);
    const std::vector<Got>& got = all.runs[0].simulated;
    EXPECT_THAT(got[0].latencies_us, SizeIs(20));  // one a period
    EXPECT_GE(got[0].latencies_us.front(), 40);
    EXPECT_NEAR(got[1].per_s, 2500, 500);
    EXPECT_THAT(got[1].latencies_us, testing::IsEmpty());
    const NetworksScore score = score_networks(all);
    EXPECT_TRUE(score.others.by_mode.empty());
    EXPECT_THAT(score.set_aside.by_mode, SizeIs(1));
    EXPECT_THAT(format_networks(all, score), HasSubstr("set aside"));
    EXPECT_EQ(networks_json(all, score)["runs"][0]["clients"].size(), 2);
  }
}

/// The host's part, 0.5 ms a request, is longer than the kernels'.
TEST_F(Networks, AreSimulatedEagerlyWhereATraceSaysHowTheHostIssuesThem) {
  json eager = json::parse(std::ifstream(folder_ / "fast.json"));
  json& program = eager["programs"][0];
  program["issue"] = "eager";
  for (json& op : program["ops"]) op["host_gap_ns"] = 250'000;
  eager["clients"][0]["arrivals"] = {{"type", "closed_loop"}, {"in_flight", 8}};
  write("fast.eager.json", eager);
  document_["networks"][0].update({{"eager_trace", "fast.eager.json"}, {"eager_ms", {0.4, 0.6}}});
  MeasuredNetworks all = read();
  simulate_networks(all, {});
  EXPECT_DOUBLE_EQ(all.networks[0].measured_eager_ms, 0.5);
  EXPECT_NEAR(all.networks[0].simulated_eager_ms, 0.5, 0.02);
  EXPECT_NEAR(all.networks[0].simulated_ms, 0.04, 0.01);
  EXPECT_EQ(all.networks[1].simulated_eager_ms, 0);
  const NetworksScore score = score_networks(all);
  EXPECT_THAT(format_networks(all, score), HasSubstr("alone, eagerly, ms"));
  const auto eagerly = networks_json(all, score)["alone_eagerly"];
  ASSERT_EQ(eagerly.size(), 1);
  EXPECT_EQ(eagerly[0]["network"], "fast");
  EXPECT_EQ(eagerly[0]["measured_ms"], 0.5);
}

TEST_F(Networks, WithoutAnEagerTraceThereIsNoTableOfThem) {
  MeasuredNetworks all = read();
  simulate_networks(all, {});
  const NetworksScore score = score_networks(all);
  EXPECT_THAT(format_networks(all, score), testing::Not(HasSubstr("eagerly")));
  EXPECT_TRUE(networks_json(all, score)["alone_eagerly"].empty());
}

TEST_F(Networks, KernelsOfATimelineAreMatchedWithThoseOfTheTrace) {
  json events = json::array();
  const auto kernel = [&](int stream, const char* name, int blocks, double start, double duration) {
    events.push_back({{"ph", "X"},
                      {"cat", "kernel"},
                      {"name", name},
                      {"ts", start},
                      {"dur", duration},
                      {"args",
                       {{"device", 0},
                        {"context", 1},
                        {"stream", stream},
                        {"registers per thread", 32},
                        {"shared memory", 0},
                        {"grid", {blocks, 1, 1}},
                        {"block", {128, 1, 1}}}}});
  };
  kernel(7, "relu", 33, 5, 10);  // the end of a request that began before
  for (double at : {100.0, 300.0}) {
    kernel(7, "void gemm<float>(int)", 66, at, 30);
    kernel(7, "relu", 33, at + 32, 20);
    kernel(9, "void gemm<float>(int)", 66, at, 250);
    kernel(9, "relu", 33, at + 251, 220);
  }
  write("timelines/mix.streams.json", {{"schemaVersion", 1}, {"traceEvents", events}});
  write("networks.json", document_);
  const TimelineComparison found = compare_timeline(find_networks(folder_), "mix.streams", {});
  ASSERT_THAT(found.clients, SizeIs(2));
  ASSERT_THAT(found.clients[0].launches, SizeIs(2));
  EXPECT_EQ(found.clients[0].requests, 2);
  EXPECT_EQ(found.clients[0].unmatched, 1);
  const ComparedLaunch& second = found.clients[0].launches[1];
  EXPECT_EQ(second.kernel, "relu");
  EXPECT_NEAR(second.measured.wait, 2, 1e-6);
  EXPECT_NEAR(second.measured.duration, 20, 1e-6);
  EXPECT_DOUBLE_EQ(found.clients[0].launches[0].measured.wait, 0);
  EXPECT_GE(second.simulated.requests, 18);
  EXPECT_THAT(format_timeline(found), HasSubstr("gemm"));
  EXPECT_THROW(compare_timeline(find_networks(folder_), "mix.other", {}), InputError);
}

TEST(NetworksScore, NumbersAreOverAllRepeats) {
  const std::vector<Got> repeats = {{{100, 300}, 1, 0}, {{200}, 1, 0}};
  const ClientNumbers n = numbers_of(repeats, true, 0.1);
  EXPECT_EQ(n.requests, 3);
  EXPECT_DOUBLE_EQ(n.mean_us, 200);
  EXPECT_DOUBLE_EQ(n.p50_us, 200);
  EXPECT_DOUBLE_EQ(n.p99_us, 300);
  EXPECT_DOUBLE_EQ(n.slowdown, 2);
  EXPECT_DOUBLE_EQ(n.progress, 0.6);
  EXPECT_DOUBLE_EQ(spread_of(repeats, true), 0);
  const std::vector<Got> rates = {{{}, 0, 90}, {{}, 0, 110}};
  const ClientNumbers b = numbers_of(rates, false, 5);
  EXPECT_DOUBLE_EQ(b.per_s, 100);
  EXPECT_DOUBLE_EQ(b.progress, 0.5);
  EXPECT_DOUBLE_EQ(b.slowdown, 2);
  EXPECT_DOUBLE_EQ(spread_of(rates, false), 0.2);
}

TEST(NetworksScore, ARunWithoutARequestIsAWholeErrorAndAnUnknownMeasurementNone) {
  RatioErrors errors;
  errors.add(100, 90), errors.add(100, 130), errors.add(100, std::nan("")), errors.add(std::nan(""), 1);
  EXPECT_THAT(errors.values,
              ElementsAre(testing::DoubleNear(0.1, 1e-12), testing::DoubleNear(0.3, 1e-12), 1));
  EXPECT_NEAR(errors.median(), 0.3, 1e-12);
  EXPECT_DOUBLE_EQ(errors.worst(), 1);
}

/// A mix of a real-time and a best-effort client for each of `modes`: latency in us and throughput, measured
/// and simulated.
struct InMode {
  const char* name;
  double measured_us, measured_per_s, simulated_us, simulated_per_s;
};
MeasuredNetworks made_up(const std::vector<std::vector<InMode>>& mixes) {
  MeasuredNetworks all;
  all.networks = {{"a", {}, false, false, 0.1, 0.1}, {"b", {}, false, false, 1, 1}};
  for (const auto& modes : mixes) {
    NetworkMix mix{fmt::format("mix{}", all.mixes.size()), {}, {0, 1}, false, {}, {}};
    mix.trace.clients.resize(2);
    mix.trace.clients[0].service_class = ServiceClass::real_time;
    for (const InMode& m : modes)
      all.runs.push_back({all.mixes.size(),
                          m.name,
                          "fcfs",
                          {{{{m.measured_us}, 0, 0}}, {{{}, 0, m.measured_per_s}}},
                          {{{m.simulated_us}, 0, 0}, {{}, 0, m.simulated_per_s}}});
    all.mixes.push_back(std::move(mix));
  }
  return all;
}

TEST(NetworksScore, ErrorsAreByModeAndMix) {
  const NetworksScore s = score_networks(made_up({{{"x", 200, 500, 180, 550}, {"y", 100, 800, 100, 800}}}));
  const ErrorSet& x = s.others.by_mode.at("x");
  EXPECT_NEAR(x.mean_latency.mean(), 0.1, 1e-12);
  EXPECT_NEAR(x.throughput.mean(), 0.1, 1e-12);
  EXPECT_NEAR(x.stp.mean(), 1.55 / 1.5 - 1, 1e-12);
  EXPECT_TRUE(x.p99.values.empty()) << "one request makes no p99";
  EXPECT_NEAR(s.others.by_mix.at("mix0").mean_latency.mean(), 0.05, 1e-12);
}

TEST(NetworksScore, AChoiceIsRightWithinFivePercentOfTheBest) {
  // Slowdowns as measured: x (2 + 2) / 2, y (2.08 + 2) / 2, z (4 + 2) / 2.
  const NetworksScore near = score_networks(
      made_up({{{"x", 200, 500, 300, 500}, {"y", 208, 500, 150, 500}, {"z", 400, 500, 400, 500}}}));
  const Choices& y = near.others.by_slowdown.simulated;
  ASSERT_THAT(y.mixes, SizeIs(1));
  EXPECT_EQ(y.mixes[0].chosen, "y");
  EXPECT_EQ(y.mixes[0].best, "x");
  EXPECT_NEAR(y.mixes[0].regret, 0.02, 1e-12);
  EXPECT_EQ(y.right(), 1);
  EXPECT_EQ(near.others.by_slowdown.usual_mode, "x");
  const NetworksScore far = score_networks(made_up({{{"x", 200, 500, 300, 500}, {"z", 400, 500, 150, 500}}}));
  EXPECT_EQ(far.others.by_slowdown.simulated.right(), 0);
  EXPECT_NEAR(far.others.by_slowdown.simulated.worst_regret(), 0.5, 1e-12);
}

TEST(NetworksScore, ByP99AModeMustKeepTheThroughput) {
  // STP as measured: x 1.5, y 1.3: y is lost, for all its latency.
  const NetworksScore s = score_networks(made_up({{{"x", 200, 500, 200, 500}, {"y", 100, 300, 100, 500}}}));
  EXPECT_EQ(s.others.by_p99.simulated.mixes[0].best, "x");
  EXPECT_EQ(s.others.by_p99.simulated.mixes[0].chosen, "y");
  EXPECT_TRUE(std::isinf(s.others.by_p99.simulated.worst_regret()));
}

TEST(NetworksScore, AtMostATenthOfTheRowsIsLeftOutTheWidestFirst) {
  MeasuredNetworks all = made_up(std::vector<std::vector<InMode>>(5, {{"x", 100, 500, 100, 500}}));  // 10 rows
  all.runs[1].measured[1] = {{{}, 0, 500}, {{}, 0, 600}};
  all.runs[3].measured[1] = {{{}, 0, 500}, {{}, 0, 900}};
  const NetworksScore s = score_networks(all);
  EXPECT_EQ(s.wide, 2);
  EXPECT_EQ(s.left_out, 1);
  EXPECT_TRUE(s.rows[1].clients[1].counted);
  EXPECT_FALSE(s.rows[3].clients[1].counted);
  EXPECT_THAT(s.others.all.throughput.values, SizeIs(4));
  EXPECT_THAT(s.others.all.stp.values, SizeIs(4));
}

}  // namespace
}  // namespace corun::sim
