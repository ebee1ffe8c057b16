// Persistent kernels with a number of CTAs per SM: do their blocks stay where they may run, does every block
// run once, what does a change of the numbers do and when?
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "policies/session/profile_file.h"
#include "sim/backend/sim_backend.h"
#include "tests/support/engine_rig.h"
#include "traces/model/error.h"

namespace corun::sim {
namespace {

using PerSm = std::vector<std::uint16_t>;

/// Most blocks of a launch that ran at once on each SM within [from, to).
PerSm most_at_once_by_sm(const std::vector<BlockRecord>& blocks, std::uint32_t sms, Time from = {},
                   Time to = kNever) {
  PerSm most(sms);
  for (std::uint32_t sm = 0; sm < sms; ++sm) {
    std::map<Time, int> changes;
    for (const BlockRecord& b : blocks) {
      if (b.sm.value != sm || b.end <= from || b.start >= to) continue;
      ++changes[std::max(b.start, from)];
      --changes[b.end];
    }
    int now = 0;
    for (const auto& [at, change] : changes)
      if (at < to) most[sm] = std::max(most[sm], static_cast<std::uint16_t>(now += change));
  }
  return most;
}

Gpu gpu_of(std::uint32_t sms) {
  Gpu gpu = small_gpu(sms);
  gpu.retreat = ns(300);
  gpu.launch_latency = us(5);
  return gpu;
}

TEST(CtasPerSm, AreHeldExactlyOnAnEmptyGpu) {
  EngineRig rig(gpu_of(4));
  const LaunchId launch = rig.accept(kernel(200, 256, us(20)), {.ctas_per_sm = {3, 0, 8, 1}});
  rig.run();
  EXPECT_EQ(most_at_once_by_sm(rig.blocks(launch), 4), (PerSm{3, 0, 8, 1}));
  // The first blocks start as soon as they are placed; all have when the dispatcher has placed one residency.
  EXPECT_EQ(most_at_once_by_sm(rig.blocks(launch), 4, us(1), us(2)), (PerSm{3, 0, 8, 1}));
}

TEST(CtasPerSm, TheWholeResidencyIsThatOfAPlainPersistentKernel) {
  EngineRig by_sm(gpu_of(4)), plain(gpu_of(4));
  const Kernel k = kernel(300, 256, us(20));
  const LaunchId a = by_sm.accept(k, {.ctas_per_sm = {8, 8, 8, 8}}), b = plain.accept(k, {.ctas = 32});
  by_sm.run(), plain.run();
  EXPECT_EQ(by_sm.record(a).finished, plain.record(b).finished);
}

TEST(CtasPerSm, AWorkerThatLandsElsewhereHoldsItsPlaceUntilAllHaveLandedAndForTheRetreat) {
  // 2 SMs of 8 places: 16 workers, one a nanosecond; the neighbour waits for a place on SM 1.
  for (const auto& [arrives, starts] : {std::pair(ns(1), ns(16) + ns(300)), std::pair(us(2), us(2))}) {
    EngineRig rig(gpu_of(2));
    rig.accept(kernel(100, 256, us(20)), {.ctas_per_sm = {8, 0}});
    const LaunchId other = rig.accept(kernel(1, 256, us(1)), {.at = arrives, .kernel = KernelId{1}});
    rig.run();
    EXPECT_EQ(rig.record(other).started, starts);
    EXPECT_EQ(rig.sms(other), (std::vector<std::uint32_t>{1}));
  }
}

TEST(CtasPerSm, AnSmWithLittleRoomIsReachedAlthoughOthersHaveMore) {
  EngineRig rig(gpu_of(8));
  rig.accept(kernel(7, 256, us(900)), {.ctas_per_sm = {7, 0, 0, 0, 0, 0, 0, 0}});
  const LaunchId launch =
      rig.accept(kernel(20, 256, us(10)),
                 {.at = us(10), .ctas_per_sm = {1, 0, 0, 0, 0, 0, 0, 0}, .kernel = KernelId{1}});
  rig.run();
  EXPECT_EQ(most_at_once_by_sm(rig.blocks(launch), 8), (PerSm{1, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_LT(rig.record(launch).started, us(11));
}

TEST(CtasPerSm, WhereTheyComeTogetherTheWorkersOfAnSmTakeBlocksTogether) {
  Gpu gpu = gpu_of(4);
  gpu.neighbours_take_together = true;
  EngineRig rig(gpu);
  const LaunchId launch = rig.accept(kernel(10, 256, us(20)), {.ctas_per_sm = {8, 8, 8, 8}});
  rig.run();
  PerSm most = most_at_once_by_sm(rig.blocks(launch), 4);
  std::sort(most.begin(), most.end());
  EXPECT_EQ(most, (PerSm{0, 0, 2, 8}));
}

TEST(CtasPerSm, AFurtherInstanceComesOnceThereIsRoom) {
  EngineRig rig(gpu_of(2));
  rig.accept(kernel(8, 256, us(100)), {.mask = TpcMask::range(0, 1)});
  const LaunchId launch =
      rig.accept(kernel(40, 256, us(10)), {.at = us(1), .ctas_per_sm = {8, 0}, .kernel = KernelId{1}});
  rig.run();
  EXPECT_GE(rig.record(launch).started, us(100) + rig.gpu.launch_latency);
  EXPECT_LT(rig.record(launch).started, us(101) + rig.gpu.launch_latency);
  EXPECT_EQ(most_at_once_by_sm(rig.blocks(launch), 2), (PerSm{8, 0}));
}

TEST(CtasPerSm, WhereNothingTakesTimeAnInstanceInVainIsFollowedAtALaterInstant) {
  // SM 1 has room for the workers, and it is kept for a block that needs more than that.
  for (const EngineOptions options : {EngineOptions{true, false}, EngineOptions{false, true}}) {
    Gpu gpu = small_gpu(2);
    gpu.dispatch_interval = gpu.launch_latency = gpu.retreat = ns(0);
    EngineRig rig(gpu, options, options.audit);
    const TpcMask second = TpcMask::range(1, 2);
    const LaunchId first = rig.accept(kernel(5, 256, us(10)), {.mask = second});
    const LaunchId waits =
        rig.accept(kernel(1, 1024, us(10)), {.at = us(1), .mask = second, .kernel = KernelId{1}});
    const LaunchId launch =
        rig.accept(kernel(20, 256, us(1)), {.at = us(2), .ctas_per_sm = {0, 3}, .kernel = KernelId{2}});
    rig.run();
    const Time room = rig.record(first).finished;
    EXPECT_EQ(rig.record(waits).started, room);
    EXPECT_EQ(rig.record(launch).started, room);
    if (options.audit) {
      EXPECT_EQ(most_at_once_by_sm(rig.blocks(launch), 2), (PerSm{0, 3}));
    }
  }
}

TEST(CtasPerSm, AKernelOfFewerBlocksThanItsCtasEnds) {
  EngineRig rig(gpu_of(4));
  const LaunchId launch = rig.accept(kernel(2, 256, us(5)), {.ctas_per_sm = {0, 8, 8, 8}});
  rig.run();
  EXPECT_EQ(rig.blocks(launch).size(), 2u);
}

TEST(CtasPerSm, FewerTakeEffectAtTheNextBlockOfEachSm) {
  EngineRig rig(gpu_of(2));
  const LaunchId launch = rig.accept(kernel(400, 256, us(10)), {.ctas_per_sm = {8, 8}});
  rig.run_to(us(35));
  rig.engine.resize(launch, {2, 8}, true);
  rig.run();
  const auto blocks = rig.blocks(launch);
  EXPECT_EQ(most_at_once_by_sm(blocks, 2, us(35), us(40)), (PerSm{8, 8}));
  EXPECT_EQ(most_at_once_by_sm(blocks, 2, us(41)), (PerSm{2, 8}));
}

TEST(CtasPerSm, MoreComeWithAFurtherInstance) {
  EngineRig rig(gpu_of(2));
  const LaunchId launch = rig.accept(kernel(400, 256, us(10)), {.ctas_per_sm = {2, 2}});
  rig.run_to(us(35));
  rig.engine.resize(launch, {2, 6}, true);
  rig.run();
  const auto blocks = rig.blocks(launch);
  EXPECT_EQ(most_at_once_by_sm(blocks, 2, us(30), us(35)), (PerSm{2, 2}));
  EXPECT_EQ(most_at_once_by_sm(blocks, 2, us(36), us(40)), (PerSm{2, 6}));
}

TEST(CtasPerSm, AllMayMoveToOtherSms) {
  EngineRig rig(gpu_of(2));
  const LaunchId launch = rig.accept(kernel(200, 256, us(10)), {.ctas_per_sm = {4, 0}});
  rig.run_to(us(35));
  rig.engine.resize(launch, {0, 3}, false);
  rig.run_to(us(100));  // none is left: SM 0 was busy for four rounds, SM 1 while workers held its places
  EXPECT_EQ(rig.engine.sm_ps(), (us(40) + ns(6) + ns(15) + ns(300)).count());
  rig.engine.resize(launch, {0, 3}, true);
  rig.run();
  EXPECT_EQ(most_at_once_by_sm(rig.blocks(launch), 2, us(100)), (PerSm{0, 3}));
  EXPECT_EQ(rig.blocks(launch).size(), 200u);
}

// ---- through the backend ----------------------------------------------------------------------------------

/// Why the simulated GPU refuses a launch with these CTAs per SM, or "".  Two SMs of 8 places.
std::string refusal(decide::Launch launch, const Kernel& k = kernel(100, 256, us(1))) {
  TraceBuilder b;
  b.one_kernel("client", k);
  Timeline timeline;
  SimBackend backend(b.trace, gpu_of(2), {}, timeline, {true, true});
  LaunchView view;
  view.id = launch.launch = LaunchId{0, 0};
  view.kernel = &b.trace.kernels[0];
  view.operation = &b.trace.programs[0].ops[0];
  view.ctas = 1;
  const Outcome outcome = backend.apply(launch, view, {});
  const auto* refused = std::get_if<Refused>(&outcome);
  return refused == nullptr ? "" : refused->reason;
}

TEST(CtasPerSmOfALaunch, AreRefusedWhereTheyCannotBe) {
  EXPECT_EQ(refusal({{}, 0, {}, 0, {1}}), "not one number of CTAs for each SM");
  EXPECT_EQ(refusal({{}, 0, {}, 0, {1, 1, 1}}), "not one number of CTAs for each SM");
  EXPECT_EQ(refusal({{}, 0, {}, 0, {0, 0}}), "a persistent kernel keeps at least one CTA");
  EXPECT_EQ(refusal({{}, 0, {}, 0, {9, 0}}), "more CTAs than an SM holds");
  EXPECT_EQ(refusal({{}, 0, {}, 0, {8, 0}}), "");
  EXPECT_EQ(refusal({{}, 0, {}, 7, {8, 0}}), "the number of CTAs is not the sum of those per SM");
  EXPECT_EQ(refusal({{}, 0, {}, 8, {8, 0}}), "");
  EXPECT_EQ(refusal({{}, 0, TpcMask::range(0, 1), 0, {1, 1}}), "CTAs on an SM outside the mask");
  EXPECT_EQ(refusal({{}, 0, TpcMask::range(0, 1), 0, {1, 0}}), "");
}

// ---- profiles in files ------------------------------------------------------------------------------------

class ProfileFile : public testing::Test {
 protected:
  std::filesystem::path file =
      std::filesystem::path(testing::TempDir()) /
      ("corun-profile-" + std::to_string(testing::UnitTest::GetInstance()->random_seed()) +
       testing::UnitTest::GetInstance()->current_test_info()->name() + ".json");
  void TearDown() override { std::filesystem::remove(file); }
  void write(const std::string& text) { std::ofstream(file) << text; }
  std::string problem() {
    try {
      read_profiles(file);
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  }
};

TEST_F(ProfileFile, WhatIsWrittenIsReadBack) {
  const Profiles written{
      "", "small", "simulated", {{"k", {{3, us(9), 3, 1}, {5, us(7), 3, 2}, {6, ps(6001), 3, 2}}}}};
  {
    std::ofstream out(file);
    write_profiles(written, out);
  }
  const Profiles read = read_profiles(file);
  EXPECT_EQ(read.gpu, "small");
  EXPECT_EQ(read.source, "simulated");
  const Profile& profile = read.of("k");
  ASSERT_EQ(profile.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(profile[i].ctas, written.kernels[0].second[i].ctas);
    EXPECT_EQ(profile[i].time, written.kernels[0].second[i].time);
    EXPECT_EQ(profile[i].ctas_per_sm, written.kernels[0].second[i].ctas_per_sm);
  }
  EXPECT_THROW(read.of("other"), InputError);
  // A policy that gives numbers per SM sees whole ones, another those over all SMs.
  EXPECT_EQ(points_for(profile, 4, true).size(), 2u);
  EXPECT_EQ(points_for(profile, 4, false).size(), 1u);
}

TEST_F(ProfileFile, SaysWhatIsWrong) {
  const auto with = [](const std::string& points) {
    return R"({"corun_profile": 1, "gpu": "h200", "source": "simulated", "kernels": [{"kernel": "k", "points": )" +
           points + "}]}";
  };
  write(with(R"([{"sms": 2, "ctas_per_sm": 2, "time_ns": 5}])"));
  EXPECT_EQ(problem(), "");
  write(with(R"([{"sms": 2, "ctas_per_sm": 2, "time_ns": 5}, {"sms": 2, "ctas_per_sm": 2, "time_ns": 6}])"));
  EXPECT_THAT(problem(), testing::HasSubstr("/kernels/0/points/1: this configuration is there twice"));
  write(with(R"([{"sms": 2, "ctas_per_sm": 2, "ctas": 5, "time_ns": 5}])"));
  EXPECT_THAT(problem(), testing::HasSubstr("/kernels/0/points/0/ctas"));
  write(with(R"([{"sms": 0, "ctas_per_sm": 2, "time_ns": 5}])"));
  EXPECT_THAT(problem(), testing::HasSubstr("/kernels/0/points/0/sms"));
}

}  // namespace
}  // namespace corun::sim
