// slate, smcompactor and smguard: what each decides, against a script, and what that comes to in the
// simulator.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policies/api/registry.h"
#include "sim/run/run.h"
#include "tests/support/run_trace.h"
#include "tests/support/scripted_backend.h"
#include "traces/json/trace_json.h"
#include "traces/model/error.h"

namespace corun::sim {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// Profile of a kernel whose throughput is that of its CTAs, up to `sms` SMs with `each` on them.
Profile saturating(std::uint32_t sms_there_are, std::uint32_t most_on_each, std::uint32_t sms,
                   std::uint32_t each, Time best) {
  Profile profile;
  for (std::uint32_t s = 1; s <= sms_there_are; ++s)
    for (std::uint32_t k = 1; k <= most_on_each; ++k) {
      const std::uint32_t of = sms * each, has = std::min(s * std::min(k, each), of);
      profile.push_back({s * k, best * of / has, s, k});
    }
  return profile;
}

/// Ten SMs of 64 warps and 2,048 threads.
struct SharedScript : TraceBuilder {
  explicit SharedScript(const Gpu& gpu = small_gpu(10))
      : backend(gpu, {Capability::order, Capability::priority, Capability::sm_quota,
                      Capability::preempt_at_block, Capability::progress}) {}
  ScriptedBackend backend;
  std::vector<Profile> profiles;
  SessionOutcome outcome;

