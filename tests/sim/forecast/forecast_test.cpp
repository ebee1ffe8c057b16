// The simulator goes on from a Snapshot alone: does it foretell what then happens?
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <optional>

#include "policies/api/registry.h"
#include "policies/session/session.h"
#include "sim/backend/sim_backend.h"
#include "sim/forecast/forecast.h"
#include "tests/support/build.h"
#include "tests/support/collect.h"
#include "tests/support/random_trace.h"
#include "traces/model/error.h"

namespace corun::sim {
namespace {

void fcfs_way(const Snapshot& now, std::vector<Decision>& decisions) {
  for (const LaunchId id : now.pending) decisions.emplace_back(decide::Launch{id});
}

/// First come, first served, and at each snapshot `look` is called.
class Spy final : public Policy {
 public:
  using Look = std::function<void(const Snapshot&, Forecast&)>;
  explicit Spy(Look look) : look_(std::move(look)) {}
  std::string_view name() const override { return "spy"; }
  Requirements requirements() const override {
    Requirements needed{{Capability::order, Capability::preempt_at_block, Capability::cta_quota}};
    needed.forecast = true;
    return needed;
  }
  void look_ahead(Forecast& forecast) override { forecast_ = &forecast; }
  void decide(const Snapshot& now, std::vector<Decision>& decisions) override {
    look_(now, *forecast_);
    fcfs_way(now, decisions);
  }

