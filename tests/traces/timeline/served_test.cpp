// How do a server's sequences count at the window's end, where some wait, some are under way, some are late?
#include "traces/timeline/served.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "traces/timeline/report.h"

namespace corun {
namespace {

constexpr Time of_ms(std::int64_t n) { return Time{n * 1'000'000'000}; }

/// A server of a window of 1 s.
class ServedSequences : public testing::Test {
 protected:
  /// It came, had its first token, and then one after each of `gaps`; it has as many as it wants if `wanted` is
  /// not more.
  void came(std::int64_t at, std::int64_t first, std::vector<std::int64_t> gaps = {}, std::uint32_t wanted = 0) {
    SequenceRecord r{ClientId{0}, serving_.sequences.size(), of_ms(at), of_ms(first), of_ms(first)};
    for (const std::int64_t gap : gaps) r.gaps.push_back(of_ms(gap)), r.finished += of_ms(gap);
    const auto has = static_cast<std::uint32_t>(gaps.size() + 1);
    if (wanted > has) r.finished = kNever;
    serving_.sequences.push_back({of_ms(at), 10, std::max(wanted, has)});
    records_.push_back(std::move(r));
  }
  /// It came; the run has no record of it, or one without a first token.
  void waits(std::int64_t at, bool recorded = false) {
    if (recorded) records_.push_back({ClientId{0}, serving_.sequences.size(), of_ms(at), kNever, kNever});
    serving_.sequences.push_back({of_ms(at), 10, 5});
  }
  ServedResult measured() const { Client client;
    client.serving = serving_;
    return measure_served(client, std::array{ClientId{0}}, window_, records_); }

  Serving serving_;
  Window window_{Time{}, of_ms(1000)};
  std::vector<SequenceRecord> records_;
};

TEST_F(ServedSequences, AllThatCameCountWhateverBecameOfThem) {
  came(0, 20, {5, 5});
  came(0, 40, {5}, 100);
  waits(0);
  waits(0, true);
  const ServedResult r = measured();
  EXPECT_EQ(r.sequences, 4u);
  EXPECT_EQ(r.finished, 1u);
  EXPECT_EQ(r.unfinished, 3u);
  EXPECT_EQ(r.waiting, 2u);
  EXPECT_EQ(r.first_token.endless, 2u);
  EXPECT_EQ(r.end_to_end.endless, 3u);
}

TEST_F(ServedSequences, AFirstTokenThatNeverCameIsInfiniteInQuantilesAndAtLeastTheWaitInTheMean) {
  came(0, 20);
  came(0, 40);
  waits(400);
  EXPECT_EQ(measured().first_token_p50_ms, 40);
  EXPECT_TRUE(std::isinf(measured().first_token_p99_ms));
  EXPECT_NEAR(measured().first_token_mean_ms, (20 + 40 + 600) / 3.0, 1e-9);
  waits(400);
  EXPECT_EQ(measured().first_token_p50_ms, 40);
  waits(400);
  EXPECT_TRUE(std::isinf(measured().first_token_p50_ms)) << "most of them have none";
}

TEST_F(ServedSequences, OneThatIsNotYetOverItsLimitIsPendingAndOneOverItIsLate) {
  serving_.first_token_slo = of_ms(100);
  came(0, 100);
  waits(899);
  waits(900);
  const ServedResult r = measured();
  EXPECT_EQ(r.good, 1u) << "at the limit it holds";
  EXPECT_EQ(r.late, 1u) << "101 ms";
  EXPECT_EQ(r.pending, 1u) << "100 ms";
  EXPECT_EQ(r.first_token.endless, 1u);
  EXPECT_NEAR(r.first_token_mean_ms, (100 + 101) / 2.0, 1e-9) << "the pending one says nothing yet";
}

TEST_F(ServedSequences, EachOfThreePromisesCanBeBroken) {
  const auto late = [&](auto limit, std::int64_t at) {
    serving_.first_token_slo = serving_.between_tokens_slo = serving_.end_to_end_slo = std::nullopt;
    serving_.*limit = of_ms(at);
    const ServedResult r = measured();
    EXPECT_EQ(r.good + r.late + r.pending, r.sequences);
    return r.late;
  };
  came(0, 50, {10, 30});
  EXPECT_EQ(late(&Serving::first_token_slo, 50), 0u);
  EXPECT_EQ(late(&Serving::first_token_slo, 49), 1u);
  EXPECT_EQ(late(&Serving::between_tokens_slo, 20), 0u) << "20 in its mean";
  EXPECT_EQ(late(&Serving::between_tokens_slo, 19), 1u);
  EXPECT_EQ(late(&Serving::end_to_end_slo, 90), 0u);
  EXPECT_EQ(late(&Serving::end_to_end_slo, 89), 1u);
  EXPECT_EQ(measured().goodput_per_s, 0);
}

TEST_F(ServedSequences, OneUnderWayIsLateOnceItCanNoLongerKeepItsPromise) {
  came(0, 100, {100}, 10);
  serving_.between_tokens_slo = of_ms(100);
  EXPECT_EQ(measured().pending, 1u) << "900 ms for nine tokens, of which none is too late yet";
  serving_.between_tokens_slo = of_ms(99);
  EXPECT_EQ(measured().late, 1u);
  serving_.between_tokens_slo.reset();
  serving_.end_to_end_slo = of_ms(1000);
  EXPECT_EQ(measured().pending, 1u);
  EXPECT_EQ(measured().end_to_end.endless, 0u);
  serving_.end_to_end_slo = of_ms(999);
  EXPECT_EQ(measured().late, 1u);
  EXPECT_TRUE(std::isinf(measured().end_to_end_p50_ms));
}

TEST_F(ServedSequences, OneUnderWayIsLateWhereItsTokensSoFarAreTooSlowAndNotForOneLongGap) {
  const auto late = [&](std::vector<std::int64_t> gaps) {
    records_.clear(), serving_.sequences.clear();
    came(800, 850, std::move(gaps), 100);
    return measured().late;
  };
  serving_.between_tokens_slo = of_ms(15);
  EXPECT_EQ(late({20, 20, 20}), 1u);
  EXPECT_EQ(late({10, 10, 10}), 0u);
  EXPECT_EQ(late({60, 5, 5, 5}), 0u) << "19 in the mean, once for another's prompt";
  EXPECT_EQ(late({60}), 0u);
}

TEST_F(ServedSequences, WithoutAPromiseNothingIsLate) {
  waits(0);
  came(0, 900, {50}, 3);
  came(0, 900);
  const ServedResult r = measured();
  EXPECT_EQ(r.late, 0u);
  EXPECT_EQ(r.good, 1u);
  EXPECT_EQ(r.pending, 2u);
}

TEST_F(ServedSequences, PerTokenIsOfSequencesAndBetweenTokensOfGaps) {
  came(0, 10, {10, 10, 40});
  came(0, 10, {100});
  came(0, 10);
  const ServedResult r = measured();
  EXPECT_NEAR(r.per_token_mean_ms, (20 + 100) / 2.0, 1e-9) << "one token has none";
  EXPECT_EQ(r.per_token_p50_ms, 20);
  EXPECT_NEAR(r.between_tokens_mean_ms, 160 / 4.0, 1e-9);
  EXPECT_EQ(r.between_tokens_p50_ms, 10);
  EXPECT_EQ(r.end_to_end_p99_ms, 110);
}

TEST_F(ServedSequences, ASequenceThatStandsStillIsSeenInItsOpenGap) {
  came(0, 10, {10, 10}, 100);
  EXPECT_EQ(measured().between_tokens_p99_ms, 970) << "since 30 ms";
  EXPECT_NEAR(measured().per_token_p50_ms, 990 / 3.0, 1e-9);
  records_.clear(), serving_.sequences.clear();
  came(900, 910, {45, 42}, 100);
  EXPECT_EQ(measured().between_tokens_p99_ms, 45) << "3 ms say nothing";
}

TEST_F(ServedSequences, RatesAreOfWhatTheWindowSawAndCountsOfWhatCameInIt) {
  came(0, 400, {200, 300});   // two tokens and the end in the window
  came(600, 700, {100}, 2);   // all of it
  came(950, 990, {5, 100});   // two tokens
  waits(1000);                // as it ends
  window_.begin = of_ms(500);
  const ServedResult r = measured();
  EXPECT_EQ(r.sequences, 2u);
  EXPECT_EQ(r.finished, 1u);
  EXPECT_EQ(r.sequences_per_s, 2 / 0.5);
  EXPECT_EQ(r.goodput_per_s, 2 / 0.5);
  EXPECT_EQ(r.tokens_per_s, (2 + 2 + 2) / 0.5);
}

TEST_F(ServedSequences, TheTableHasOneMeaningOfMissesAndTellsInfinityFromNothing) {
  serving_.first_token_slo = of_ms(100);
  came(0, 20, {5});
  for (int i = 0; i < 9; ++i) waits(0);
  RunResult r;
  r.policy = "fcfs", r.duration = of_ms(1000);
  r.clients.resize(1);
  r.clients[0].name = "llm", r.clients[0].served = measured(), r.clients[0].deadline_misses = measured().late;
  for (const std::string& text : {format_report(r), format_comparison({&r, 1})}) {
    EXPECT_NE(text.find("llm (steps)"), std::string::npos) << text;
    EXPECT_NE(text.find("Successful requests              1 of 10\n"), std::string::npos) << text;
    EXPECT_NE(text.find("Late: TTFT 100 ms                9 of 10\n"), std::string::npos) << text;
    EXPECT_NE(text.find("P99 TTFT (ms)                        inf\n"), std::string::npos) << text;
    EXPECT_NE(text.find("Mean TTFT (ms)                    >902.0\n"), std::string::npos) << text;
    EXPECT_NE(text.find("(9 of 10 without a first token)"), std::string::npos) << text;
  }
  EXPECT_NE(format_report(r).find("  9 of 10     0.000"), std::string::npos) << "misses\n" << format_report(r);
  std::stringstream text;
  write_summary(r, text);
  const auto served = nlohmann::json::parse(text)["clients"][0]["served"];
  EXPECT_EQ(served["sequences"], 10);
  EXPECT_EQ(served["late"], 9);
  EXPECT_EQ(served["first_token_infinite"], 9);
  EXPECT_TRUE(served["first_token_p99_ms"].is_null());
  EXPECT_EQ(served["first_token_limit_ms"], 100);
}

}  // namespace
}  // namespace corun
