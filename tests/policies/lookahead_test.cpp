// `lookahead` takes the way of deciding whose forecast is best for its objective, and asks no more than its budget.
#include <gtest/gtest.h>

#include <map>

#include "policies/api/registry.h"
#include "tests/support/build.h"
#include "traces/model/error.h"

namespace corun::sim {
namespace {

/// Tells what the test says, of the ways in the order in which they are asked.
class Told final : public Forecast {
 public:
  Outlook look(const Snapshot& now, const WayOfDeciding& way, const ForecastBounds& bounds) override {
    asked.push_back(bounds);
    std::vector<Decision> decisions;
    way(now, decisions);
    would.push_back(decisions.size());
    Outlook o = outlooks[(asked.size() - 1) % outlooks.size()];
    o.reached = bounds.until;
    return o;
  }
  std::vector<Outlook> outlooks;
  std::vector<ForecastBounds> asked;
  std::vector<std::size_t> would;  // decisions of each way
};

/// A real-time client's launch and a best-effort client's, both pending, at 1 ms.
struct Scene {
  Gpu gpu = small_gpu(4);
  TraceBuilder b;
  std::vector<ClientView> clients;
  std::vector<LaunchView> launches;
  std::vector<LaunchId> pending;
  std::vector<StreamView> streams;
  std::vector<Notice> notices{RequestArrived{ClientId{0}}};
  Snapshot now;