  /// 100 blocks of `threads` threads.
  Client& kernel_with(Profile profile, Time arrival, std::uint32_t threads = 256) {
    Kernel k = sim::kernel(100, threads, us(1));
    k.solo_time = us(100);
    profiles.push_back(std::move(profile));
    return one_kernel(std::to_string(trace.clients.size()), k, arrival);
  }
  Counters& counters() { return trace.kernels.back().counters; }
  void run(const std::string& policy_spec) {
    Timeline timeline;
    const auto policy = make_policy(policy_spec);
    Session session(trace, *policy, backend, timeline, [this](KernelId k) { return profiles[k.value]; });
    outcome = session.run();
    EXPECT_EQ(outcome.stuck, "");
  }
};

// ---- smcompactor ------------------------------------------------------------------------------------------

TEST(SmCompactor, AKernelGetsTheFewestSmsNearItsBestAndThenTheFewestCtas) {
  SharedScript s;
  // 4 SMs x 3 are its best; 4 x 2 reach 0.67.  With threshold 0.75 three SMs x 3 do.
  s.kernel_with(saturating(10, 4, 4, 3, us(100)), us(0));
  s.backend.finish(us(50), 0);
  s.run("smcompactor");
  EXPECT_THAT(s.backend.at(us(0)), ElementsAre("launch 0 ctas 3,3,3,3,0,0,0,0,0,0"));
  SharedScript t;
  t.kernel_with(saturating(10, 4, 4, 3, us(100)), us(0));
  t.backend.finish(us(50), 0);
  t.run("smcompactor:threshold=0.75");
  EXPECT_THAT(t.backend.at(us(0)), ElementsAre("launch 0 ctas 3,3,3,0,0,0,0,0,0,0"));
}

TEST(SmCompactor, TheNextIsFilledIntoWhatIsLeftOnSmsInUseBeforeItGetsFurtherOnes) {
  SharedScript s;
  // The first: 4 SMs x 1 of 1,024 threads; the second, of 256 threads, needs 5 x 4: the four hold 4 each.
  s.kernel_with(saturating(10, 2, 4, 1, us(100)), us(0), 1024);
  s.kernel_with(saturating(10, 4, 5, 4, us(100)), us(0), 256);
  s.backend.finish(us(50), 0);
  s.backend.finish(us(50), 1);
  s.run("smcompactor");
  EXPECT_THAT(s.backend.at(us(0)),
              ElementsAre("launch 0 ctas 1,1,1,1,0,0,0,0,0,0", "launch 1 ctas 4,4,4,4,4,0,0,0,0,0"));
}

TEST(SmCompactor, TheFirstSpreadsOutWhereOtherwiseTheNextIsNotNearItsBest) {
  SharedScript s;
  // Alone the first takes 5 SMs x 2 (all threads); the second needs one CTA on each SM: 10 x 1 leave places.
  s.kernel_with(saturating(10, 2, 5, 2, us(100)), us(0), 1024);
  s.kernel_with(saturating(10, 2, 10, 1, us(100)), us(0), 1024);
  s.backend.finish(us(50), 0);
  s.backend.finish(us(50), 1);
  s.run("smcompactor:threshold=1");
  EXPECT_THAT(s.backend.at(us(0)),
              ElementsAre("launch 0 ctas 1,1,1,1,1,1,1,1,1,1", "launch 1 ctas 1,1,1,1,1,1,1,1,1,1"));
}

TEST(SmCompactor, TheTableIsMadeAnewWhenAKernelComesOrEnds) {
  SharedScript s;
  s.kernel_with(saturating(10, 2, 5, 2, us(100)), us(0), 1024);
  s.kernel_with(saturating(10, 2, 10, 1, us(100)), us(10), 1024);
  s.backend.finish(us(50), 1);
  s.backend.finish(us(80), 0);
  s.run("smcompactor:threshold=1");
  EXPECT_THAT(s.backend.at(us(0)), ElementsAre("launch 0 ctas 2,2,2,2,2,0,0,0,0,0"));
  EXPECT_THAT(s.backend.at(us(10)),
              ElementsAre("resize 0 ctas 1,1,1,1,1,1,1,1,1,1", "launch 1 ctas 1,1,1,1,1,1,1,1,1,1"));
  EXPECT_THAT(s.backend.at(us(50)), ElementsAre("resize 0 ctas 2,2,2,2,2,0,0,0,0,0"));
}

TEST(SmCompactor, AKernelThatHasStartedItsLastBlockKeepsItsPlaces) {
  SharedScript s;
  s.kernel_with(saturating(10, 2, 5, 2, us(100)), us(0), 1024);
  s.kernel_with(saturating(10, 2, 10, 1, us(100)), us(10), 1024);
  s.backend.last_block(us(5), 0);
  s.backend.finish(us(80), 0);
  s.backend.finish(us(90), 1);
  s.run("smcompactor:threshold=1");
  EXPECT_THAT(s.backend.at(us(10)), ElementsAre("launch 1 ctas 0,0,0,0,0,1,1,1,1,1"));
  EXPECT_THAT(s.backend.at(us(80)), ElementsAre("resize 1 ctas 1,1,1,1,1,1,1,1,1,1"));
}

TEST(SmCompactor, AKernelForWhichNoPlaceIsLeftWaits) {
  SharedScript s;
  s.kernel_with(saturating(10, 2, 10, 2, us(100)), us(0), 1024);
  s.kernel_with(saturating(10, 2, 10, 1, us(100)), us(10), 1024);
  s.backend.last_block(us(5), 0);
  s.backend.finish(us(80), 0);
  s.backend.finish(us(90), 1);
  s.run("smcompactor:threshold=1");
  EXPECT_THAT(s.backend.at(us(10)), IsEmpty());
  EXPECT_THAT(s.backend.at(us(80)), ElementsAre("launch 1 ctas 1,1,1,1,1,1,1,1,1,1"));
}

// ---- slate ------------------------------------------------------------------------------------------------

TEST(Slate, TwoComplementaryKernelsGetTheBestSplitInMultiplesOfFive) {
  SharedScript s;
  // Of 10 SMs the first needs 3: 5 and 5, which is the only split in steps of five.
  s.kernel_with(saturating(10, 2, 3, 2, us(100)), us(0), 1024);
  s.kernel_with(saturating(10, 2, 10, 2, us(100)), us(0), 1024);
  s.backend.finish(us(50), 0);
  s.backend.finish(us(60), 1);
  s.run("slate");
  EXPECT_THAT(s.backend.at(us(0)),
              ElementsAre("launch 0 ctas 2,2,2,2,2,0,0,0,0,0", "launch 1 ctas 0,0,0,0,0,2,2,2,2,2"));
  EXPECT_THAT(s.backend.at(us(50)), ElementsAre("resize 1 ctas 2,2,2,2,2,2,2,2,2,2"));
}

TEST(Slate, FinerStepsGiveTheFirstWhatItNeeds) {
  SharedScript s;
  s.kernel_with(saturating(10, 2, 3, 2, us(100)), us(0), 1024);
  s.kernel_with(saturating(10, 2, 7, 2, us(100)), us(0), 1024);
  s.backend.finish(us(50), 0);
  s.backend.finish(us(60), 1);
  s.run("slate:step=1,resize=no");
  EXPECT_THAT(s.backend.at(us(0)),
              ElementsAre("launch 0 ctas 2,2,2,0,0,0,0,0,0,0", "launch 1 ctas 0,0,0,2,2,2,2,2,2,2"));
  EXPECT_THAT(s.backend.at(us(50)), IsEmpty());
}

TEST(Slate, KernelsThatBothUseMuchOfTheSameRunOneAfterTheOther) {
  for (const double use : {69.0, 70.0}) {
    SharedScript s;
    s.kernel_with(saturating(10, 2, 3, 2, us(100)), us(0), 1024);
    s.counters().issue_active_pct = 90;
    s.kernel_with(saturating(10, 2, 3, 2, us(100)), us(0), 1024);
    s.counters().issue_active_pct = use;
    s.backend.finish(us(50), 0);
    s.backend.finish(us(90), 1);
    s.run("slate");
    EXPECT_EQ(s.backend.at(us(0)).size(), use < 70 ? 2u : 1u);
    if (use >= 70) {
      EXPECT_THAT(s.backend.at(us(50)), ElementsAre("launch 1 ctas 2,2,2,2,2,2,2,2,2,2"));
    }
  }
}

// ---- smguard ----------------------------------------------------------------------------------------------

/// On ten SMs of 8 blocks of 256 threads.
TEST(SmGuard, AnOfflineTaskGetsItsQuotaOfBlocksAndNoMore) {
  for (const auto& [quota, ctas] : {std::pair(0.5, "4,4,4,4,4,4,4,4,4,4"),
                                    {0.49, "4,4,4,4,4,4,4,4,4,3"},
                                    {0.001, "1,0,0,0,0,0,0,0,0,0"},
                                    {1.0, "8,8,8,8,8,8,8,8,8,8"}}) {
    SharedScript s;
    s.kernel_with({}, us(0)).quota = quota;
    s.backend.finish(us(50), 0);
    s.run("smguard");
    EXPECT_THAT(s.backend.at(us(0)), ElementsAre(std::string("launch 0 ctas ") + ctas));
  }
}

TEST(SmGuard, AnOfflineTaskTakesWhatIsLeft) {
  SharedScript s;
  s.kernel_with({}, us(0)).quota = 0.75;
  s.kernel_with({}, us(0)).quota = 0.75;
  s.backend.finish(us(50), 0);
  s.backend.finish(us(90), 1);
  s.run("smguard");
  EXPECT_THAT(s.backend.at(us(0)),
              ElementsAre("launch 0 ctas 6,6,6,6,6,6,6,6,6,6", "launch 1 ctas 2,2,2,2,2,2,2,2,2,2"));
  EXPECT_THAT(s.backend.at(us(50)), ElementsAre("resize 1 ctas 6,6,6,6,6,6,6,6,6,6"));
}

TEST(SmGuard, OfflineTasksReleaseWhereTheReservationIsTheNewestFirst) {
  SharedScript s;
  s.kernel_with({}, us(0)).quota = 0.5;
  s.kernel_with({}, us(1)).quota = 0.25;
  Client& online = s.kernel_with({}, us(10));
  online.service_class = ServiceClass::real_time;
  online.reservation = 0.625;
  s.backend.finish(us(50), 2);
  s.backend.finish(us(90), 0);
  s.backend.finish(us(90), 1);
  s.run("smguard");
  // Six SMs and a quarter of another are reserved: used last.
  EXPECT_THAT(s.backend.at(us(0)), ElementsAre("launch 0 ctas 8,8,8,3,3,2,2,2,2,2"));
  EXPECT_THAT(s.backend.at(us(1)), ElementsAre("launch 1 ctas 0,0,0,3,2,3,3,3,3,3"));
  EXPECT_THAT(s.backend.at(us(10)),
              ElementsAre("resize 0 ctas 8,8,8,3,0,0,0,0,0,0", "resize 1 ctas 0,0,0,3,0,0,0,0,0,0",
                          "launch 2 ctas 0,0,0,2,8,8,8,8,8,8"));
  EXPECT_THAT(s.backend.at(us(50)),
              ElementsAre("resize 0 ctas 8,8,8,3,3,2,2,2,2,2", "resize 1 ctas 0,0,0,3,2,3,3,3,3,3"));
}

TEST(SmGuard, AnOfflineTaskWithNothingLeftComesOffTheGpuAndWaits) {
  SharedScript s;
  s.kernel_with({}, us(0), 1024).quota = 1.0;  // two on an SM
  s.kernel_with({}, us(1), 32);                // nothing is left of the threads
  Client& online = s.kernel_with({}, us(10), 1024);
  online.service_class = ServiceClass::real_time;
  online.reservation = 1.0;
  s.backend.preempted(us(20), 0, 30);
  s.backend.finish(us(50), 2);
  s.backend.finish(us(90), 0);
  s.backend.finish(us(95), 1);
  s.run("smguard");
  EXPECT_THAT(s.backend.at(us(1)), IsEmpty());
  EXPECT_THAT(s.backend.at(us(10)), ElementsAre("preempt 0", "launch 2 ctas 2,2,2,2,2,2,2,2,2,2"));
  EXPECT_THAT(s.backend.at(us(50)), ElementsAre("launch 0 ctas 2,2,2,2,2,2,2,2,2,2"));
}

TEST(SmGuard, AnOnlineTaskThatFitsTakesFromNobody) {
  SharedScript s;
  s.kernel_with({}, us(0)).quota = 0.5;
  Client& online = s.kernel_with({}, us(10));
  online.service_class = ServiceClass::real_time;
  online.reservation = 0.5;
  s.backend.finish(us(50), 0);
  s.backend.finish(us(90), 1);
  s.run("smguard");
  EXPECT_THAT(s.backend.at(us(10)), ElementsAre("launch 1 ctas 0,0,0,0,0,8,8,8,8,8"));
  EXPECT_EQ(std::get<decide::Launch>(s.backend.decided.back().decision).priority, -2);
}

TEST(SmGuard, AnOnlineTaskWithoutAReservationComesBeforeOfflineOnes) {
  SharedScript s;
  s.kernel_with({}, us(0));
  s.kernel_with({}, us(10)).service_class = ServiceClass::real_time;
  s.backend.preempted(us(20), 0, 30);
  s.backend.finish(us(50), 1);
  s.backend.finish(us(90), 0);
  s.run("smguard");
  EXPECT_THAT(s.backend.at(us(10)), ElementsAre("preempt 0", "launch 1 ctas 8,8,8,8,8,8,8,8,8,8"));
  EXPECT_EQ(std::get<decide::Launch>(s.backend.decided.back().decision).priority, 0);
  EXPECT_THAT(s.backend.at(us(50)), ElementsAre("launch 0 ctas 7,7,7,7,7,7,7,7,7,7"));
}

/// With a carveout for kernels without shared memory and one for those with it.
Gpu gpu_with_carveouts() {
  Gpu gpu = small_gpu(10);
  gpu.sm.shared_memory_carveouts = {0, 65536};
  return gpu;
}

TEST(SmGuard, AnSmInUseIsFullForAKernelThatNeedsALargerCarveout) {
  SharedScript s(gpu_with_carveouts());
  s.kernel_with({}, us(0)).quota = 0.55;
  s.kernel_with({}, us(1)).quota = 0.25;
  s.trace.kernels.back().static_shared_memory_bytes = 8192;
  s.kernel_with({}, us(2)).quota = 0.5;
  s.backend.finish(us(50), 0);
  s.backend.finish(us(90), 2);
  s.backend.finish(us(120), 1);
  s.run("smguard");
  EXPECT_THAT(s.backend.at(us(0)), ElementsAre("launch 0 ctas 5,5,5,5,4,4,4,4,4,4"));
  EXPECT_THAT(s.backend.at(us(1)), IsEmpty());
  EXPECT_THAT(s.backend.at(us(2)), ElementsAre("launch 2 ctas 3,3,3,3,4,4,4,4,4,4"));
  EXPECT_THAT(s.backend.at(us(50)), ElementsAre("resize 2 ctas 4,4,4,4,4,4,4,4,4,4"));
  EXPECT_THAT(s.backend.at(us(90)), ElementsAre("launch 1 ctas 2,2,2,2,2,2,2,2,2,2"));
}

TEST(SmGuard, AKernelThatNeedsASmallerCarveoutSharesAnothersSm) {
  SharedScript s(gpu_with_carveouts());
  s.kernel_with({}, us(0)).quota = 0.25;
  s.trace.kernels.back().static_shared_memory_bytes = 8192;
  s.kernel_with({}, us(1));
  s.backend.finish(us(50), 0);
  s.backend.finish(us(90), 1);
  s.run("smguard");
  EXPECT_THAT(s.backend.at(us(0)), ElementsAre("launch 0 ctas 2,2,2,2,2,2,2,2,2,2"));
  EXPECT_THAT(s.backend.at(us(1)), ElementsAre("launch 1 ctas 6,6,6,6,6,6,6,6,6,6"));
}

TEST(SmGuard, WhoMakesWayForALargerCarveoutLeavesTheSmUntilTheOtherHasGone) {
  SharedScript s(gpu_with_carveouts());
  s.kernel_with({}, us(0));
  s.kernel_with({}, us(5));  // nothing is left for it
  Client& online = s.kernel_with({}, us(10));
  s.trace.kernels.back().static_shared_memory_bytes = 8192;
  online.service_class = ServiceClass::real_time;
  online.reservation = 0.05;  // half an SM
  s.backend.finish(us(20), 0);
  s.backend.finish(us(50), 2);
  s.backend.finish(us(90), 1);
  s.run("smguard");
  EXPECT_THAT(s.backend.at(us(10)),
              ElementsAre("resize 0 ctas 8,8,8,8,8,8,8,8,8,0", "launch 2 ctas 0,0,0,0,0,0,0,0,0,4"));
  EXPECT_THAT(s.backend.at(us(20)), ElementsAre("launch 1 ctas 8,8,8,8,8,8,8,8,8,0"));
  EXPECT_THAT(s.backend.at(us(50)), ElementsAre("resize 1 ctas 8,8,8,8,8,8,8,8,8,8"));
}

/// Layers of a network in real time beside two kernels that keep the GPU full, on an H200, where its kernels
/// need four carveouts.
TEST(SmGuard, KernelsOfManyCarveoutsDoNotWaitForEachOther) {
  Trace trace = read_trace("experiments/h200/policies/mixes/network.json");
  trace.run.duration = ms(10);
  const Gpu gpu = read_gpu(trace.gpu);
  const auto run_it = [&] {
    RunOptions options;
    options.policy = "smguard";
    return run(trace, gpu, options);
  };
  EXPECT_GT(run_it().clients[0].progress, 0.8) << "all that it asks for: the GPU";
  trace.clients[0].reservation = 0.5;
  const RunResult half = run_it();
  EXPECT_GT(half.clients[0].progress, 0.4) << "half of the GPU is reserved";
  EXPECT_GT(half.stp, 0.85) << "and the others have the rest";
}

TEST(SmGuard, ReservationsOfMoreThanTheGpuAreRefused) {
  SharedScript s;
  for (const double share : {0.6, 0.4, 0.01}) {
    Client& online = s.kernel_with({}, us(0));
    online.service_class = ServiceClass::real_time;
    online.reservation = share;
  }
  EXPECT_THROW(s.run("smguard"), InputError);
}

TEST(SmGuard, AnOfflineTaskForWhichNothingIsLeftWaits) {
  SharedScript s;
  s.kernel_with({}, us(0));
  s.kernel_with({}, us(0));
  s.backend.finish(us(50), 0);
  s.backend.finish(us(90), 1);
  s.run("smguard");
  EXPECT_THAT(s.backend.at(us(0)), ElementsAre("launch 0 ctas 8,8,8,8,8,8,8,8,8,8"));
  EXPECT_THAT(s.backend.at(us(50)), ElementsAre("launch 1 ctas 8,8,8,8,8,8,8,8,8,8"));
}

/// In the simulator: the reservation is there within one block's time and what the flag and a launch take.
TEST(SmGuard, AReservationIsHeldWithinOneBlockTime) {
  TraceBuilder b;
  b.one_kernel("offline", kernel(4000, 256, us(20)));
  Client& online = b.one_kernel("online", kernel(400, 256, us(5)), us(333));
  online.service_class = ServiceClass::real_time;
  online.reservation = 0.5;
  const Gpu gpu = slow_host_gpu(10);
  const Ran ran = run_trace(b.trace, gpu, "smguard", Record::blocks);
  const KernelRecord& record = ran.only(ClientId{1});
  const Time by = record.submitted + std::max(gpu.stop_flag, gpu.launch_latency) + us(20) + us(1);
  std::size_t running = 0;
  for (const BlockRecord& block : ran.blocks_of(record.launch))
    running += block.start <= by && block.end > by;
  EXPECT_EQ(running, 40u);
  std::size_t offline = 0;
  for (const BlockRecord& block : ran.blocks_of(ran.only(ClientId{0}).launch))
    offline += block.start <= by && block.end > by;
  EXPECT_EQ(offline, 40u);
}

}  // namespace
}  // namespace corun::sim
