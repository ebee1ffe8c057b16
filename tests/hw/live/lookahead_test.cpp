// A policy that looks ahead, on programs of which the books know what a Snapshot shows: what it is told, and
// what it decides.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "hw/live/beside.h"
#include "policies/service/books.h"
#include "sim/forecast/forecast.h"
#include "tests/support/build.h"
#include "traces/model/error.h"

namespace corun::live {
namespace {

/// Keeps what was foretold.
class Overheard final : public Forecast {
 public:
  Overheard(std::unique_ptr<Forecast> of, std::vector<Outlook>& all) : of_(std::move(of)), all_(all) {}
  Outlook look(const Snapshot& now, const WayOfDeciding& way, const ForecastBounds& bounds) override {
    all_.push_back(of_->look(now, way, bounds));
    const Outlook again = of_->look(now, way, bounds);
    EXPECT_EQ(again.events, all_.back().events);
    EXPECT_EQ(again.reached, all_.back().reached);
    EXPECT_EQ(again.launches.size(), now.running.size() + now.pending.size());
    for (std::size_t i = 0; i < again.launches.size(); ++i) {
      EXPECT_EQ(again.launches[i].at, all_.back().launches[i].at);
      EXPECT_EQ(again.launches[i].launch,
                i < now.running.size() ? now.running[i] : now.pending[i - now.running.size()]);
    }
    return again;
  }

 private:
  std::unique_ptr<Forecast> of_;
  std::vector<Outlook>& all_;
};

class Ahead : public testing::Test {
 protected:
  Ahead() {
    busy_.name = "busy", busy_.grid = {2, 1, 1}, busy_.block = {1024, 1, 1}, busy_.registers_per_thread = 32;
    request_ = busy_;
    graph_.name = "graph 0", graph_.grid = {8, 1, 1}, graph_.block = {1, 1, 1};
    work_ = books_.join({"work", ServiceClass::best_effort, 0});
    cam_ = books_.join({"cam", ServiceClass::real_time, -5});
  }
  static Time us(double us) { return from_ns(1e3 * us); }
  std::size_t decide(double at) {
    granted_.clear();
    outlooks_.clear();
    books_.decide(us(at), granted_);
    return granted_.size();
  }
  /// It has looked, and the policy decides again.
  std::size_t foretold(double at) {
    books_.hear_forecast();
    granted_.clear();
    books_.decide(us(at), granted_);
    return granted_.size();
  }
  /// The first two ways that were asked about, in the order of `ways`.
  Time request_ends(std::size_t way) const { return outlooks_.at(way).clients[cam_].request_ends; }