  Scene() {
    const KernelId k = b.kernel(kernel(8, 1024, us(10)));
    b.client("urgent", b.program({launch(k)})).service_class = ServiceClass::real_time;
    b.client("rest", b.program({launch(k)}));
    b.trace.clients[0].deadline = us(500);
    for (std::uint32_t i = 0; i < 2; ++i) {
      ClientView c{ClientId{i}, &b.trace.clients[i]};
      c.busy = true;
      c.arrived_at = us(900);
      clients.push_back(c);
      LaunchView l;
      l.id = {i, i};
      l.client = ClientId{i};
      l.kernel = &b.trace.kernels[0];
      launches.push_back(l);
      pending.push_back(l.id);
    }
    for (std::uint32_t i = 0; i < 2; ++i) streams.push_back({ClientId{i}, StreamId{0}, 0, {}, {&pending[i], 1}});
    now.now = ms(1);
    now.notices = notices;
    now.clients = clients;
    now.launches = launches;
    now.pending = pending;
    now.streams = streams;
  }
};

/// The real-time request ends then, and this best-effort work is done.
Outlook outlook(Time ends, Time rest, Time urgent = us(100)) {
  Outlook o;
  o.clients.resize(2);
  o.clients[0].request_ends = ends;
  o.clients[0].work = urgent;
  o.clients[1].work = rest;
  return o;
}

/// Launches of the two clients under the way that is chosen of now/hold.
std::map<std::uint32_t, decide::Launch> chosen(const std::string& parameters, std::vector<Outlook> outlooks) {
  Scene scene;
  Told told;
  told.outlooks = std::move(outlooks);
  const auto policy = make_policy("lookahead:ways=now/hold" + parameters);
  policy->look_ahead(told);
  policy->start({scene.gpu, {}}, scene.clients);
  std::vector<Decision> decisions;
  policy->decide(scene.now, decisions);
  EXPECT_EQ(told.would, (std::vector<std::size_t>{2, 1}));
  std::map<std::uint32_t, decide::Launch> launches;
  for (const Decision& d : decisions)
    if (const auto* l = std::get_if<decide::Launch>(&d)) launches.emplace(l->launch.serial, *l);
  return launches;
}

TEST(Lookahead, HoldsBestEffortBackWhereTheRequestEndsEarlierByMoreThanTheSlack) {
  // 200 us from the arrival; 10 % more is as good, and then the work counts.
  EXPECT_EQ(chosen("", {outlook(us(1120), us(500)), outlook(us(1100), us(100))}).size(), 2u);
  EXPECT_EQ(chosen("", {outlook(us(1121), us(500)), outlook(us(1100), us(100))}).size(), 1u);
  EXPECT_EQ(chosen(",slack=0.5", {outlook(us(1200), us(500)), outlook(us(1100), us(100))}).size(), 2u);
  EXPECT_EQ(chosen(",slack=0.5", {outlook(us(1201), us(500)), outlook(us(1100), us(100))}).size(), 1u);
}

TEST(Lookahead, TakesTheFirstOfEquallyGoodWays) {
  EXPECT_EQ(chosen("", {outlook(us(1100), us(100)), outlook(us(1100), us(100))}).size(), 2u);
  EXPECT_EQ(chosen(",objective=stp", {outlook(us(1100), us(100)), outlook(us(1100), us(100))}).size(), 2u);
  EXPECT_EQ(chosen(",objective=deadlines", {outlook(us(1100), us(100)), outlook(us(1100), us(100))}).size(), 2u);
}

TEST(Lookahead, ThatLooksAtThroughputTakesTheMostWorkOfAll) {
  const Outlook much = outlook(us(1500), us(600), us(100)), less = outlook(us(1000), us(100), us(599));
  EXPECT_EQ(chosen(",objective=stp", {much, less}).size(), 2u);
  EXPECT_EQ(chosen(",objective=stp", {less, much}).size(), 1u);
}

TEST(Lookahead, ThatLooksAtDeadlinesLetsAllGoWhereNoneIsMissed) {
  EXPECT_EQ(chosen(",objective=deadlines", {outlook(us(1400), us(500)), outlook(us(1000), us(1))}).size(), 2u);
  EXPECT_EQ(chosen(",objective=deadlines", {outlook(us(1401), us(500)), outlook(us(1000), us(1))}).size(), 1u);
  EXPECT_EQ(chosen(",objective=deadlines", {outlook(kNever, us(500)), outlook(us(1400), us(1))}).size(), 1u);
}

TEST(Lookahead, GivesRealTimeLaunchesTheHighestPriority) {
  const auto launches = chosen("", {outlook(us(1100), us(100)), outlook(us(1100), us(100))});
  EXPECT_EQ(launches.at(0).priority, -2);
  EXPECT_EQ(launches.at(1).priority, 0);
}

TEST(Lookahead, DividesItsBudgetAndLooksAgainAfterAnOccasionOnly) {
  Scene scene;
  Told told;
  told.outlooks = {outlook(us(1100), us(100))};
  const auto policy = make_policy("lookahead:ways=now/part/hold,budget_events=3000,horizon_us=700,every_us=50");
  policy->look_ahead(told);
  policy->start({scene.gpu, {}}, scene.clients);
  std::vector<Decision> decisions;
  const auto looks = [&](Time at, std::vector<Notice> notices) {
    told.asked.clear();
    scene.now.now = at;
    scene.now.notices = notices;
    policy->decide(scene.now, decisions);
    return told.asked.size();
  };
  ASSERT_EQ(looks(ms(1), {RequestArrived{ClientId{0}}}), 3u);
  EXPECT_EQ(told.asked[0].events, 1000u);
  EXPECT_EQ(told.asked[0].until, us(1700));
  EXPECT_EQ(looks(us(1050) - ps(1), {KernelFinished{{0, 0}}}), 0u);
  EXPECT_EQ(looks(us(1050), {KernelFinished{{0, 0}}}), 3u);
  EXPECT_EQ(looks(us(1051), {RequestFinished{ClientId{0}, 0}}), 3u);
}

TEST(Lookahead, NeedsWhatItsWaysNeedAndAForecast) {
  const auto needs = [](const std::string& ways) { return make_policy("lookahead:ways=" + ways)->requirements(); };
  EXPECT_TRUE(needs("now/hold").forecast);
  EXPECT_FALSE(needs("now/hold").capabilities.has(Capability::tpc_mask));
  EXPECT_TRUE(needs("now/part").capabilities.has(Capability::tpc_mask));
  EXPECT_FALSE(needs("now/part").capabilities.has(Capability::preempt_at_block));
  EXPECT_TRUE(needs("preempt").capabilities.has(Capability::preempt_at_block));
  EXPECT_THROW(needs("now/later"), InputError);
  EXPECT_THROW(needs(""), InputError);
}

}  // namespace
}  // namespace corun::sim
