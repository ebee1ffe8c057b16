// Does a server run as its steps do, beside others and alone, and add up?
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/run/run.h"
#include "traces/json/trace_json.h"
#include "traces/model/error.h"

namespace corun::sim {
namespace {

/// A prefill of two streams that meet, 300 us; a decode of two kernels, 100 us.
nlohmann::json server(const std::string& serving, const std::string& more = "{}") {
  nlohmann::json trace = nlohmann::json::parse(R"({"corun_trace": 1, "name": "s", "gpu": "h200",
    "kernels": [{"name": "p", "grid": [264,1,1], "block": [256,1,1], "solo_time_ns": 150000},
                {"name": "d", "grid": [132,1,1], "block": [128,1,1], "solo_time_ns": 50000}],
    "programs": [{"name": "prefill", "streams": ["a", "b"], "ops": [{"launch": "p", "name": "x"}, {"launch": "p", "stream": "b", "after": ["x"]}, {"sync": true}]},
                 {"name": "decode", "ops": [{"launch": "d"}, {"launch": "d"}, {"sync": true}]}],
    "clients": [{"name": "llm", "program": "decode"}], "run": {"duration_ns": 100000000}})");
  trace["clients"][0]["serving"] = nlohmann::json::parse(serving);
  trace["clients"][0].update(nlohmann::json::parse(more));
  return trace;
}
const std::string kSteps = R"("steps": [{"program": "prefill", "tokens": 128}, {"program": "decode", "batch": 4, "context": 1000}])";

RunResult run_it(const nlohmann::json& document) {
  const Trace trace = read_trace(document, "s.json");
  return run(trace, read_gpu("h200"), {{.policy = "fcfs"}});
}

TEST(Serving, ASequenceTakesItsStepsOneBehindTheOther) {
  const RunResult r = run_it(server("{" + kSteps + R"(, "sequences": [[1000000, 200, 11]]})"));
  ASSERT_TRUE(r.clients[0].served);
  const ServedResult& s = *r.clients[0].served;
  EXPECT_EQ(s.finished, 1u);
  EXPECT_EQ(r.clients[0].finished, 2u + 10u) << "two prefills, ten decodes";
  EXPECT_NEAR(s.first_token_mean_ms, 2 * 0.3, 0.05);
  EXPECT_NEAR(s.between_tokens_mean_ms, 0.1, 0.02);
  EXPECT_NEAR(s.tokens_per_s, 11 / 0.1, 1e-6);
  EXPECT_NEAR(r.clients[0].progress, 1, 1e-9) << "alone it is the same";
}

TEST(Serving, APromptBetweenTwoCapturedSizesTakesWhatLiesBetween) {
  nlohmann::json trace = server("{" + kSteps + R"(, "sequences": [[1000000, 192, 1], [90000000, 256, 1]]})");
  trace["programs"].push_back(trace["programs"][0]);
  trace["programs"].back()["name"] = "longer";
  for (auto& op : trace["programs"].back()["ops"])
    if (op.contains("launch")) op["solo_time_ns"] = 350000;
  trace["clients"][0]["serving"]["steps"].push_back({{"program", "longer"}, {"tokens", 256}});
  const RunResult r = run_it(trace);
  ASSERT_TRUE(r.clients[0].served);
  EXPECT_NEAR(2 * r.clients[0].served->first_token_mean_ms, 2 * 0.25 + 2 * 0.35, 0.1);
  EXPECT_NEAR(r.clients[0].progress, 1, 1e-9) << "alone it is the same";
}

TEST(Serving, TheGraphsOfTwoStepsAreNotOneLaunch) {
  nlohmann::json trace = server("{" + kSteps + R"(, "sequences": [[1000000, 200, 2]]})");
  for (auto& program : trace["programs"]) {
    program["ops"].erase(program["ops"].size() - 1);  // the wait between them
    for (auto& op : program["ops"]) op["graph"] = 1;
  }
  const Trace read = read_trace(trace, "s.json");
  const Program& merged = read.programs[read.clients[0].program.value];
  for (const OpId part : merged.parts)
    EXPECT_EQ(handed_over(read.clients[0], merged, part), HandedOver::first_of_graph);
}

TEST(Serving, GoodputCountsWhatKeepsAllItsLimits) {
  const std::string two = R"(, "sequences": [[0, 100, 11], [0, 100, 11]])";
  const auto good = [&](const std::string& limits) { return run_it(server("{" + kSteps + two + limits + "}")).clients[0].served->goodput_per_s; };
  EXPECT_NEAR(good(""), 20, 1e-6);
  EXPECT_NEAR(good(R"(, "first_token_slo_ns": 450000)"), 10, 1e-6) << "the second waits for the first one's prompt";
  EXPECT_NEAR(good(R"(, "between_tokens_slo_ns": 20000)"), 0, 1e-6);
}

TEST(Serving, AHundredAtOnceAreCountedAsAHundredUnderEveryPolicy) {
  std::string all;  // each reads for 1.2 ms and wants 50 tokens; 8 are in the batch
  for (int i = 0; i < 100; ++i) all += fmt::format("{}[0, 512, 50]", i == 0 ? "" : ", ");
  nlohmann::json document = server("{" + kSteps + R"(, "most_at_once": 8, "first_token_slo_ns": 5000000, "sequences": [)" + all + "]}");
  document["clients"].push_back({{"name", "other"}, {"program", "decode"}});
  document["run"]["duration_ns"] = 10000000;
  const Trace trace = read_trace(document, "s.json");
  for (const char* policy : {"fcfs", "timeslice", "priority", "mps"}) {
    const RunResult r = run(trace, read_gpu("h200"), {{.policy = policy}});
    const ServedResult& s = *r.clients[0].served;
    EXPECT_EQ(s.sequences, 100u) << policy;
    EXPECT_GE(s.waiting, 92u) << policy;
    EXPECT_GE(s.late, 92u) << policy;
    EXPECT_EQ(s.late, r.clients[0].deadline_misses) << policy;
    EXPECT_EQ(s.good + s.late + s.pending, 100u) << policy;
    EXPECT_TRUE(std::isinf(s.first_token_p99_ms)) << policy;
  }
}

/// Loads beyond what the server can do, each with what must come of it: none of those that cannot keep their promise counts as kept.
TEST(Serving, OverloadIsNoSuccessHoweverItComes) {
  const auto every = [](int count, double apart_ns, int prompt, int tokens) {
    std::string all;
    for (int i = 0; i < count; ++i) all += fmt::format("{}[{}, {}, {}]", i == 0 ? "" : ", ", static_cast<std::int64_t>(i * apart_ns), prompt, tokens);
    return all;
  };
  struct {
    const char* name;
    std::string sequences, limits;
    int window_us;
    std::uint64_t came, good, late;  // by hand: 0.3 ms a prompt of 128, 0.1 ms a token, of at most 4 sequences at once
  } const kLoads[] = {
      // A prompt takes 0.3 ms and comes each 0.1: the k-th one has its token at 0.3 k, 0.2 k after it came, so from the fifth on 1 ms is over; of those the 46 that came by 5 ms are late.
      {"prompts thrice as fast as they are read", every(60, 100e3, 128, 1), R"("first_token_slo_ns": 1000000)", 6000, 60, 4, 46},
      // All want 100 tokens: 10 ms; in 6 ms no one ends, and the first four have begun.
      {"long answers of which none ends", every(40, 0, 128, 100), R"("first_token_slo_ns": 2000000)", 6000, 40, 0, 36},
      // A token each 0.1 ms, promised each 0.05.
      {"tokens slower than promised", every(3, 0, 128, 60), R"("between_tokens_slo_ns": 50000)", 9000, 3, 0, 3},
      // The whole answer in 1 ms: 0.3 for the prompt and 1.9 for its tokens are 2.2.
      {"answers that end too late", every(4, 10e6, 128, 20), R"("end_to_end_slo_ns": 1000000)", 60000, 4, 0, 4},
      // Arrivals from the 21st on come after the window.
      {"half of them after the window", every(40, 1e6, 128, 1), R"("first_token_slo_ns": 1000000)", 20000, 20, 20, 0}};
  for (const auto& [name, sequences, limits, window_us, came, good, late] : kLoads) {
    nlohmann::json document = server("{" + kSteps + R"(, "most_at_once": 4, )" + limits + R"(, "sequences": [)" + sequences + "]}");
    document["run"]["duration_ns"] = window_us * 1000;
    for (const char* policy : {"fcfs", "timeslice", "mps"}) {
      const RunResult r = run(read_trace(document, "s.json"), read_gpu("h200"), {{.policy = policy}});
      const ServedResult& s = *r.clients[0].served;
      EXPECT_EQ(s.sequences, came) << name << policy;
      EXPECT_EQ(s.good, good) << name << policy;
      EXPECT_GE(s.late, late) << name << policy;
      EXPECT_EQ(s.good + s.late + s.pending, s.sequences) << name << policy;
      EXPECT_EQ(s.late, r.clients[0].deadline_misses) << name << policy;
      EXPECT_NEAR(s.goodput_per_s, static_cast<double>(s.good) * 1e6 / window_us, 1e-6) << name << policy;
    }
  }
}

TEST(Serving, TheTimeBetweenTokensGrowsWithAContextBeyondWhatWasCapturedAndANoteSaysHowMuch) {
  nlohmann::json document = server("{" + kSteps + R"(, "sequences": [[0, 1, 3]]})");
  document["programs"].push_back(document["programs"][1]);
  document["programs"].back()["name"] = "longer";
  for (auto& op : document["programs"].back()["ops"])
    if (op.contains("launch")) op["solo_time_ns"] = 60000;  // 20 us for 4,000 tokens
  auto& serving = document["clients"][0]["serving"];
  serving["steps"].push_back({{"program", "longer"}, {"batch", 4}, {"context", 2000}});
  const auto between = [&](int context, const char* note) {
    serving["sequences"] = {{0, 1, 3}, {0, 1, 3}, {0, 1, 3}, {0, 1, 3}};
    for (auto& sequence : serving["sequences"]) sequence[1] = context;
    document["run"]["duration_ns"] = 9'000'000'000;
    const RunResult r = run_it(document);
    const std::vector<std::string> notes = texts_of(r);
    const bool said = std::ranges::any_of(notes, [&](const std::string& text) { return text.find("outside of all captured") != std::string::npos; });
    EXPECT_EQ(said, *note != '\0') << context;
    EXPECT_TRUE(!said || std::ranges::any_of(notes, [&](const std::string& text) { return text.find(note) != std::string::npos; })) << context;
    return r.clients[0].served->between_tokens_p50_ms;
  };
  EXPECT_NEAR(between(1500, ""), 0.11, 0.02);
  EXPECT_NEAR(between(400, "100 % of its tokens"), 0.1 - 0.012, 0.02);
  EXPECT_NEAR(between(100'000, "5 ns a token of context"), 0.12 + 98'000 * 4 * 5e-6, 0.05);
}

TEST(Serving, APrefixCacheSkipsWhatItHasAndTheResultSaysHowMuch) {
  const std::string two = R"(, "sequences": [[0, 256, 2, [1, 2]], [50000000, 257, 2, [1, 2]]], "prefix_block": 128)";
  const ServedResult with = *run_it(server("{" + kSteps + two + R"(, "prefix_cache": 1000})")).clients[0].served;
  EXPECT_EQ(with.prompt_tokens, 513u);
  EXPECT_EQ(with.cached_tokens, 256u);
  const ServedResult without = *run_it(server("{" + kSteps + two + "}")).clients[0].served;
  EXPECT_EQ(without.prompt_tokens, 0u);
  EXPECT_NEAR(without.first_token_mean_ms - with.first_token_mean_ms, 2 * 0.3 / 2, 0.05) << "two of three chunks";
}

TEST(Serving, AnEndToEndLimitIsReadAndKept) {
  const auto late = [](const std::string& limit) {
    return run_it(server("{" + kSteps + R"(, "sequences": [[0, 100, 11]], "end_to_end_slo_ns": )" + limit + "}")).clients[0].served->late;
  };
  EXPECT_EQ(late("1500000"), 0u) << "a prompt of 0.3 ms and ten decodes of 0.1";
  EXPECT_EQ(late("1200000"), 1u);
}

TEST(Serving, TheFastWayGivesWhatTheSlowOneDoes) {
  const Trace trace = read_trace(server("{" + kSteps + R"(, "sequences": [[0, 200, 30], [500000, 100, 20], [900000, 300, 5]]})"), "s.json");
  EngineOptions slow;
  slow.shortcuts = false;
  const RunResult a = run(trace, read_gpu("h200"), {{.policy = "fcfs"}});
  const RunResult b = run(trace, read_gpu("h200"), {{.policy = "fcfs"}, slow});
  EXPECT_EQ(a.clients[0].served->first_token_p99_ms, b.clients[0].served->first_token_p99_ms);
  EXPECT_EQ(a.clients[0].served->between_tokens_p99_ms, b.clients[0].served->between_tokens_p99_ms);
}

TEST(Serving, WhatIsNoServerIsRefusedAtItsPlace) {
  const auto refused = [](const nlohmann::json& document, const std::string& words) {
    try {
      read_trace(document, "s.json");
      ADD_FAILURE() << "not refused: " << words;
    } catch (const InputError& error) {
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  };
  const std::string one = R"(, "sequences": [[0, 1, 1]])";
  refused(server(R"({"steps": [{"program": "decode", "batch": 1, "context": 9}, {"program": "decode", "batch": 2, "context": 9}])" + one + "}"),
          "/clients/0/serving: no step reads a prompt");
  refused(server(R"({"steps": [{"program": "prefill", "tokens": 1}, {"program": "prefill", "tokens": 2}])" + one + "}"), "no step decodes");
  refused(server(R"({"steps": [{"program": "prefil", "tokens": 1}, {"program": "decode", "batch": 2, "context": 9}])" + one + "}"),
          "/clients/0/serving/steps/0/program");
  refused(server("{" + kSteps + R"(, "sequences": [[5, 1, 1], [4, 1, 1]]})"), "/clients/0/serving/sequences/1");
  refused(server("{" + kSteps + one + "}", R"({"arrivals": {"type": "once"}})"), "/clients/0/arrivals");
  refused(server("{" + kSteps + R"(, "sequences": [[0, 0, 1]]})"), "/clients/0/serving/sequences/0");
}

}  // namespace
}  // namespace corun::sim
