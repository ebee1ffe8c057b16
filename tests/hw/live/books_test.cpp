// Do the books of a service show policies what programs do, and let launches go when the policy says so?  No process, no GPU.
#include "policies/service/books.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hw/live/beside.h"
#include "sim/forecast/forecast.h"
#include "tests/support/build.h"
#include "traces/model/error.h"

namespace corun::live {
namespace {

constexpr Time at_us(double us) { return Time{static_cast<std::int64_t>(us * 1e6)}; }

struct Scene {
  explicit Scene(const std::string& policy, BooksOptions options = {}) : books(policy, sim::small_gpu(2), std::move(options)) {}

  std::uint32_t best_effort() { return books.join({"work", ServiceClass::best_effort, 0}); }
  std::uint32_t real_time() { return books.join({"cam", ServiceClass::real_time, -5}); }
  /// The next launch of a program's stream.
  void asks(std::uint32_t client, Kernel& what, std::uint32_t stream = 0, std::uint32_t attempts = 0) {
    books.asked(client, stream, ++asked[{client, stream}], what, at_us(now), attempts);
  }
  void ended(std::uint32_t client, std::uint32_t number, std::uint32_t stream = 0) {
    books.ended(client, stream, number, at_us(now));
  }
  /// What goes now: "0.1" is the first launch of program 0, "0.1 in 2" of its stream 2.
  std::vector<std::string> goes() {
    std::vector<Granted> granted;
    books.decide(at_us(now), granted);
    std::vector<std::string> names;
    for (const Granted& g : granted)
      names.push_back(fmt::format("{}{}.{}{}{}", g.stop ? "stop " : "", g.client, g.number, g.stream != 0 ? fmt::format(" in {}", g.stream) : "",
                                  g.attempt != 0 ? fmt::format(" from stop {}", g.attempt) : ""));
    return names;
  }

