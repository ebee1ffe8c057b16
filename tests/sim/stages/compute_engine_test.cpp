// What the engine assumes of who drives it, and shortcuts that only it can take.
#include "sim/stages/compute_engine.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/support/engine_rig.h"
#include "tests/support/stages.h"

namespace corun::sim {
namespace {

TEST(ComputeEngine, WavesOfASingleWorkerAreSkippedToo) {
  EngineRig quick(small_gpu(2), kShortcuts, false), plain(small_gpu(2), kPlain, false);
  for (EngineRig* rig : {&quick, &plain}) {
    rig->accept(kernel(10'000, 256, us(1)), {.ctas = 1});
    rig->run();
  }
  EXPECT_LT(quick.engine.events() * 100, plain.engine.events());
  EXPECT_EQ(lines(quick.collected.kernels), lines(plain.collected.kernels));
}

TEST(ComputeEngine, ALaunchBehindOneThatWasStoppedAtTheDoorGoesAsWithoutShortcuts) {
  std::vector<std::vector<std::string>> records;
  for (const EngineOptions options : {kShortcuts, kPlain}) {
    EngineRig rig(small_gpu(2), options, false);
    const Kernel k = kernel(1, 32, us(9));
    rig.accept(k);
    rig.run_to(us(20));
    EXPECT_TRUE(rig.engine.stop(rig.accept(k), false));  // before its first block
    rig.accept(k);
    for (int i = 0; i < 4; ++i) {
      std::vector<EngineNotice> notices;
      rig.engine.advance(kNever, notices);
    }
    EXPECT_EQ(rig.engine.now(), us(29)) << "time does not go back";
    rig.accept(k, {.at = us(29)});
    rig.run();
    records.push_back(lines(rig.collected.kernels));
  }
  EXPECT_EQ(records[0], records[1]);
}

TEST(ComputeEngine, WithoutALimitItReturnsWhenNothingHappensAnyMore) {
  for (const EngineOptions options : {kShortcuts, kPlain}) {
    EngineRig rig(small_gpu(2), options, false);
    const LaunchId launch = rig.accept(kernel(4, 256, us(10)));
    rig.run_to(us(1));
    ASSERT_TRUE(rig.engine.kill(launch));
    EXPECT_EQ(rig.engine.collect(launch).done, 0u);
    ASSERT_NE(rig.engine.next_time(), kNever) << "where its blocks would have ended";
    std::vector<EngineNotice> notices;
    rig.engine.advance(kNever, notices);
    EXPECT_TRUE(notices.empty());
    EXPECT_EQ(rig.engine.next_time(), kNever);
    EXPECT_LE(rig.engine.now(), us(10) + ns(4));
  }
}

TEST(ComputeEngine, ALaunchThatWasOnTheGpuBeforeTellsNothingOfHowOthersGo) {
  const Gpu gpu = small_gpu(2);
  Timeline timeline;
  Collector collected;
  timeline.attach(collected);
  ComputeEngine engine(gpu, timeline, kShortcuts);
  const Kernel k = kernel(4, 256, us(10));
  std::vector<EngineNotice> notices;
  engine.advance(us(100), notices);
  for (const std::uint32_t launch : {0u, 1u, 2u}) {
    Work work;
    work.record.launch = {launch, launch};
    work.record.blocks = k.blocks();
    work.block_alone = us(10);
    work.tells_last = false;
    if (launch == 0) {  // it ran, was reset, and starts anew
      work.resumed = true;
      work.record.slotted = work.record.started = us(3);
    }
    const Time came = engine.now();
    engine.accept(std::move(work), 0, engine.mask_of(TpcMask::all()), demand_of(k, gpu.sm));
    notices.clear();
    engine.advance(kNever, notices);
    EXPECT_EQ(collected.kernels.back().started, launch == 0 ? us(3) : came) << launch;
  }
}

TEST(ComputeEngine, RefusesWhatMakesNoSense) {
  EngineRig rig(small_gpu(2), kShortcuts, false);
  const LaunchId plain = rig.accept(kernel(4, 256, us(10)));
  EXPECT_THROW(rig.engine.resize(plain, 2), std::logic_error);  // it has no workers
  EXPECT_THROW(rig.engine.pair_up(plain, plain), std::logic_error);
  EXPECT_THROW(rig.engine.pair_up(plain, {7, 7}), std::logic_error);  // not on the GPU
  EXPECT_THROW(rig.engine.collect(plain), std::logic_error);       // was not taken off
  const LaunchId workers = rig.accept(kernel(4, 256, us(10)), {.ctas = 2});
  EXPECT_THROW(rig.engine.resize(workers, 0), std::logic_error);
  EXPECT_THROW(rig.accept(kernel(1, 32, us(1)), {.mask = TpcMask::range(5, 6)}), std::logic_error);
  EXPECT_THROW(rig.accept(kernel(1, 32, us(1)), {.mask = TpcMask::range(0, 1), .ctas_per_sm = {1, 1}}),
               std::logic_error);
  rig.run_to(us(3));
  std::vector<EngineNotice> notices;
  EXPECT_THROW(rig.engine.advance(us(3) - ps(1), notices), std::logic_error);
  EXPECT_NO_THROW(rig.engine.advance(us(3), notices));
}

}  // namespace
}  // namespace corun::sim