  std::vector<Outlook> outlooks_;
  Books books_{"lookahead:ways=now/hold,slack=0,horizon_us=5000,budget_events=1000000",
               sim::small_gpu(2),
               {.in_flight = 4,
                .forecast = [this](const Gpu& gpu, const Requirements& needed) {
                  return std::make_unique<ForecastBeside>(std::make_unique<Overheard>(sim::make_forecast(gpu, needed), outlooks_));
                }}};
  Kernel busy_, request_, graph_;
  std::uint32_t work_ = 0, cam_ = 0;
  std::vector<Granted> granted_;
};

TEST_F(Ahead, AKernelAloneIsForetoldToTakeWhatItTookAndOneThatWasNeverSeenTenMicroseconds) {
  for (const double took : {10.0, 320.0}) {
    if (took != 10) request_.solo_time = us(took);
    books_.asked(cam_, 0, took == 10 ? 1 : 2, request_, us(1000));
    ASSERT_EQ(decide(1000), 1u);
    EXPECT_EQ(foretold(1000), 0u);
    ASSERT_EQ(outlooks_.size(), 2u);
    const double ends = to_ns(request_ends(0) - us(1000)) / 1e3;
    EXPECT_GE(ends, took * 15 / 16) << "times are rounded down to a part in 16";
    EXPECT_LE(ends, took + 15) << "the launch, its notice, and the kernel";
    books_.ended(cam_, 0, took == 10 ? 1 : 2, us(1001));
    books_.waits(cam_);
    decide(1002);
  }
}

TEST_F(Ahead, ABestEffortProgramIsForetoldToGoOnAsItDoesAndARealTimeOneToBeDoneWithItsRequest) {
  busy_.solo_time = us(100);
  books_.asked(work_, 0, 1, busy_, us(0));
  books_.asked(cam_, 0, 1, request_, us(0));
  ASSERT_EQ(decide(0), 2u);
  foretold(0);
  EXPECT_GE(outlooks_.at(0).clients[work_].requests, 40u) << "of 50 that fit in";
  EXPECT_EQ(outlooks_.at(0).clients[cam_].requests, 1u);
}

TEST_F(Ahead, WhereNoRealTimeRequestIsUnderWayNothingIsAsked) {
  books_.asked(work_, 0, 1, busy_, us(0));
  ASSERT_EQ(decide(0), 1u);
  EXPECT_EQ(foretold(0), 0u);
  EXPECT_TRUE(outlooks_.empty());
  books_.asked(cam_, 0, 1, request_, us(1));
  ASSERT_EQ(decide(1), 1u);
  foretold(1);
  EXPECT_EQ(outlooks_.size(), 2u);
}

TEST_F(Ahead, AGraphIsHurtByEachKernelThatComesBetweenItsPartsAndSoBestEffortIsHeld) {
  busy_.solo_time = us(200), graph_.solo_time = us(400);
  for (std::uint32_t n = 1; n <= 2; ++n) books_.asked(work_, 0, n, busy_, us(0));
  books_.asked(cam_, 0, 1, graph_, us(0));
  EXPECT_EQ(decide(0), 3u) << "as was chosen last, while it looks";
  foretold(0);
  ASSERT_EQ(outlooks_.size(), 2u);
  EXPECT_GT(to_ns(request_ends(0)), to_ns(request_ends(1)) + 100e3)
      << "beside kernels of 200 us, and with them held";
  books_.asked(work_, 0, 3, busy_, us(10));
  EXPECT_EQ(decide(10), 0u) << "held";
  books_.ended(cam_, 0, 1, us(450));
  books_.waits(cam_);
  EXPECT_EQ(decide(451), 1u) << "and no longer";
}

TEST(AheadOfTime, AnSloIsADeadlineOfEachRequest) {
  for (const int slo : {600, 3000}) {  // us; alone the graph takes 400, beside kernels of 200 more than the 700 that are looked at
    Books books("lookahead:ways=now/hold,horizon_us=700,budget_events=1000000,objective=deadlines", sim::small_gpu(2),
                {.forecast = [](const Gpu& gpu, const Requirements& needed) { return std::make_unique<ForecastBeside>(sim::make_forecast(gpu, needed)); }});
    const std::uint32_t work = books.join({"work", ServiceClass::best_effort, 0});
    const std::uint32_t cam = books.join({"cam", ServiceClass::real_time, -5, {}, {}, sim::us(slo)});
    Kernel busy, graph;
    busy.name = "busy", busy.grid = {2, 1, 1}, busy.block = {1024, 1, 1}, busy.registers_per_thread = 32, busy.solo_time = sim::us(200);
    graph.name = "graph 0", graph.grid = {8, 1, 1}, graph.block = {1, 1, 1}, graph.solo_time = sim::us(400);
    std::vector<Granted> granted;
    for (std::uint32_t n = 1; n <= 2; ++n) books.asked(work, 0, n, busy, sim::us(0));
    books.asked(cam, 0, 1, graph, sim::us(0));
    books.decide(sim::us(0), granted);
    ASSERT_EQ(granted.size(), 3u);
    books.hear_forecast();
    books.asked(work, 0, 3, busy, sim::us(10));
    granted.clear();
    books.decide(sim::us(10), granted);
    EXPECT_EQ(granted.size(), slo == 3000 ? 1u : 0u) << "it is met either way, or only where the others are held";
  }
}

/// Looks until it is let go.
class Slow final : public Forecast {
 public:
  Slow(std::mutex& until, std::atomic<int>& looks) : until_(until), looks_(looks) {}
  Outlook look(const Snapshot& now, const WayOfDeciding&, const ForecastBounds&) override {
    ++looks_;
    const std::lock_guard wait(until_);
    Outlook o;
    o.clients.resize(now.clients.size());
    return o;
  }

