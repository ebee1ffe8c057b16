// Is all that a policy asks of the future counted, and does it decide as without the meter?
#include "sim/run/metered.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <thread>

#include "tests/support/build.h"

namespace corun::sim {
namespace {

/// Each look takes ten events.  What is asked is refused, or answered when the test says so.
struct TenEvents final : Forecast {
  Outlook look(const Snapshot&, const WayOfDeciding&, const ForecastBounds&) override {
    Outlook outlook;
    outlook.events = 10;
    return outlook;
  }
  bool ask(const Snapshot& now, std::span<const WayOfDeciding> ways, const ForecastBounds& each) override {
    return takes && Forecast::ask(now, ways, each);
  }
  std::optional<Foretold> answer() override { return answers ? Forecast::answer() : std::nullopt; }
  bool takes = true, answers = true;
};

/// Does at each decision what the test says.
struct LooksAhead final : Policy {
  std::string_view name() const override { return "looks ahead"; }
  Requirements requirements() const override { return {{Capability::priority}}; }
  void start(const Topology& topology, std::span<const ClientView> clients) override {
    sms = topology.gpu.sms, of = clients.size();
  }
  void look_ahead(Forecast& given) override { forecast = &given; }
  void decide(const Snapshot& now, std::vector<Decision>& decisions) override {
    if (does) does(now);
    decisions.emplace_back(decide::WakeAt{now.now + us(1)});
  }
  void look(const Snapshot& now) { events = forecast->look(now, {}, {}).events; }
  std::function<void(const Snapshot&)> does{};
  Forecast* forecast = nullptr;
  std::uint64_t events = 0;
  std::size_t sms = 0, of = 0;
};

struct Metered {
  LooksAhead policy;
  TenEvents forecast;
  MeteredPolicy metered{policy};

  Metered() { metered.look_ahead(forecast); }
  std::vector<Decision> decide(Time at = {}) {
    Snapshot now;
    now.now = at;
    std::vector<Decision> decisions;
    metered.decide(now, decisions);
    return decisions;
  }
  RunResult::LookedAhead sum() const { return metered.sum(); }
};

TEST(MeteredPolicy, IsThePolicyToAllThatAsk) {
  Metered m;
  EXPECT_EQ(m.metered.name(), "looks ahead");
  EXPECT_TRUE(m.metered.requirements().capabilities.has(Capability::priority));
  const std::vector<ClientView> clients(3);
  m.metered.start({small_gpu(4), {}}, clients);
  EXPECT_EQ(m.policy.sms, 4u);
  EXPECT_EQ(m.policy.of, 3u);
  const std::vector<Decision> decisions = m.decide(us(5));
  ASSERT_EQ(decisions.size(), 1u);
  EXPECT_EQ(std::get<decide::WakeAt>(decisions[0]).at, us(6));
}

TEST(MeteredPolicy, CountsDecisionsWithForecastsTheForecastsAndTheirEvents) {
  Metered m;
  m.decide();
  EXPECT_EQ(m.sum().decisions, 0u) << "it asked for none";
  m.policy.does = [&](const Snapshot& now) { m.policy.look(now), m.policy.look(now); };
  m.decide();
  EXPECT_EQ(m.policy.events, 10u) << "the policy is told what the forecast says";
  m.policy.does = {};
  m.decide();
  EXPECT_EQ(m.sum().decisions, 1u);
  EXPECT_EQ(m.sum().forecasts, 2u);
  EXPECT_EQ(m.sum().events, 20u);
}

TEST(MeteredPolicy, WhatIsAskedCountsWithTheDecisionThatAskedAndTheForecastsWithTheirAnswer) {
  Metered m;
  m.forecast.answers = false;
  m.policy.does = [&](const Snapshot& now) {
    const WayOfDeciding ways[3];
    m.policy.forecast->ask(now, ways, {});
  };
  m.decide();
  EXPECT_EQ(m.sum().decisions, 1u);
  EXPECT_EQ(m.sum().forecasts, 0u);
  m.forecast.answers = true;
  m.policy.does = [&](const Snapshot&) {
    EXPECT_EQ(m.policy.forecast->answer().value().outlooks.size(), 3u);
  };
  m.decide();
  EXPECT_EQ(m.sum().decisions, 1u) << "this one took no forecast";
  EXPECT_EQ(m.sum().forecasts, 3u);
  EXPECT_EQ(m.sum().events, 30u);
}

TEST(MeteredPolicy, WhatIsRefusedCountsForNothing) {
  Metered m;
  m.forecast.takes = false;
  m.policy.does = [&](const Snapshot& now) {
    const WayOfDeciding ways[1];
    EXPECT_FALSE(m.policy.forecast->ask(now, ways, {}));
    EXPECT_EQ(m.policy.forecast->answer(), std::nullopt);
  };
  m.decide();
  EXPECT_EQ(m.sum().decisions, 0u);
  EXPECT_EQ(m.sum().forecasts, 0u);
  EXPECT_EQ(m.sum().max_us, 0);
}

TEST(MeteredPolicy, OneSlowDecisionIsBeyondP99FromAHundredOn) {
  for (const int decisions : {99, 100}) {
    Metered m;
    for (int i = 0; i < decisions; ++i) {
      m.policy.does = [&](const Snapshot& now) {
        m.policy.look(now);
        if (i == 50) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      };
      m.decide();
    }
    const RunResult::LookedAhead sum = m.sum();
    EXPECT_GE(sum.max_us, 5000);
    EXPECT_GE(sum.mean_us, 5000.0 / decisions);
    EXPECT_LT(sum.mean_us, sum.max_us);
    EXPECT_EQ(sum.p99_us == sum.max_us, decisions == 99);
  }
}

}  // namespace
}  // namespace corun::sim
