// Programs under `sim serve --persistent`, in the simulator: which launches can be stopped and sized, and how often.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "sim/run/run.h"
#include "tests/support/build.h"
#include "tests/support/collect.h"

namespace corun::sim {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// A batch of launches of 1 ms, ten waves of ten blocks, each called when the one before it has ended, and a camera of
/// requests of 100 us.
struct BatchAndCamera : TraceBuilder {
  Client* camera = nullptr;
  explicit BatchAndCamera(std::uint32_t launches, std::vector<Time> requests = {}, std::uint32_t blocks = 100, Issue issue = Issue::eager, Time wave = us(100)) {
    Kernel k = whole_sm_kernel(blocks, wave);
    k.name = "long", k.ptx = true;
    k.solo_time = wave * ((blocks + 9) / 10);
    const KernelId id = kernel(k);
    std::vector<Op> ops;
    for (std::uint32_t i = 0; i < launches; ++i) ops.push_back(launch(id)), ops.push_back(sync());
    client("batch", program(ops, issue));
    if (requests.empty()) return;
    camera = &one_kernel("camera", whole_sm_kernel(1, us(100)));
    camera->service_class = ServiceClass::real_time;
    camera->arrivals = ExplicitTimes{requests};
    trace.run.duration = ms(30);
  }
  Collector run(const std::string& policy = "wait", bool persistent = true) {
    Collector ran(true);
    RunOptions options{{.policy = policy}};
    options.served_ahead = us(8);
    options.served_persistent = persistent;
    options.served_waits = false;
    options.sinks.push_back(&ran);
    sim::run(trace, small_gpu(10), options);
    return ran;
  }
};

/// In whole microseconds, as the GPU begins a block each nanosecond.
std::vector<Time> begins(const Collector& ran, std::uint32_t client) {
  std::vector<Time> all;
  for (const KernelRecord& k : ran.of(ClientId{client})) all.push_back(us(k.started / us(1)));
  return all;
}
std::vector<Time> ends(const Collector& ran, std::uint32_t client) {
  std::vector<Time> all;
  for (const KernelRecord& k : ran.of(ClientId{client})) all.push_back(us(k.finished / us(1)));
  return all;
}

TEST(PersistentLaunches, ARequestWaitsForBlocksThatHaveBegunAndNotForTheLaunch) {
  const Collector ran = BatchAndCamera(2, {us(1550)}).run();
  EXPECT_THAT(begins(ran, 1), ElementsAre(us(1600)));
  EXPECT_THAT(ends(ran, 0), ElementsAre(us(1000), us(2100)));
  EXPECT_THAT(begins(BatchAndCamera(2, {us(1550)}).run("wait", false), 1), ElementsAre(us(2000))) << "without --persistent";
  BatchAndCamera without(2, {us(1550)});
  without.trace.kernels[0].ptx = false;
  EXPECT_THAT(begins(without.run(), 1), ElementsAre(us(2000))) << "of a program that brings none";
}

TEST(PersistentLaunches, TheFirstLaunchIsPlain) {
  EXPECT_THAT(begins(BatchAndCamera(2, {us(550)}).run(), 1), ElementsAre(us(1000)));
}

TEST(PersistentLaunches, ThatAreCalledBeforeOneHasEndedArePlain) {
  BatchAndCamera s(2, {us(1550)});
  std::erase_if(s.trace.programs[0].ops, [](const Op& op) { return std::holds_alternative<Sync>(op.what); });
  EXPECT_THAT(begins(s.run(), 1), ElementsAre(us(2000)));
}

TEST(PersistentLaunches, OfOneWaveOfBlocksOfAGraphOfAClusterOrOfARealTimeProgramArePlain) {
  // Waves of 400 us: the second launch begins when the first has ended, and the request comes within its first wave.
  const auto stopped = [](std::uint32_t blocks, auto change) {
    BatchAndCamera s(2, {us(400) * ((blocks + 9) / 10) + us(250)}, blocks, Issue::eager, us(400));
    change(s);
    return s.run().of(ClientId{0}).at(1).preemptions != 0;
  };
  const auto kernel = [](auto change) { return [change](BatchAndCamera& of) { change(of.trace.kernels[0]); }; };
  EXPECT_TRUE(stopped(100, [](BatchAndCamera&) {}));
  EXPECT_TRUE(stopped(11, [](BatchAndCamera&) {}));
  EXPECT_FALSE(stopped(10, [](BatchAndCamera&) {}));
  EXPECT_FALSE(stopped(100, kernel([](Kernel& k) { k.cluster = {2, 1, 1}; })));
  EXPECT_FALSE(stopped(100, kernel([](Kernel& k) { k.ptx = false; })));
  EXPECT_FALSE(stopped(100, [](BatchAndCamera& of) {
    for (Op& op : of.trace.programs[0].ops) op.graph = std::holds_alternative<Launch>(op.what) ? 1 : 0;
  }));
  EXPECT_FALSE(stopped(100, [](BatchAndCamera& of) { of.trace.clients[0].service_class = ServiceClass::real_time; }));
  EXPECT_FALSE(stopped(100, [](BatchAndCamera& of) { std::get<Launch>(of.trace.programs[0].ops[2].what).dependent = true; }));
}

TEST(PersistentLaunches, TheLastAttemptIsNotStopped) {
  // Of three attempts two are stopped; then 30 blocks are left, and what is behind them waits.
  const Collector ran = BatchAndCamera(2, {us(1250), us(1550), us(1850)}).run();
  EXPECT_THAT(begins(ran, 1), ElementsAre(us(1300), us(1600), us(2200)));
  EXPECT_THAT(ends(ran, 0), ElementsAre(us(1000), us(2200)));
}

TEST(PersistentLaunches, AttemptsThatAreLeftFindNothingToDoFor15UsEach) {
  const auto second_request = [](std::vector<Time> requests) {
    BatchAndCamera s(1, std::move(requests));
    s.trace.clients[0].arrivals = ClosedLoop{};
    s.trace.run.duration = us(4000);
    return begins(s.run(), 0).at(2);
  };
  EXPECT_EQ(second_request({}), us(2030)) << "two are left of the launch that began at 1 ms";
  EXPECT_EQ(second_request({us(1550)}), us(2100) + us(15));
}

TEST(PersistentLaunches, WhatIsBehindThemInTheStreamWaitsForTheirAttempts) {
  BatchAndCamera s(4, {us(4060)});
  std::erase_if(s.trace.programs[0].ops, [](const Op& op) { return std::holds_alternative<Sync>(op.what); });
  s.trace.programs[0].ops.insert(s.trace.programs[0].ops.begin() + 1, sync());
  EXPECT_THAT(begins(s.run(), 0), ElementsAre(us(0), us(1000), us(2030), us(3060)));
}

TEST(PersistentLaunches, AnOrderThatComesWithTheLastBlocksIsAnsweredByTheEnd) {
  const Collector ran = BatchAndCamera(2, {us(1950)}).run();
  EXPECT_THAT(ends(ran, 0), ElementsAre(us(1000), us(2000)));
  EXPECT_THAT(ran.of(ClientId{1}), testing::SizeIs(1));
}

TEST(PersistentLaunches, KeepToAQuotaFromTheSecondOn) {
  BatchAndCamera s(2);
  s.trace.clients[0].quota = 0.5;
  const Collector ran = s.run("smguard", false);  // it needs no further word
  EXPECT_THAT(ends(ran, 0), ElementsAre(us(1000), us(3000)));
  const std::vector<std::uint32_t> sms = sms_of(ran.blocks_of(ran.of(ClientId{0})[1].launch));
  EXPECT_EQ(std::set<std::uint32_t>(sms.begin(), sms.end()).size(), 5u);
}

TEST(PersistentLaunches, GiveWayToAReservationAtABlockAndGrowBackWithAnotherAttempt) {
  BatchAndCamera s(2, {us(1550)});
  s.camera->reservation = 0.3;
  const Collector ran = s.run("smguard");
  EXPECT_THAT(begins(ran, 1), ElementsAre(us(1600)));
  // 60 blocks by 1.6 ms; beside the camera the others go on; then an attempt with all workers.
  EXPECT_EQ(ran.blocks_of(ran.of(ClientId{0})[1].launch).size(), 100u);
  EXPECT_LT(ends(ran, 0)[1], us(2300));
}

TEST(PersistentLaunches, KeepTheirSizeWhereOnlyTheLastAttemptIsLeft) {
  BatchAndCamera s(2, {us(1150), us(1550)});
  s.camera->reservation = 0.3;
  s.trace.kernels[1].grid = {3, 1, 1};
  const Collector ran = s.run("smguard");
  // Three workers give way twice. They come again with the second attempt, and would with the third, which has no size.
  EXPECT_EQ(ran.of(ClientId{0})[1].preemptions, 1u);
  const Time end = ends(ran, 0)[1];
  std::map<Time, int> begun;
  for (const BlockRecord& b : ran.blocks_of(ran.of(ClientId{0})[1].launch))
    if (b.start > us(1800)) ++begun[us(b.start / us(1))];
  EXPECT_GT(begun.size(), 3u);
  for (const auto& [at, n] : begun) EXPECT_LE(n, 7) << at / us(1);
  EXPECT_GT(end, us(2200));
}

class EachPolicy : public testing::TestWithParam<const char*> {};

TEST_P(EachPolicy, EachBlockRunsOnceWheneverRequestsCome) {
  for (int i = 0; i < 60; ++i) {
    std::vector<Time> requests;
    for (int r = 0; r < 12; ++r) requests.push_back(us(1000 + 37 * i + (700 + 13 * i) * r));
    BatchAndCamera s(6, requests);
    s.camera->reservation = 0.3;
    const Collector ran = s.run(GetParam());
    const std::vector<KernelRecord> batch = ran.of(ClientId{0});
    ASSERT_EQ(batch.size(), 6u) << i;
    for (const KernelRecord& k : batch) {
      std::map<std::uint32_t, int> times;
      for (const BlockRecord& b : ran.blocks_of(k.launch)) ++times[b.block];
      EXPECT_EQ(times.size(), 100u) << i;
      EXPECT_TRUE(std::ranges::all_of(times, [](const auto& t) { return t.second == 1; })) << i;
    }
    EXPECT_EQ(ran.of(ClientId{1}).size(), 12u) << i;
  }
}
INSTANTIATE_TEST_SUITE_P(Policies, EachPolicy, testing::Values("wait", "wait:beside=on", "reef-n", "smguard"),
                         [](const auto& p) { return fmt::format("{}", p.index); });

}  // namespace
}  // namespace corun::sim