 private:
  std::mutex& until_;
  std::atomic<int>& looks_;
};

TEST(AheadOfTime, WhileItLooksLaunchesAreGrantedAndItIsAskedNothingMore) {
  std::mutex until;
  std::atomic<int> looks = 0;
  std::unique_lock held(until);
  Books books("lookahead:ways=now/hold,every_us=1", sim::small_gpu(2), {.forecast = [&](const Gpu&, const Requirements&) {
                return std::make_unique<ForecastBeside>(std::make_unique<Slow>(until, looks));
              }});
  const std::uint32_t cam = books.join({"cam", ServiceClass::real_time, -5});
  Kernel kernel;
  std::vector<Granted> granted;
  for (std::uint32_t n = 1; n <= 50; ++n) {
    books.asked(cam, 0, n, kernel, sim::us(10 * n));
    books.decide(sim::us(10 * n), granted);
    EXPECT_EQ(granted.size(), n);
    EXPECT_FALSE(books.foretold());
  }
  held.unlock();
  while (!books.foretold()) std::this_thread::yield();
  EXPECT_EQ(looks, 2) << "one for each way";
  books.hear_forecast();
  EXPECT_FALSE(books.foretold());
  books.decide(sim::us(501), granted);
  while (!books.foretold()) std::this_thread::yield();
  EXPECT_EQ(looks, 4) << "and then of what is there now";
}

TEST(AheadOfTime, AProgramThatGoesWhileItLooksIsForgottenWithWhatWasAsked) {
  std::mutex until;
  std::atomic<int> looks = 0;
  Books books("lookahead:ways=now/hold", sim::small_gpu(2), {.forecast = [&](const Gpu&, const Requirements&) {
                return std::make_unique<ForecastBeside>(std::make_unique<Slow>(until, looks));
              }});
  std::vector<Granted> granted;
  for (int i = 0; i < 200; ++i) {
    const std::uint32_t cam = books.join({"cam", ServiceClass::real_time, -5});
    auto kernel = std::make_unique<Kernel>();
    books.asked(cam, 0, 1, *kernel, sim::us(10 * i));
    books.decide(sim::us(10 * i), granted);
    books.leave(cam);
    kernel.reset();
    EXPECT_FALSE(books.foretold());
  }
  EXPECT_EQ(granted.size(), 200u);
  EXPECT_EQ(looks, 400);
}

TEST(AheadOfTime, AForecastThatFailsEndsTheServiceWithItsError) {
  struct Fails final : Forecast {
    Outlook look(const Snapshot&, const WayOfDeciding&, const ForecastBounds&) override { throw InputError("", "a", "b", "c"); }
  };
  Books books("lookahead:ways=now/hold", sim::small_gpu(2), {.forecast = [&](const Gpu&, const Requirements&) { return std::make_unique<ForecastBeside>(std::make_unique<Fails>()); }});
  Kernel kernel;
  std::vector<Granted> granted;
  books.asked(books.join({"cam", ServiceClass::real_time, -5}), 0, 1, kernel, sim::us(1));
  books.decide(sim::us(1), granted);
  EXPECT_THROW(books.hear_forecast(), InputError);
}

TEST_F(Ahead, TheHostOfABestEffortProgramMayRunAheadOfItsGrants) {
  EXPECT_EQ(books_.in_flight(work_), 4u);
  EXPECT_EQ(books_.in_flight(cam_), 0u);
  Books masks("lookahead:ways=now/part", sim::small_gpu(2),
              {.forecast = [](const Gpu& gpu, const Requirements& needed) {
                return std::make_unique<ForecastBeside>(sim::make_forecast(gpu, needed));
              }});
  EXPECT_EQ(masks.in_flight(masks.join({"work", ServiceClass::best_effort, 0})), 0u)
      << "a mask is of one launch";
}

TEST_F(Ahead, LooksOfWhatRunsOfManyProgramsEnd) {
  for (int i = 0; i < 30; ++i) {
    const double at = 50 * i;
    busy_.solo_time = us(7 + i), graph_.solo_time = us(300 + i);
    books_.asked(work_, static_cast<std::uint32_t>(i % 3), static_cast<std::uint32_t>(i / 3 + 1),
                 i % 4 == 0 ? graph_ : busy_, us(at));
    if (i % 5 == 0) books_.asked(cam_, 0, static_cast<std::uint32_t>(i / 5 + 1), graph_, us(at));
    decide(at);
    std::vector<Granted> first = granted_;
    foretold(at);
    granted_.insert(granted_.end(), first.begin(), first.end());
    for (const Granted& g : std::vector<Granted>(granted_))
      books_.ended(g.client, g.stream, g.number, us(at + 30));
    if (i % 2 == 0) books_.waits(cam_);
    decide(at + 31);
  }
  EXPECT_TRUE(books_.idle());
}

}  // namespace
}  // namespace corun::live