 private:
  Look look_;
  Forecast* forecast_ = nullptr;
};

Collector run_with(const Trace& trace, const Gpu& gpu, Spy::Look look) {
  Collector ran;
  Timeline timeline;
  timeline.attach(ran);
  Spy spy(std::move(look));
  SimBackend backend(trace, gpu, spy.requirements(), timeline, {});
  backend.offer(make_forecast(trace, gpu, spy.requirements()));
  Session session(trace, spy, backend, timeline, {});
  session.run();
  backend.close();
  timeline.flush();
  return ran;
}

/// By serial of the launch.
std::map<std::uint32_t, Time> ends_of(const Collector& ran) {
  std::map<std::uint32_t, Time> ends;
  for (const KernelRecord& r : ran.kernels) ends[r.launch.serial] = r.finished;
  for (const CopyRecord& r : ran.copies) ends[r.launch.serial] = r.finished;
  return ends;
}

/// Of every launch that the forecasts of a run tell of, how far off: time of its end, over the time until
/// then and a microsecond.
struct Errors {
  std::vector<double> idle, busy;  // from snapshots with nothing on the GPU, and with something
};

double at_quantile(std::vector<double> values, double q) {
  std::ranges::sort(values);
  return values[static_cast<std::size_t>(q * static_cast<double>(values.size() - 1))];
}

enum class Channels : std::uint8_t { as_they_are, deep };  // deep: none is full, which would hold a host until a launch has ended

/// Of random workloads, from snapshots after the last arrival.
Errors errors_of(std::uint64_t seeds, Channels channels = Channels::as_they_are) {
  Errors errors;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    Scenario s = random_scenario(seed, Requests::one);
    if (channels == Channels::deep) s.gpu.channel_depth = 1024;
    Time last{};
    for (const Client& c : s.trace.clients)
      if (const auto* once = std::get_if<Once>(&c.arrivals)) last = std::max(last, once->at);
    struct Told {
      bool idle;
      Time at;
      Outlook outlook;
    };
    std::vector<Told> told;
    const Collector ran = run_with(s.trace, s.gpu, [&](const Snapshot& now, Forecast& forecast) {
      if (now.now >= last) told.push_back({now.running.empty(), now.now, forecast.look(now, fcfs_way, {})});
    });
    const auto ends = ends_of(ran);
    for (const Told& t : told) {
      EXPECT_TRUE(t.outlook.complete && !t.outlook.used_up) << seed;
      for (const Outlook::LaunchEnd& e : t.outlook.launches) {
        const Time end = ends.at(e.launch.serial);
        EXPECT_GE(e.at, t.at - us(1'000'000)) << seed;
        (t.idle ? errors.idle : errors.busy)
            .push_back(std::abs(to_ns(e.at) - to_ns(end)) / (to_ns(end - t.at) + 1000));
      }
    }
  }
  return errors;
}

TEST(Forecast, OfLaunchesThatHaveNotBegunIsExactWhereTheSnapshotSaysEverything) {
  // What it does not say: what is left in L2, which hardware channel is next, and whose stream launched last, on which
  // the start of a graph's next kernel depends (decision 315).
  const Errors errors = errors_of(200);
  ASSERT_GE(errors.idle.size(), 150u);
  const auto exact = std::ranges::count(errors.idle, 0.0);
  EXPECT_GE(exact * 100, 98 * static_cast<std::ptrdiff_t>(errors.idle.size()));
  EXPECT_LT(at_quantile(errors.idle, 1), 0.14);
}

TEST(Forecast, OfHalfFinishedLaunchesIsWithinAMeasuredBound) {
  // A full channel holds a host until a launch has ended, of which the forecast guesses what is left: a quarter of these GPUs have
  // channels of one to four launches.
  const Errors errors = errors_of(200), free = errors_of(200, Channels::deep);
  ASSERT_GE(errors.busy.size(), 5000u);
  ASSERT_GE(free.busy.size(), 5000u);
  std::printf("off by %.4f in the median, %.3f at 90 %%, %.2f at 99 %% of the time until the end\n",
              at_quantile(errors.busy, 0.5), at_quantile(errors.busy, 0.9), at_quantile(errors.busy, 0.99));
  EXPECT_LT(at_quantile(free.busy, 0.5), 0.0105);
  EXPECT_LT(at_quantile(free.busy, 0.9), 0.735);
  EXPECT_LT(at_quantile(errors.busy, 0.5), 0.0165);
  EXPECT_LT(at_quantile(errors.busy, 0.9), 0.735);
}

/// Two clients in closed loops on 4 SMs, each with a request of three kernels of 20 waves of 3 us.
struct Loops {
  Gpu gpu = slow_host_gpu(4);
  TraceBuilder b;
  Loops() {
    Kernel k = kernel(160, 1024, us(3));
    k.solo_time = us(60);
    const KernelId id = b.kernel(k);
    for (const char* name : {"a", "b"})
      b.client(name, b.program({launch(id), launch(id), launch(id)}), ClosedLoop{});
    b.trace.clients[0].service_class = ServiceClass::real_time;
    b.trace.run.duration = ms(2);
  }
};

TEST(Forecast, OfLaunchesUnderWayIsExactWhereNothingElseRanBeforeThem) {
  Loops w;
  w.b.trace.clients.resize(1);
  std::vector<Outlook> told;
  const Collector ran = run_with(w.b.trace, w.gpu, [&](const Snapshot& now, Forecast& forecast) {
    if (now.now > us(300) && now.now < us(900)) told.push_back(forecast.look(now, fcfs_way, {}));
  });
  const auto ends = ends_of(ran);
  ASSERT_GE(told.size(), 10u);
  for (const Outlook& o : told)
    for (const Outlook::LaunchEnd& e : o.launches) EXPECT_EQ(e.at, ends.at(e.launch.serial));
}

TEST(Forecast, TellsWhenRequestsEndAndIsTheSameTwiceAndLeavesTheRunAlone) {
  Loops w;
  std::size_t looks = 0;
  std::vector<std::pair<std::uint64_t, Time>> told;  // request of the first client, its end
  const Collector ran = run_with(w.b.trace, w.gpu, [&](const Snapshot& now, Forecast& forecast) {
    if (now.now > ms(1)) return;
    const Outlook o = forecast.look(now, fcfs_way, {}), again = forecast.look(now, fcfs_way, {});
    ASSERT_EQ(o.events, again.events);
    ASSERT_EQ(o.reached, again.reached);
    for (std::size_t i = 0; i < o.launches.size(); ++i) ASSERT_EQ(o.launches[i].at, again.launches[i].at);
    if (now.clients[0].busy) told.emplace_back(now.clients[0].request, o.clients[0].request_ends);
    ++looks;
  });
  const Collector alone = run_with(w.b.trace, w.gpu, [](const Snapshot&, Forecast&) {});
  EXPECT_EQ(lines(ran.kernels), lines(alone.kernels));
  EXPECT_GE(looks, 20u);
  std::size_t exact = 0;
  for (const auto& [request, ends] : told)
    for (const RequestRecord& r : ran.requests)
      if (r.client == ClientId{0} && r.request == request && r.finished != kNever) {
        exact += std::abs(to_ns(r.finished - ends)) < 1'000;
        EXPECT_LT(std::abs(to_ns(r.finished - ends)), 62'000)
            << "a launch of the other, of a request of some 380 us";
      }
  EXPECT_GE(exact, told.size() / 3);
}

TEST(Forecast, WithAllTheEventsThatItTakesIsCompleteAndWithOneLessIsNot) {
  Loops w;
  std::size_t looks = 0;
  run_with(w.b.trace, w.gpu, [&](const Snapshot& now, Forecast& forecast) {
    if (now.now < us(100) || now.now > us(600)) return;
    ++looks;
    const Outlook whole = forecast.look(now, fcfs_way, {});
    ASSERT_TRUE(whole.complete);
    ASSERT_GT(whole.events, 1u);
    const Outlook enough = forecast.look(now, fcfs_way, {kNever, whole.events});
    EXPECT_TRUE(enough.complete);
    EXPECT_FALSE(enough.used_up);
    EXPECT_EQ(enough.reached, whole.reached);
    const Outlook less = forecast.look(now, fcfs_way, {kNever, whole.events - 1});
    EXPECT_FALSE(less.complete);
    EXPECT_TRUE(less.used_up);
    EXPECT_LT(less.events, whole.events);
  });
  EXPECT_GE(looks, 5u);
}

TEST(Forecast, OfNothingIsCompleteAtOnceAndOfNoEventsToldAtOnce) {
  const Loops w;
  const Requirements needed{.capabilities = {Capability::order}, .forecast = true};
  const auto forecast = make_forecast(w.b.trace, w.gpu, needed);
  std::vector<ClientView> clients{{ClientId{0}, &w.b.trace.clients[0]}, {ClientId{1}, &w.b.trace.clients[1]}};
  Snapshot empty;
  empty.now = us(5);
  empty.clients = clients;
  const Outlook nothing = forecast->look(empty, fcfs_way, {});
  EXPECT_TRUE(nothing.complete);
  EXPECT_FALSE(nothing.used_up);
  EXPECT_EQ(nothing.events, 0u);
  EXPECT_EQ(nothing.reached, us(5));
  clients[0].requests_waiting = 1;
  const Outlook none = forecast->look(empty, fcfs_way, {kNever, 0});
  EXPECT_FALSE(none.complete);
  EXPECT_TRUE(none.used_up);
  EXPECT_EQ(none.reached, us(5));
}

TEST(Forecast, GoesToItsBoundOfTimeAndCountsTheWorkUntilThen) {
  Loops w;
  std::size_t looks = 0;
  run_with(w.b.trace, w.gpu, [&](const Snapshot& now, Forecast& forecast) {
    if (now.now < us(100) || now.now > us(600)) return;
    ++looks;
    const Outlook o = forecast.look(now, fcfs_way, {now.now + us(400)});
    EXPECT_EQ(o.reached, now.now + us(400));
    // Two that fill the GPU do 400 us of work in 400 us, less what launches and calls take.
    const Time work = o.clients[0].work + o.clients[1].work;
    EXPECT_GT(work, us(250));
    EXPECT_LE(work, us(410));
    // Who holds one back does nothing of it but what runs.
    const Outlook held = forecast.look(now,
                                       [](const Snapshot& then, std::vector<Decision>& decisions) {
                                         for (const LaunchId id : then.pending)
                                           if (then.launch(id).client == ClientId{0})
                                             decisions.emplace_back(decide::Launch{id});
                                       },
                                       {now.now + us(400)});
    EXPECT_GE(held.clients[0].work, o.clients[0].work);
    EXPECT_LE(held.clients[1].work, us(190));
  });
  EXPECT_GE(looks, 5u);
}

TEST(Forecast, GoesOnWithWhatIsLeftOfALaunchThatWasTakenOff) {
  Loops w;
  w.gpu.preemption.flag_place = PreemptionCosts::FlagPlace::relay;
  // The second client's launch is stopped once, and its rest goes on when it is launched again.
  class Stops final : public Policy {
   public:
    std::string_view name() const override { return "stops"; }
    Requirements requirements() const override {
      Requirements needed{{Capability::order, Capability::preempt_at_block}};
      needed.forecast = true;
      return needed;
    }
    void look_ahead(Forecast& forecast) override { forecast_ = &forecast; }
    void decide(const Snapshot& now, std::vector<Decision>& decisions) override {
      for (const LaunchId id : now.pending)
        if (const LaunchView& l = now.launch(id); l.blocks_done != 0 && !foretold) {
          left = 160 - l.blocks_done;
          foretold = forecast_->look(now, fcfs_way, {});
          stopped = id;
        }
      fcfs_way(now, decisions);
      if (!ordered && now.now > us(100))
        for (const LaunchId id : now.running)
          if (now.launch(id).client == ClientId{1} && !ordered) {
            decisions.emplace_back(decide::Preempt{id});
            ordered = true;
          }
      if (!ordered) decisions.emplace_back(decide::WakeAt{now.now + us(10)});
    }
    std::optional<Outlook> foretold;
    LaunchId stopped;
    std::uint64_t left = 0;

   private:
    Forecast* forecast_ = nullptr;
    bool ordered = false;
  } policy;
  Collector ran;
  Timeline timeline;
  timeline.attach(ran);
  SimBackend backend(w.b.trace, w.gpu, policy.requirements(), timeline, {});
  backend.offer(make_forecast(w.b.trace, w.gpu, policy.requirements()));
  Session session(w.b.trace, policy, backend, timeline, {});
  session.run();
  backend.close();
  ASSERT_TRUE(policy.foretold);
  ASSERT_LT(policy.left, 160u);
  const auto told = std::ranges::find(policy.foretold->launches, policy.stopped, &Outlook::LaunchEnd::launch);
  ASSERT_NE(told, policy.foretold->launches.end());
  const Time end = ends_of(ran).at(policy.stopped.serial);
  EXPECT_LT(std::abs(to_ns(end - told->at)), 7'000) << "two waves of blocks";
}

TEST(Forecast, IsRefusedClearlyWhereThereIsNone) {
  const Loops w;
  Spy spy([](const Snapshot&, Forecast&) {});
  Timeline timeline;
  SimBackend backend(w.b.trace, w.gpu, {{Capability::order}}, timeline, {});
  try {
    Session session(w.b.trace, spy, backend, timeline, {});
    FAIL();
  } catch (const InputError& e) {
    EXPECT_NE(std::string(e.what()).find("needs a forecast, which this backend cannot give"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace corun::sim