  Books books;
  double now = 0;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> asked;
  Kernel kernel, other;
};

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Books, AProgramOfAnImmediatePolicyNeedNotAsk) {
  EXPECT_FALSE(Scene("fcfs").books.asks());
  EXPECT_FALSE(Scene("priority").books.asks());
  EXPECT_FALSE(Scene("timeslice").books.asks());
  EXPECT_TRUE(Scene("wait").books.asks());
  EXPECT_TRUE(Scene("reef-n").books.asks());
}

TEST(Books, TheStandingPriorityIsThePolicys) {
  Scene fcfs("fcfs"), priority("priority"), wait("wait"), beside("wait:beside=on");
  EXPECT_EQ(fcfs.books.standing(fcfs.real_time()).priority, 0);
  EXPECT_EQ(priority.books.standing(priority.real_time()).priority, -5);
  EXPECT_EQ(wait.books.standing(wait.real_time()).priority, 0);
  EXPECT_EQ(beside.books.standing(beside.real_time()).priority, -5);
  EXPECT_TRUE(priority.books.idle()) << "of the launch that it was asked by nothing is left";
}

TEST(Books, TheStandingMaskIsThePolicysForTheProgramsInTheirOrder) {
  TpcMask first, second;
  first.enable(TpcId{0}), second.enable(TpcId{1});
  Scene s("static-split:tpcs=1/1", {.programs = {"work", "cam"}});
  const auto cam = s.real_time();
  EXPECT_EQ(s.books.standing(cam).tpc_mask, second) << "the other is expected, and has its share before it is there";
  const auto work = s.best_effort();
  EXPECT_EQ(s.books.standing(work).tpc_mask, first);
  s.books.leave(work);
  EXPECT_EQ(s.books.standing(cam).tpc_mask, second);
  EXPECT_EQ(s.best_effort(), work) << "it is expected again";
}

TEST(Books, WhereThePolicyDoesNotFitTheProgramsTheyRunAsTheyComeUntilItDoes) {
  Scene s("static-split:tpcs=1/1");
  const auto cam = s.real_time();
  EXPECT_THAT(s.books.unfit(), testing::HasSubstr("tpcs"));
  EXPECT_EQ(s.books.standing(cam), Decided{});
  const auto work = s.best_effort();
  EXPECT_EQ(s.books.unfit(), "");
  EXPECT_TRUE(s.books.standing(cam).tpc_mask);
  EXPECT_TRUE(s.books.standing(work).tpc_mask);
}

TEST(Books, WhatAPolicyNeedsAndAProgramCannotBeMadeToDoIsSaid) {
  const auto why = [](const std::string& policy, BooksOptions options = {}) -> std::string {
    try {
      Scene scene(policy, std::move(options));
    } catch (const InputError& error) {
      return error.what();
    }
    return {};
  };
  EXPECT_THAT(why("slate"), testing::AllOf(testing::HasSubstr("sm_quota"), testing::HasSubstr("profiles"), testing::HasSubstr("choose fcfs")));
  EXPECT_THAT(why("smguard"), testing::HasSubstr("--persistent"));
  EXPECT_THAT(why("lookahead"), testing::HasSubstr("a forecast"));
  EXPECT_THAT(why("mps"), testing::HasSubstr("MPS percentages"));
  EXPECT_THAT(why("nonsense"), testing::HasSubstr("nonsense"));
  EXPECT_THAT(why("fcfs", {.persistent = true}), testing::HasSubstr("stops no kernels"));
  EXPECT_THAT(why("wait", {.in_flight = 0, .persistent = true}), testing::HasSubstr("--in-flight"));
  EXPECT_EQ(why("reef-n", {.persistent = true}), "");
}

TEST(Books, ABestEffortLaunchGoesShortlyBeforeTheOneBeforeItEnds) {
  Scene s("wait");
  const auto work = s.best_effort();
  s.asks(work, s.kernel);
  EXPECT_THAT(s.goes(), ElementsAre("0.1"));
  s.asks(work, s.kernel);
  s.now = 99;
  EXPECT_THAT(s.goes(), IsEmpty()) << "nobody has seen yet how long one takes";
  s.now = 100, s.ended(work, 1);
  EXPECT_THAT(s.goes(), ElementsAre("0.2"));
  s.asks(work, s.kernel);
  EXPECT_THAT(s.goes(), IsEmpty());
  EXPECT_EQ(s.books.next_wish(), at_us(200) - BooksOptions{}.ahead);
  s.now = 191.999;
  EXPECT_THAT(s.goes(), IsEmpty());
  s.now = 192;
  EXPECT_THAT(s.goes(), ElementsAre("0.3"));
}

/// 24 launches of 100 us one behind the other, of which those in `late` are seen to have ended so much later than they have.
Time learnt(const std::map<int, double>& late) {
  Scene s("wait");
  const auto work = s.best_effort();
  for (int i = 0; i < 24; ++i) s.asks(work, s.kernel);
  for (int i = 1; i <= 24; ++i) {
    while (s.goes().empty()) s.now = std::chrono::duration<double, std::micro>(s.books.next_wish()).count();
    const auto found = late.find(i);
    s.now = 100.0 * i + (found != late.end() ? found->second : 0);
    s.ended(work, static_cast<std::uint32_t>(i));
  }
  return *s.kernel.solo_time;
}

TEST(Books, AnEndThatIsSeenLateMakesTheNextLaunchSeemShortAndNotTheKernel) {
  EXPECT_EQ(learnt({}), at_us(100));
  EXPECT_EQ(learnt({{3, 90}, {12, 90}}), at_us(100)) << "long ago";
  EXPECT_EQ(learnt({{18, 90}, {21, 90}}), at_us(100)) << "two of the last eight";
  EXPECT_EQ(learnt({{17, 90}, {19, 90}, {21, 90}}), at_us(10)) << "three";
}

TEST(Books, WhatLaunchesTakeBesideOthersIsNotWhatTheKernelTakes) {
  LastTimes five, six;
  for (int i = 0; i < 8; ++i) five.add(at_us(i < 5 ? 300 : 100)), six.add(at_us(i < 6 ? 300 : 100));
  EXPECT_EQ(five.usual(), at_us(100));
  EXPECT_EQ(six.usual(), at_us(300));
}

TEST(Books, OfFewerThanFourLaunchesTheShortestTimeIsTheKernels) {
  LastTimes times;
  times.add(at_us(500));
  EXPECT_EQ(times.usual(), at_us(500));
  times.add(at_us(20)), times.add(at_us(100));
  EXPECT_EQ(times.usual(), at_us(20));
  times.add(at_us(100));
  EXPECT_EQ(times.usual(), at_us(100));
}

TEST(Books, ARealTimeRequestHoldsBestEffortLaunchesUntilItHasEnded) {
  Scene s("wait");
  const auto work = s.best_effort(), cam = s.real_time();
  s.asks(work, s.kernel);
  EXPECT_THAT(s.goes(), ElementsAre("0.1"));
  s.asks(work, s.kernel);
  EXPECT_THAT(s.goes(), IsEmpty());
  s.now = 10, s.asks(cam, s.other);
  EXPECT_THAT(s.goes(), IsEmpty()) << "what is on the GPU runs to its end";
  s.now = 50, s.ended(work, 1);
  EXPECT_THAT(s.goes(), ElementsAre("1.1"));
  s.now = 60, s.ended(cam, 1);
  EXPECT_THAT(s.goes(), IsEmpty()) << "the request may go on";
  s.books.waits(cam);
  EXPECT_THAT(s.goes(), ElementsAre("0.2"));
}

TEST(Books, BesideBestEffortBlocksARealTimeLaunchGoesAtOnce) {
  Scene s("wait:beside=on");
  const auto work = s.best_effort(), cam = s.real_time();
  s.asks(work, s.kernel);
  EXPECT_THAT(s.goes(), ElementsAre("0.1"));
  s.asks(work, s.kernel), s.asks(cam, s.other);
  EXPECT_THAT(s.goes(), ElementsAre("1.1"));
}

TEST(Books, UnderBackfillALaunchThatWouldMeetTheNextRequestGoesAfterIt) {
  Scene s("wait:backfill=on");
  const auto work = s.best_effort(), cam = s.real_time();
  s.kernel.solo_time = at_us(300);
  const auto request = [&](std::uint32_t n) {
    s.now = 1000.0 * n;
    s.asks(cam, s.other);
    EXPECT_THAT(s.goes(), ElementsAre(fmt::format("1.{}", n + 1)));
    s.now += 100;
    s.ended(cam, n + 1), s.books.waits(cam);
    return s.goes();
  };
  for (std::uint32_t n = 0; n < 9; ++n) EXPECT_THAT(request(n), IsEmpty());
  s.now = 8600;
  s.asks(work, s.kernel);
  EXPECT_THAT(s.goes(), ElementsAre("0.1"));
  s.now = 8900;
  s.ended(work, 1), s.asks(work, s.kernel);
  EXPECT_THAT(s.goes(), IsEmpty());
  EXPECT_EQ(s.books.next_wish(), at_us(9125)) << "if no request comes";
  EXPECT_THAT(request(9), ElementsAre("0.2"));
}

TEST(Books, ARequestEndsWhenItsProgramHasHadNothingOnTheGpuForAWhile) {
  Scene s("wait");
  const auto work = s.best_effort(), cam = s.real_time();
  s.asks(cam, s.kernel);
  EXPECT_THAT(s.goes(), ElementsAre("1.1"));
  s.asks(work, s.other);
  s.now = 50, s.ended(cam, 1);
  EXPECT_THAT(s.goes(), IsEmpty());
  EXPECT_EQ(s.books.next_wish(), at_us(50) + Books::kQuiet);
  s.now = 149.999;
  EXPECT_THAT(s.goes(), IsEmpty());
  s.now = 150;
  EXPECT_THAT(s.goes(), ElementsAre("0.1"));
}

TEST(Books, AProgramThatLeavesHoldsNobodyBack) {
  Scene s("wait");
  const auto work = s.best_effort(), cam = s.real_time();
  s.asks(cam, s.kernel);
  EXPECT_THAT(s.goes(), ElementsAre("1.1"));
  s.asks(work, s.other);
  EXPECT_THAT(s.goes(), IsEmpty());
  EXPECT_GT(s.books.next_wish(), at_us(1));
  s.books.leave(cam);
  EXPECT_LE(s.books.next_wish(), at_us(1)) << "the other is to be asked about";
  EXPECT_THAT(s.goes(), ElementsAre("0.1"));
  s.books.leave(work);
  EXPECT_THAT(s.goes(), IsEmpty());
  EXPECT_TRUE(s.books.idle());
  EXPECT_THAT(s.books.state(), IsEmpty());
}

TEST(Books, ProgramsThatComeFindTheOthersAtWork) {
  Scene s("wait");
  const auto work = s.best_effort();
  s.asks(work, s.kernel);
  EXPECT_THAT(s.goes(), ElementsAre("0.1"));
  s.asks(work, s.kernel);
  EXPECT_THAT(s.goes(), IsEmpty());
  const auto cam = s.real_time();
  s.asks(cam, s.other);
  EXPECT_THAT(s.goes(), IsEmpty()) << "the first launch of the other is on the GPU still";
  s.now = 5, s.ended(work, 1);
  EXPECT_THAT(s.goes(), ElementsAre("1.1"));
}

TEST(Books, ARefusedLaunchIsGoneAndTheOnesBeforeItAreNot) {
  Scene s("wait");
  const auto cam = s.real_time();
  s.asks(cam, s.kernel), s.asks(cam, s.other);
  EXPECT_THAT(s.goes(), ElementsAre("0.1", "0.2"));
  s.now = 3, s.books.failed(cam, 0, 2, at_us(s.now));
  EXPECT_EQ(s.books.state().front().on_gpu, 1u);
  EXPECT_FALSE(s.other.solo_time) << "what it took to be refused is no kernel's time";
}

TEST(Books, OnlyBestEffortLaunchesThatThePolicyMayHoldBackAreMadeBeforeTheyAreGranted) {
  Scene wait("wait", {.in_flight = 7}), waits_for_each("wait", {.in_flight = 0}), fcfs("fcfs");
  EXPECT_EQ(wait.books.in_flight(wait.best_effort()), 7u);
  EXPECT_EQ(wait.books.in_flight(wait.real_time()), 0u);
  EXPECT_EQ(waits_for_each.books.in_flight(waits_for_each.best_effort()), 0u);
  EXPECT_EQ(fcfs.books.in_flight(fcfs.best_effort()), 0u);
  Scene foretold("lookahead:ways=now/hold", {.in_flight = 7, .forecast = [](const Gpu& gpu, const Requirements& needed) { return std::make_unique<ForecastBeside>(sim::make_forecast(gpu, needed)); }});
  EXPECT_EQ(foretold.books.in_flight(foretold.best_effort()), 7u);
}

TEST(Books, LaunchesThatWaitOnTheGpuGoInTheOrderInWhichTheyCameWhateverTheirStreams) {
  Scene s("wait");
  const auto work = s.best_effort();
  s.asks(work, s.kernel), s.asks(work, s.kernel), s.asks(work, s.other, 2), s.asks(work, s.other, 2);
  EXPECT_THAT(s.goes(), ElementsAre("0.1")) << "what is in the second stream came behind the second launch, which waits";
  s.now = 100, s.ended(work, 1);
  EXPECT_THAT(s.goes(), ElementsAre("0.2", "0.1 in 2")) << "streams do not wait for each other's ends";
  s.now = 150, s.ended(work, 1, 2);
  EXPECT_THAT(s.goes(), ElementsAre("0.2 in 2"));
  EXPECT_EQ(s.kernel.solo_time, at_us(100));
  EXPECT_EQ(s.other.solo_time, at_us(50));
}

TEST(Books, WhereTheHostWaitsForEachGrantStreamsDoNotWaitForEachOther) {
  Scene s("wait", {.in_flight = 0});
  const auto work = s.best_effort();
  s.asks(work, s.kernel), s.asks(work, s.kernel), s.asks(work, s.other, 2);
  EXPECT_THAT(s.goes(), ElementsAre("0.1", "0.1 in 2"));
}

TEST(Books, ARealTimeRequestTakesBackAllThatIsNotGranted) {
  Scene s("wait:beside=on");
  const auto work = s.best_effort(), cam = s.real_time();
  for (int i = 0; i < 5; ++i) s.asks(work, s.kernel);
  EXPECT_THAT(s.goes(), ElementsAre("0.1"));
  s.asks(cam, s.other);
  EXPECT_THAT(s.goes(), ElementsAre("1.1"));
  s.now = 50, s.ended(work, 1);
  EXPECT_THAT(s.goes(), IsEmpty());
  s.now = 60, s.ended(cam, 1), s.books.waits(cam);
  EXPECT_THAT(s.goes(), ElementsAre("0.2"));
  s.now = 101;
  EXPECT_THAT(s.goes(), IsEmpty());
  s.now = 102;
  EXPECT_THAT(s.goes(), ElementsAre("0.3")) << "50 us each, and 8 us before the end";
}

TEST(Books, ALaunchThatIsRefusedBeforeItIsGrantedGetsItsGrantForWhatWaitsBehindIt) {
  Scene s("wait");
  const auto work = s.best_effort(), cam = s.real_time();
  s.asks(cam, s.other);
  EXPECT_THAT(s.goes(), ElementsAre("1.1"));
  s.asks(work, s.kernel), s.asks(work, s.kernel);
  s.books.failed(work, 0, 1, at_us(s.now));
  EXPECT_THAT(s.goes(), IsEmpty());
  s.now = 50, s.ended(cam, 1), s.books.waits(cam);
  EXPECT_THAT(s.goes(), ElementsAre("0.1", "0.2"));
  EXPECT_FALSE(s.kernel.solo_time);
  s.now = 70, s.ended(work, 2);
  EXPECT_EQ(s.kernel.solo_time, at_us(20));
  EXPECT_THAT(s.goes(), IsEmpty());
  EXPECT_TRUE(s.books.idle());
}

/// Counts what it is told, and launches all.
struct Counts final : Policy {
  struct Told {
    int starts = 0, began = 0, ended = 0;
  };
  explicit Counts(Told& told) : told_(told) {}
  std::string_view name() const override { return "counts"; }
  Requirements requirements() const override { return {{Capability::order}}; }
  void start(const Topology&, std::span<const ClientView>) override { ++told_.starts; }
  void decide(const Snapshot& now, std::vector<Decision>& decisions) override {
    for (const Notice& n : now.notices) told_.began += std::holds_alternative<RequestArrived>(n), told_.ended += std::holds_alternative<RequestFinished>(n);
    for (const LaunchId id : now.pending) decisions.push_back(decide::Launch{id});
    decisions.push_back(decide::WakeAt{now.now});
  }
  Told& told_;
};

TEST(Books, ProgramsThatAreThereFromTheStartAndAPolicyThatSomebodyMakesAreStartedOnce) {
  Counts::Told told;
  Scene s("counts", {.make = [&] { return std::make_unique<Counts>(told); }, .joined = {{"cam", ServiceClass::real_time}, {"work"}}});
  EXPECT_EQ(told.starts, 1);
  EXPECT_EQ(s.books.state().size(), 2u);
  s.asks(1, s.kernel);
  EXPECT_THAT(s.goes(), ElementsAre("1.1"));
}

TEST(Books, AProgramThatHasWaitedAndLaunchesBeforeTheNextDecisionBeginsARequest) {
  for (const bool waits : {true, false}) {
    Counts::Told told;
    Scene s("counts", {.make = [&] { return std::make_unique<Counts>(told); }, .joined = {{"cam", ServiceClass::real_time}}});
    s.asks(0, s.kernel);
    if (waits) s.books.waits(0);
    EXPECT_THAT(s.goes(), ElementsAre("0.1"));
    s.now = 10, s.ended(0, 1), s.asks(0, s.kernel);
    EXPECT_THAT(s.goes(), ElementsAre("0.2"));
    EXPECT_EQ(told.began, waits ? 2 : 1);
    EXPECT_EQ(told.ended, waits ? 1 : 0);
  }
}

TEST(Books, AWakeUpThatIsNotInTheFutureIsNone) {
  Counts::Told told;
  Scene s("counts", {.make = [&] { return std::make_unique<Counts>(told); }, .joined = {{"cam"}}});
  s.asks(0, s.kernel);
  EXPECT_THAT(s.goes(), ElementsAre("0.1"));
  EXPECT_GT(s.books.next_wish(), at_us(0));
}

TEST(Books, AnEndTellsOfAllBeforeItInItsStreamAlsoWhereNumbersBeginAgain) {
  Scene s("reef-n");
  const auto cam = s.real_time();
  std::vector<Granted> granted;
  for (const std::uint32_t number : {0xfffffffeu, 0xffffffffu, 0u}) s.books.asked(cam, 0, number, s.kernel, Time{});
  s.books.asked(cam, 7, 1, s.kernel, Time{});
  s.books.decide(Time{}, granted);
  EXPECT_EQ(granted.size(), 4u);
  s.books.ended(cam, 0, 0xffffffffu, at_us(1));
  EXPECT_EQ(s.books.state().front().on_gpu, 2u);
  s.books.ended(cam, 0, 0, at_us(2));
  s.books.ended(cam, 7, 1, at_us(2));
  EXPECT_EQ(s.books.state().front().on_gpu, 0u);
}

TEST(Books, ALaunchThatCanBeStoppedIsAndGoesOnBeforeWhatIsBehindIt) {
  Scene s("wait", {.persistent = true});
  const auto work = s.best_effort(), cam = s.real_time();
  s.kernel.solo_time = at_us(1000);
  EXPECT_EQ(s.books.attempts(work, s.kernel), 3u);
  EXPECT_EQ(s.books.attempts(cam, s.kernel), 0u);
  for (int i = 0; i < 3; ++i) s.asks(work, s.kernel, 0, 3);
  EXPECT_THAT(s.goes(), ElementsAre("0.1"));
  s.now = 100, s.asks(cam, s.other);
  EXPECT_THAT(s.goes(), ElementsAre("stop 0.1"));
  s.now = 200, s.books.stopped(work, 0, 1, 7, at_us(200));
  EXPECT_THAT(s.goes(), ElementsAre("1.1")) << "the GPU is free";
  s.now = 300, s.ended(cam, 1), s.books.waits(cam);
  EXPECT_THAT(s.goes(), ElementsAre("0.1 from stop 1"));
  s.now = 1100, s.ended(work, 1);
  EXPECT_THAT(s.goes(), ElementsAre("0.2"));
}

TEST(Books, AfterItsLastAttemptALaunchRunsToItsEnd) {
  Scene s("wait", {.persistent = true});
  const auto work = s.best_effort(), cam = s.real_time();
  s.kernel.solo_time = at_us(1000);
  s.asks(work, s.kernel, 0, 2);
  EXPECT_THAT(s.goes(), ElementsAre("0.1"));
  s.asks(cam, s.other);
  EXPECT_THAT(s.goes(), ElementsAre("stop 0.1"));
  s.books.stopped(work, 0, 1, 7, at_us(200));
  s.goes();
  s.now = 300, s.ended(cam, 1), s.books.waits(cam);
  EXPECT_THAT(s.goes(), ElementsAre("0.1 from stop 1"));
  s.asks(cam, s.other);
  EXPECT_THAT(s.goes(), IsEmpty());
  s.now = 900, s.ended(work, 1);
  EXPECT_THAT(s.goes(), ElementsAre("1.2"));
}

TEST(Books, NothingOvertakesALaunchThatIsToStopAndHasNot) {
  Scene s("wait", {.persistent = true});
  const auto work = s.best_effort(), cam = s.real_time();
  s.kernel.solo_time = at_us(1000);
  s.asks(work, s.kernel, 0, 3), s.asks(work, s.kernel, 0, 3);
  EXPECT_THAT(s.goes(), ElementsAre("0.1"));
  s.now = 100, s.asks(cam, s.other);
  EXPECT_THAT(s.goes(), ElementsAre("stop 0.1"));
  s.books.leave(cam);
  s.now = 995;
  EXPECT_THAT(s.goes(), IsEmpty()) << "it would have been time for 0.2";
  s.now = 1000, s.books.stopped(work, 0, 1, 7, at_us(1000));
  EXPECT_THAT(s.goes(), ElementsAre("0.1 from stop 1"));
  s.now = 1500, s.ended(work, 1);
  EXPECT_THAT(s.goes(), ElementsAre("0.2"));
}

TEST(Books, ALaunchThatEndsThoughItWasToStopIsDone) {
  Scene s("wait", {.persistent = true});
  const auto work = s.best_effort(), cam = s.real_time();
  s.kernel.solo_time = at_us(1000);
  s.asks(work, s.kernel, 0, 3), s.asks(work, s.kernel, 0, 3);
  s.goes();
  s.asks(cam, s.other);
  EXPECT_THAT(s.goes(), ElementsAre("stop 0.1"));
  s.now = 50, s.ended(work, 1);
  EXPECT_THAT(s.goes(), ElementsAre("1.1"));
  s.books.stopped(work, 0, 1, 7, at_us(60));  // nobody hears of it
  EXPECT_THAT(s.goes(), IsEmpty());
  s.now = 100, s.ended(cam, 1), s.books.waits(cam);
  EXPECT_THAT(s.goes(), ElementsAre("0.2"));
}

TEST(Books, HowOftenAKernelMayBeOnTheGpuFollowsFromHowLongItTakes) {
  Scene s("wait", {.persistent = true});
  const auto work = s.best_effort();
  EXPECT_EQ(s.books.attempts(work, s.kernel), 0u) << "nobody has seen it";
  const std::pair<double, std::uint32_t> all[] = {{50, 0}, {299.999, 0}, {300, 2}, {999.999, 2}, {1000, 3}, {2500, 6}, {1e6, 6}};
  for (const auto& [us, attempts] : all) {
    s.kernel.solo_time = at_us(us);
    EXPECT_EQ(s.books.attempts(work, s.kernel), attempts) << us;
  }
}

TEST(Books, TimeOnTheGpuAndWhatWaitsAreCountedAlsoOfWhatIsStopped) {
  Scene s("wait", {.persistent = true});
  const auto work = s.best_effort(), cam = s.real_time();
  const auto of = [&](std::uint32_t client) { return s.books.state().at(client); };
  s.kernel.solo_time = at_us(1000);
  for (int i = 0; i < 3; ++i) s.asks(work, s.kernel, 0, 3);
  EXPECT_THAT(s.goes(), ElementsAre("0.1"));
  EXPECT_EQ(of(work).on_gpu, 1u);
  EXPECT_EQ(of(work).pending, 2u);
  EXPECT_EQ(of(cam).pending, 0u);
  s.now = 100, s.asks(cam, s.other), s.goes();
  s.now = 150, s.books.stopped(work, 0, 1, 7, at_us(150));
  EXPECT_THAT(s.goes(), ElementsAre("1.1"));
  EXPECT_EQ(of(work).busy, at_us(150));
  EXPECT_EQ(of(work).stops, 1u);
  EXPECT_EQ(of(work).on_gpu, 0u);
  EXPECT_EQ(of(work).pending, 3u);
  EXPECT_EQ(of(cam).pending, 0u) << "those are the other's";
  s.asks(cam, s.other, 2);
  EXPECT_THAT(s.goes(), ElementsAre("1.1 in 2"));
  s.now = 200, s.asks(cam, s.other, 2);
  EXPECT_THAT(s.goes(), ElementsAre("1.2 in 2"));
  s.now = 250, s.ended(cam, 1), s.ended(cam, 1, 2);
  EXPECT_EQ(of(cam).busy, Time{}) << "one is there still";
  s.now = 350, s.ended(cam, 2, 2);
  EXPECT_EQ(of(cam).busy, at_us(200)) << "streams beside each other, from the first of them on";
}

TEST(Books, AStopBesideAnotherLaunchIsNoEndOfItsProgramsTimeOnTheGpu) {
  Scene s("wait", {.persistent = true});
  const auto work = s.best_effort(), cam = s.real_time();
  s.kernel.solo_time = at_us(1000);
  s.asks(work, s.kernel, 0, 3), s.asks(work, s.kernel, 2, 3), s.goes();
  s.now = 992, s.goes();
  s.now = 995, s.asks(cam, s.other);
  EXPECT_THAT(s.goes(), ElementsAre("stop 0.1 in 2"));
  s.books.stopped(work, 2, 1, 0, at_us(s.now = 1000));
  EXPECT_EQ(s.books.state()[0].busy, Time{});
  s.now = 1100, s.ended(work, 1);
  EXPECT_EQ(s.books.state()[0].busy, at_us(1100));
}

TEST(Books, WhoIsExpectedIsOfTheStateWhenItIsThereAndHasItsNumberBefore) {
  Scene s("fcfs", {.programs = {"one", "two"}});
  EXPECT_THAT(s.books.state(), IsEmpty());
  EXPECT_EQ(s.books.join({"other"}), 2u);
  EXPECT_EQ(s.books.join({"two"}), 1u);
  EXPECT_EQ(s.books.state().size(), 2u);
}

/// Under a policy that decides about each launch by itself.
struct Sized : Scene {
  Sized() : Scene("smguard", {.persistent = true}) {
    kernel.grid = {1000, 1, 1}, kernel.block = {256, 1, 1};
    kernel.solo_time = at_us(1000), other.solo_time = at_us(50);
    few = kernel, few.grid = {4, 1, 1};
  }
  Kernel few;
  static constexpr std::uint32_t kAttempts = 3;
};

TEST(Books, WhatHasNoSizeDoesNotOvertakeWhatWaitsForOne) {
  Sized s;
  const auto work = s.best_effort();
  s.asks(work, s.kernel, 0, s.kAttempts), s.asks(work, s.kernel, 0, s.kAttempts), s.asks(work, s.other), s.asks(work, s.other, 2);
  EXPECT_THAT(s.goes(), ElementsAre("0.1"));
  s.now = 1000, s.ended(work, 1);
  EXPECT_THAT(s.goes(), ElementsAre("0.2")) << "the grant of the third would be one of the second";
  s.now = 2000, s.ended(work, 2);
  EXPECT_THAT(s.goes(), ElementsAre("0.3", "0.1 in 2"));
  s.now = 2100, s.ended(work, 3), s.ended(work, 1, 2);
  EXPECT_THAT(s.goes(), IsEmpty());
  EXPECT_TRUE(s.books.idle());
}

TEST(Books, WhatHasASizeGoesAtOnceBehindWhatHasNoneInAnotherStream) {
  Sized s;
  const auto work = s.best_effort();
  s.asks(work, s.other), s.asks(work, s.kernel, 2, s.kAttempts);
  EXPECT_THAT(s.goes(), ElementsAre("0.1", "0.1 in 2"));
}

TEST(Books, AShareIsNotGivenToALaunchBeforeItsTurn) {
  Sized s;
  const auto work = s.best_effort(), other = s.best_effort();
  s.asks(work, s.other), s.asks(work, s.kernel, 0, s.kAttempts), s.asks(work, s.kernel, 2, s.kAttempts), s.asks(other, s.kernel, 0, s.kAttempts);
  EXPECT_THAT(s.goes(), ElementsAre("0.1", "1.1")) << "what is in the second stream is behind the second launch, which follows the first";
  s.now = 50, s.ended(work, 1), s.ended(other, 1);
  EXPECT_THAT(s.goes(), ElementsAre("0.2"));
  s.now = 1050, s.ended(work, 2);
  EXPECT_THAT(s.goes(), ElementsAre("0.1 in 2"));
}

TEST(Books, AShareIsNotGivenBehindALaunchThatMayBeStopped) {
  Sized s;
  const auto work = s.best_effort(), other = s.best_effort();
  s.asks(work, s.few, 0, s.kAttempts), s.asks(work, s.few, 2, s.kAttempts), s.asks(other, s.kernel, 0, s.kAttempts);
  std::vector<Granted> granted;
  s.books.decide(at_us(0), granted);
  ASSERT_EQ(granted.size(), 2u);
  EXPECT_THAT(granted[0].ctas_per_sm, ElementsAre(2, 2));
  EXPECT_THAT(granted[1].ctas_per_sm, ElementsAre(6, 6)) << "8 blocks on each SM, of which none is kept free";
  s.now = 100, s.ended(work, 1);
  EXPECT_THAT(s.goes(), ElementsAre("0.1 in 2"));
}

TEST(Books, NothingOvertakesALaunchThatWasStoppedAndWaitsForASize) {
  Sized s;
  const auto work = s.best_effort(), cam = s.real_time();
  s.asks(work, s.kernel, 0, s.kAttempts), s.asks(work, s.kernel, 2, s.kAttempts), s.asks(work, s.other);
  EXPECT_THAT(s.goes(), ElementsAre("0.1"));
  Kernel large = s.kernel;
  s.now = 100, s.asks(cam, large);
  EXPECT_THAT(s.goes(), testing::UnorderedElementsAre("stop 0.1", "1.1"));
  s.now = 200, s.books.stopped(work, 0, 1, 7, at_us(200));
  EXPECT_THAT(s.goes(), IsEmpty());
  s.now = 300, s.ended(cam, 1), s.books.waits(cam);
  EXPECT_THAT(s.goes(), ElementsAre("0.1 from stop 1"));
  s.now = 1200, s.ended(work, 1);
  EXPECT_THAT(s.goes(), ElementsAre("0.1 in 2"));
  s.now = 2200, s.ended(work, 1, 2);
  EXPECT_THAT(s.goes(), ElementsAre("0.2"));
}

/// Grants of the next decision, with CTAs per SM: "resize 0.1: 4 4".
std::vector<std::string> sizes(Sized& s) {
  std::vector<Granted> granted;
  s.books.decide(at_us(s.now), granted);
  std::vector<std::string> all;
  for (const Granted& g : granted)
    all.push_back(fmt::format("{}{}.{}{}: {}", g.stop ? "stop " : g.resize ? "resize " : "", g.client, g.number, g.attempt != 0 ? fmt::format(" from stop {}", g.attempt) : "",
                              fmt::join(g.ctas_per_sm, " ")));
  return all;
}
/// Best-effort work has the GPU, 8 workers on each of its two SMs, and another has half of it at times.
struct TwoSized : Sized {
  explicit TwoSized(std::uint32_t attempts) {
    asks(work, kernel, 0, attempts);
    EXPECT_THAT(sizes(*this), ElementsAre("0.1: 8 8"));
  }
  /// Grants after a launch of the real-time program arrives.
  std::vector<std::string> comes(double at) { return now = at, asks(cam, large), sizes(*this); }
  std::vector<std::string> goes_again(double at) { return now = at, ended(cam, asked[{cam, 0}]), books.waits(cam), sizes(*this); }
  Kernel large = kernel;
  const std::uint32_t work = best_effort(), cam = books.join({"cam", ServiceClass::real_time, -5, {}, 0.5}), whole = real_time();
};

TEST(Books, WorkersLeaveAtAnOrderAndMoreComeWithTheNextAttempt) {
  TwoSized s(4);
  EXPECT_THAT(s.comes(100), testing::UnorderedElementsAre("resize 0.1: 8 0", "1.1: "));
  EXPECT_THAT(s.goes_again(200), ElementsAre("stop 0.1: "));
  EXPECT_THAT(sizes(s), IsEmpty());
  s.books.stopped(s.work, 0, 1, 7, at_us(s.now = 210));
  EXPECT_THAT(sizes(s), ElementsAre("0.1 from stop 1: 8 8"));
  EXPECT_EQ(s.books.state()[0].resizes, 2u);
  EXPECT_EQ(s.books.state()[0].stops, 1u);
  EXPECT_EQ(s.books.state()[0].on_gpu, 1u);
  EXPECT_THAT(s.comes(300), testing::UnorderedElementsAre("resize 0.1 from stop 1: 8 0", "1.2: "));
  EXPECT_THAT(s.goes_again(400), ElementsAre("stop 0.1 from stop 1: "));
  s.books.stopped(s.work, 0, 1, 9, at_us(s.now = 410));
  EXPECT_THAT(sizes(s), ElementsAre("0.1 from stop 2: 8 8"));
  EXPECT_THAT(s.comes(500), testing::UnorderedElementsAre("resize 0.1 from stop 2: 8 0", "1.3: "));
  EXPECT_THAT(s.goes_again(600), IsEmpty()) << "its last attempt has no quotas";
  EXPECT_EQ(s.books.state()[0].resizes, 5u);
  EXPECT_EQ(s.books.state()[0].stops, 2u);
}

TEST(Books, WhatIsStoppedToGrowAndThenTakenBackDoesNotGoOnAndIsToldToStopOnce) {
  TwoSized s(4);
  s.comes(100);
  EXPECT_THAT(s.goes_again(200), ElementsAre("stop 0.1: "));
  s.now = 205, s.asks(s.whole, s.large);
  EXPECT_THAT(sizes(s), ElementsAre("2.1: "));
  s.books.stopped(s.work, 0, 1, 7, at_us(s.now = 210));
  EXPECT_THAT(sizes(s), IsEmpty()) << "another has the GPU";
  s.now = 300, s.ended(s.whole, 1), s.books.waits(s.whole);
  EXPECT_THAT(sizes(s), ElementsAre("0.1 from stop 1: 8 8"));
}

TEST(Books, AnAttemptOfWhichNoWorkerFoundItsPlaceIsFollowedByTheNext) {
  TwoSized s(2);
  s.books.stopped(s.work, 0, 2, 0, at_us(10));
  s.books.stopped(s.work, 1, 1, 0, at_us(10));
  EXPECT_THAT(sizes(s), IsEmpty()) << "of no launch that is there";
  s.books.stopped(s.work, 0, 1, 0, at_us(s.now = 10));
  EXPECT_THAT(sizes(s), ElementsAre("0.1 from stop 1: ")) << "the last one has no quotas";
  EXPECT_EQ(s.books.state()[0].stops, 0u) << "nobody ordered it";
}

TEST(Books, AStopIsOfItsLaunchAndNotOfAnotherThatIsThere) {
  Sized s;
  const auto cam = s.real_time();
  s.asks(cam, s.few, 15, 3), s.asks(cam, s.few, 20, 3);  // shown as one stream
  EXPECT_THAT(sizes(s), ElementsAre("0.1: 2 2", "0.1: 2 2"));
  s.books.stopped(cam, 20, 1, 0, at_us(s.now = 10));
  EXPECT_THAT(s.goes(), ElementsAre("0.1 in 20 from stop 1"));
  s.now = 20, s.ended(cam, 1, 15), s.asks(cam, s.few, 15, 3);
  EXPECT_THAT(s.goes(), ElementsAre("0.2 in 15"));
  s.books.stopped(cam, 15, 1, 0, at_us(s.now = 30));  // it has ended meanwhile
  EXPECT_THAT(s.goes(), IsEmpty());
}

TEST(Books, AfterItsLastStopALaunchHasNoSize) {
  TwoSized s(2);
  s.now = 100, s.asks(s.whole, s.large);
  EXPECT_THAT(sizes(s), testing::UnorderedElementsAre("stop 0.1: ", "2.1: "));
  s.books.stopped(s.work, 0, 1, 7, at_us(s.now = 110));
  EXPECT_THAT(sizes(s), IsEmpty());
  s.now = 200, s.ended(s.whole, 1), s.books.waits(s.whole), s.asks(s.work, s.other);
  EXPECT_THAT(sizes(s), ElementsAre("0.1 from stop 1: "));
  s.now = 1300, s.ended(s.work, 1);
  EXPECT_THAT(sizes(s), ElementsAre("0.2: "));
}

TEST(Books, ARealTimeLaunchHasPlacesWhenThoseBeforeItInItsStreamHaveEndedAndNotBefore) {
  Sized s;
  const auto work = s.best_effort(), cam = s.real_time();
  s.asks(work, s.kernel, 0, 6);
  EXPECT_THAT(sizes(s), ElementsAre("0.1: 8 8"));
  s.now = 100;
  for (int i = 0; i < 3; ++i) s.asks(cam, s.few);
  EXPECT_THAT(sizes(s), testing::UnorderedElementsAre("resize 0.1: 6 6", "1.1: ", "1.2: ", "1.3: "));
  for (const std::uint32_t n : {1u, 2u}) {
    s.now += 100, s.ended(cam, n);
    EXPECT_THAT(sizes(s), IsEmpty()) << "the next has what " << n << " had";
  }
  s.now += 100, s.ended(cam, 3), s.books.waits(cam);
  EXPECT_THAT(sizes(s), ElementsAre("stop 0.1: "));
}

TEST(Books, AnothersEndGivesNoShareBeforeItsTurn) {
  Sized s;
  const auto work = s.best_effort(), cam = s.real_time();
  s.asks(work, s.few, 2, s.kAttempts), s.asks(work, s.few, 0, s.kAttempts), s.asks(cam, s.few);
  EXPECT_THAT(s.goes(), ElementsAre("0.1 in 2", "1.1"));
  s.now = 50, s.ended(cam, 1), s.books.waits(cam);
  EXPECT_THAT(s.goes(), IsEmpty()) << "the first may be stopped still";
  s.now = 100, s.ended(work, 1, 2);
  EXPECT_THAT(s.goes(), ElementsAre("0.1"));
}

TEST(Books, BehindALaunchThatMayBeStoppedOtherStreamsWaitAsItsOwnDoesAndTheLastOneIsStopped) {
  for (const std::uint32_t attempts : {0u, 3u}) {
    Scene s("wait", {.persistent = true});
    const auto work = s.best_effort(), cam = s.real_time();
    s.kernel.solo_time = at_us(1000);
    s.asks(work, s.kernel, 0, 3), s.asks(work, s.kernel, 2, attempts);
    EXPECT_THAT(s.goes(), ElementsAre("0.1"));
    s.now = 991.999;
    EXPECT_THAT(s.goes(), IsEmpty()) << "it may wait on the GPU for an event behind what is stopped, and a request for it";
    s.now = 992;
    EXPECT_THAT(s.goes(), ElementsAre("0.1 in 2"));
    s.now = 995, s.asks(cam, s.other);
    EXPECT_EQ(s.goes(), attempts == 0 ? std::vector<std::string>{} : std::vector<std::string>{"stop 0.1 in 2"});
    s.now = 1000, s.ended(work, 1);
    EXPECT_THAT(s.goes(), IsEmpty());
    s.now = 1010, attempts == 0 ? s.ended(work, 1, 2) : s.books.stopped(work, 2, 1, 0, at_us(1010));
    EXPECT_THAT(s.goes(), ElementsAre("1.1"));
  }
}

constexpr double kTooLong_us = 5e6;  // limits::kOnGpu

TEST(Books, ARealTimeLaunchThatDoesNotEndHoldsBestEffortForItsTimeAndNoLonger) {
  for (const char* policy : {"wait", "wait:beside=on,backfill=on", "reef-n"}) {
    Scene s(policy);
    const auto cam = s.real_time(), work = s.best_effort();
    s.now = 1, s.asks(cam, s.kernel);
    EXPECT_THAT(s.goes(), ElementsAre("0.1"));
    s.asks(work, s.other);
    EXPECT_THAT(s.goes(), IsEmpty()) << policy;
    EXPECT_LE(s.books.next_wish(), at_us(1 + kTooLong_us)) << "nobody needs to say anything for it";
    s.now = 0.999999 + kTooLong_us;
    EXPECT_THAT(s.goes(), IsEmpty()) << policy;
    EXPECT_FALSE(s.books.late(cam));
    s.now = 1 + kTooLong_us;
    EXPECT_THAT(s.goes(), ElementsAre("1.1")) << policy;
    EXPECT_TRUE(s.books.late(cam));
    EXPECT_THAT(s.books.take_late(), ElementsAre(cam));
    EXPECT_TRUE(s.books.state().front().late);
    s.ended(work, 1), s.asks(work, s.other);
    EXPECT_THAT(s.goes(), ElementsAre("1.2")) << policy << ": and goes on";
  }
}

TEST(Books, ALaunchThatDoesNotEndHoldsRealTimeOnesForItsTimeAndNoLonger) {
  for (const bool best_effort : {true, false}) {
    Scene s("wait", {.in_flight = 0});
    const auto hangs = best_effort ? s.best_effort() : s.real_time(), cam = s.real_time();
    s.now = 1, s.asks(hangs, s.kernel);
    EXPECT_THAT(s.goes(), ElementsAre("0.1"));
    s.asks(cam, s.other);
    EXPECT_THAT(s.goes(), IsEmpty());
    s.now = 0.999999 + kTooLong_us;
    EXPECT_THAT(s.goes(), IsEmpty());
    s.now = 1 + kTooLong_us;
    EXPECT_THAT(s.goes(), ElementsAre("1.1")) << best_effort;
    s.ended(cam, 1), s.asks(cam, s.other);
    EXPECT_THAT(s.goes(), ElementsAre("1.2")) << "and goes on";
    s.now += 10, s.ended(hangs, 1), s.ended(cam, 2), s.goes();
    EXPECT_FALSE(s.books.late(hangs));
    EXPECT_TRUE(s.books.idle());
  }
}

TEST(Books, WhereItsLaunchHasEndedAProgramIsARealTimeOneAgain) {
  Scene s("wait");
  const auto cam = s.real_time(), work = s.best_effort();
  s.asks(cam, s.kernel);
  EXPECT_THAT(s.goes(), ElementsAre("0.1"));
  s.now = kTooLong_us;
  s.goes();
  EXPECT_TRUE(s.books.late(cam));
  s.now += 10, s.ended(cam, 1), s.goes();
  EXPECT_FALSE(s.books.late(cam));
  EXPECT_THAT(s.books.take_late(), ElementsAre(cam, cam));
  s.asks(cam, s.kernel);
  EXPECT_THAT(s.goes(), ElementsAre("0.2"));
  s.asks(work, s.other);
  EXPECT_THAT(s.goes(), IsEmpty());
}

TEST(Books, AStreamWhoseLaunchesEndIsNotTooLongHoweverManyWaitInIt) {
  Scene s("wait");
  const auto cam = s.real_time();
  for (int i = 0; i < 4; ++i) s.asks(cam, s.kernel);
  EXPECT_EQ(s.goes().size(), 4u);
  for (std::uint32_t i = 1; i <= 4; ++i) {
    s.now += 0.9 * kTooLong_us;
    s.ended(cam, i), s.goes();
    EXPECT_FALSE(s.books.late(cam)) << i << ": each took less";
  }
}

TEST(Books, WhatALateProgramHasAskedForWhileItWasLateIsNotForgotten) {
  Scene s("wait");
  const auto cam = s.real_time(), work = s.best_effort();
  s.asks(cam, s.kernel), s.goes();
  s.asks(work, s.other);
  s.now = kTooLong_us;
  EXPECT_THAT(s.goes(), ElementsAre("1.1"));
  s.asks(cam, s.kernel, 1);
  EXPECT_THAT(s.goes(), ElementsAre("0.1 in 1"));
  s.now += 1, s.ended(cam, 1, 0), s.ended(cam, 1, 1), s.ended(work, 1), s.goes();
  s.now += 200, s.goes();
  EXPECT_TRUE(s.books.idle());
  EXPECT_EQ(s.books.unfinished(cam), 0u);
}

}  // namespace
}  // namespace corun::live
