// Are the engine's shortcuts exact?  The same runs with and without them, and audited block by block.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <map>
#include <unordered_set>

#include "tests/support/engine_rig.h"
#include "tests/support/random_trace.h"
#include "tests/support/run_trace.h"
#include "tests/support/stages.h"
#include "traces/json/trace_json.h"

namespace corun::sim {
namespace {

/// What the blocks of one launch say.
struct Blocks {
  std::unordered_set<std::uint32_t> numbers;
  std::uint64_t records = 0;
  Time first_start = kNever, last_start{}, last_end{};
  void add(const BlockRecord& b) {
    ++records;
    numbers.insert(b.block);
    first_start = std::min(first_start, b.start);
    last_start = std::max(last_start, b.start);
    last_end = std::max(last_end, b.end);
  }
};

struct PolicyCase {
  const char* policy;
  std::uint64_t first_seed;
};
void PrintTo(const PolicyCase& c, std::ostream* out) { *out << c.policy; }

class RandomTraces : public testing::TestWithParam<PolicyCase> {};

/// The audit switches the shortcuts off, and so does recording blocks.
TEST_P(RandomTraces, GiveTheSameRecordsWithShortcutsAndAuditedWithEveryBlockOnce) {
  for (std::uint64_t seed = GetParam().first_seed, end = seed + 60; seed < end; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const auto [gpu, trace] = random_scenario(seed, Requests::repeated);
    const Ran quick = run_trace(trace, gpu, GetParam().policy, Record::kernels, kShortcuts);
    const Ran audited = run_trace(trace, gpu, GetParam().policy, Record::blocks, kAudited);
    ASSERT_EQ(lines(quick.kernels), lines(audited.kernels));
    ASSERT_EQ(lines(quick.requests), lines(audited.requests));
    ASSERT_EQ(quick.blocks_run, audited.blocks_run);
    ASSERT_EQ(quick.outcome.end, audited.outcome.end);
    ASSERT_EQ(quick.sm_ps, audited.sm_ps);
    ASSERT_EQ(quick.warp_ps, audited.warp_ps);

    std::map<LaunchId, Blocks> blocks;
    for (const BlockRecord& b : audited.blocks) blocks[b.launch].add(b);
    for (const KernelRecord& k : audited.kernels) {
      if (k.finished == kNever) continue;
      const Blocks& ran = blocks[k.launch];
      ASSERT_EQ(ran.numbers.size(), k.blocks);
      ASSERT_EQ(ran.records, k.blocks);
      ASSERT_EQ(k.started, ran.first_start);
      ASSERT_EQ(k.last_block, ran.last_start);
      ASSERT_GE(k.finished, ran.last_end);
      if (k.ctas == 0) {
        ASSERT_EQ(k.finished, ran.last_end);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, RandomTraces,
                         testing::Values(PolicyCase{"fcfs", 1}, PolicyCase{"priority", 101},
                                         PolicyCase{"tpc-mask", 201}, PolicyCase{"timeslice", 301},
                                         PolicyCase{"greedy", 401}),
                         [](const auto& test) {
                           std::string name = test.param.policy;
                           std::erase(name, '-');
                           return name;
                         });

/// A number of CTAs for each SM that `mask` allows, at most what fits, at least one in all.
std::vector<std::uint16_t> random_spread(Dice& dice, const Gpu& gpu, const Kernel& kernel,
                                         const TpcMask& mask) {
  const std::uint32_t most = max_active_blocks(capacity_of(gpu.sm), demand_of(kernel, gpu.sm));
  std::vector<std::uint16_t> spread(gpu.sms);
  std::uint32_t last = 0;
  for (std::uint32_t sm = 0; sm < gpu.sms; ++sm) {
    if (!mask.allows(TpcId{sm / gpu.sms_per_tpc})) continue;
    last = sm;
    if (!dice.one_in(3)) spread[sm] = static_cast<std::uint16_t>(dice.any(0, most));
  }
  if (std::all_of(spread.begin(), spread.end(), [](std::uint16_t n) { return n == 0; }))
    spread[last] = static_cast<std::uint16_t>(dice.any(1, most));
  return spread;
}

/// Without host or policy: launches of all shapes reach the TMU at random times, progress is read, sizes
/// change.
std::vector<std::string> random_engine_run(std::uint64_t seed, EngineOptions options, bool spreads = false) {
  struct Persistent {
    LaunchId launch;
    const Kernel* kernel;
    TpcMask mask;
    bool spread;
  };
  Dice dice(seed);
  const Scenario s = random_scenario(seed, Requests::one);
  EngineRig rig(s.gpu, options, options.audit);
  std::vector<std::string> seen;
  std::vector<Persistent> persistent;
  Time at{};
  for (int i = 0; i < 20; ++i) {
    if (!dice.one_in(3)) at += ns(dice.any(0, dice.one_in(3) ? 400'000 : 8'000));
    if (!persistent.empty() && dice.one_in(3)) {
      rig.run_to(at);
      const Persistent p = dice.one_of(persistent);
      seen.push_back(std::to_string(rig.engine.blocks_done(p.launch)));
      if (!p.spread) {
        rig.engine.resize(p.launch, dice.any(1, 40));
        continue;
      }
      const std::vector<std::uint16_t> to = random_spread(dice, s.gpu, *p.kernel, p.mask);
      rig.engine.resize(p.launch, to, false);
      at += ns(dice.any(0, 400));
      rig.run_to(at);
      rig.engine.resize(p.launch, to, true);
      continue;
    }
    const KernelId kernel{dice.any(0, static_cast<std::uint32_t>(s.trace.kernels.size()) - 1)};
    const std::uint32_t first = dice.one_in(3) ? dice.any(0, s.gpu.tpcs() - 1) : 0;
    Arriving how{at,
                 -static_cast<std::int32_t>(dice.any(0, s.gpu.priority_levels - 1)),
                 first == 0 ? TpcMask::all() : TpcMask::range(first, s.gpu.tpcs()),
                 dice.one_in(3) ? dice.any(1, 30) : 0,
                 {},
                 kernel};
    const Kernel& k = s.trace.kernels[kernel.value];
    const bool spread = spreads && dice.one_in(2);
    if (spread) how.ctas_per_sm = random_spread(dice, s.gpu, k, how.mask);
    const LaunchId launch = rig.accept(k, how);
    if (spread || how.ctas != 0) persistent.push_back({launch, &k, how.mask, spread});
  }
  rig.run();
  for (std::string& line : lines(rig.collected.kernels)) seen.push_back(std::move(line));
  seen.push_back(fmt::format("{} {}", rig.engine.sm_ps(), rig.engine.warp_ps()));
  return seen;
}

TEST(RandomLaunches, GiveTheSameRecordsWithShortcutsAndWithout) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed)
    ASSERT_EQ(random_engine_run(seed, kShortcuts), random_engine_run(seed, kPlain)) << "seed " << seed;
}

TEST(RandomLaunches, PassTheAudit) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed)
    ASSERT_EQ(random_engine_run(seed, kAudited), random_engine_run(seed, kPlain)) << "seed " << seed;
}

TEST(RandomLaunches, WithCtasPerSmGiveTheSameRecordsWithShortcutsAndWithout) {
  for (std::uint64_t seed = 1001; seed <= 1300; ++seed)
    ASSERT_EQ(random_engine_run(seed, kShortcuts, true), random_engine_run(seed, kPlain, true))
        << "seed " << seed;
}

TEST(RandomLaunches, WithCtasPerSmPassTheAudit) {
  for (std::uint64_t seed = 1001; seed <= 1100; ++seed)
    ASSERT_EQ(random_engine_run(seed, kAudited, true), random_engine_run(seed, kPlain, true))
        << "seed " << seed;
}

// ---- the cases that a shortcut is likely to miss ----------------------------------------------------------

/// The record of a kernel of many waves, beside others that come and go.
template <class Scene>
void expect_exact(Scene scene) {
  std::vector<std::vector<std::string>> records;
  for (const EngineOptions options : {kShortcuts, kPlain}) {
    Gpu gpu = small_gpu(2);
    gpu.persistent_task = ns(500);
    EngineRig rig(gpu, options, false);
    scene(rig);
    rig.run();
    records.push_back(lines(rig.collected.kernels));
  }
  EXPECT_EQ(records[0], records[1]);
}

/// It keeps `pct` % of the issue slots busy.
Kernel busy(Kernel k, double pct) {
  k.counters.issue_active_pct = pct;
  return k;
}

TEST(Waves, StopWhenANeighbourOnOneSmEndsWithoutMakingRoom) {
  // Both SMs: one wide block of the long kernel beside a small one; that on SM 0 ends early, that on SM 1
  // late.
  expect_exact([](EngineRig& rig) {
    rig.accept(busy(uneven_kernel(32, {us(300), us(5)}), 60));
    rig.accept(busy(whole_sm_kernel(100, us(3)), 80), {.at = us(1), .kernel = KernelId{1}});
  });
}

TEST(Waves, StopWhenANeighbourComesToOneSm) {
  expect_exact([](EngineRig& rig) {
    rig.accept(busy(whole_sm_kernel(100, us(3)), 80));
    rig.accept(busy(kernel(1, 32, us(200)), 60), {.at = us(31), .priority = -1, .kernel = KernelId{1}});
  });
}

TEST(Waves, StopWhenANeighbourOfAPersistentKernelEnds) {
  expect_exact([](EngineRig& rig) {
    rig.accept(busy(uneven_kernel(32, {us(300), us(5)}), 60));
    rig.accept(busy(whole_sm_kernel(100, us(3)), 80), {.at = us(1), .ctas = 2, .kernel = KernelId{1}});
  });
}

TEST(Waves, OfAPersistentKernelDoNotCountWorkersThatLeave) {
  expect_exact([](EngineRig& rig) {
    const LaunchId launch = rig.accept(kernel(100, 512, us(3)), {.ctas = 8});
    rig.engine.resize(launch, 1);  // before any worker has started
  });
}

TEST(Waves, OfAPersistentKernelGetShorterWhenSomeOfItsWorkersLeave) {
  expect_exact([](EngineRig& rig) {
    const TpcMask one = TpcMask::range(0, 1);
    rig.accept(busy(kernel(1, 32, ms(5)), 80), {.mask = one});
    const LaunchId launch =
        rig.accept(busy(kernel(400, 256, us(3)), 100), {.mask = one, .ctas = 7, .kernel = KernelId{1}});
    rig.run_to(us(50));
    rig.engine.resize(launch, 5);
  });
}

TEST(Instant, WhatEndsTogetherIsToldInTheOrderOfArrival) {
  const auto order = [](const Kernel& first, const Kernel& second, Time second_at, EngineOptions options) {
    EngineRig rig(small_gpu(2), options, false);
    rig.accept(first, {.mask = TpcMask::range(0, 1)});
    rig.accept(second, {.at = second_at, .mask = TpcMask::range(1, 2), .kernel = KernelId{1}});
    rig.run();
    EXPECT_EQ(rig.collected.kernels[0].finished, us(60));
    EXPECT_EQ(rig.collected.kernels[1].finished, us(60));
    return std::pair(rig.collected.kernels[0].launch.serial, rig.collected.kernels[1].launch.serial);
  };
  for (const EngineOptions options : {kShortcuts, kPlain}) {
    EXPECT_EQ(order(whole_sm_kernel(20, us(3)), whole_sm_kernel(3, us(20) - ns(1)), ns(3), options),
              std::pair(0u, 1u));
    EXPECT_EQ(order(whole_sm_kernel(3, us(20)), whole_sm_kernel(20, us(3) - ns(1)), ns(20), options),
              std::pair(0u, 1u));
  }
}

TEST(Waves, OfAPersistentKernelStopAtAResize) {
  expect_exact([](EngineRig& rig) {
    const LaunchId launch = rig.accept(kernel(500, 512, us(3)), {.ctas = 8});
    rig.run_to(us(40));
    rig.engine.resize(launch, 3);
    rig.run_to(us(80) + ns(100));
    rig.engine.resize(launch, 6);
  });
}

TEST(Waves, StopWhileALaunchWantsRoomThatChangesHands) {
  expect_exact([](EngineRig& rig) {
    const LaunchId launch = rig.accept(kernel(4, 512, ms(1)), {.priority = -1, .ctas_per_sm = {1, 0}});
    rig.accept(kernel(10'000, 512, us(3)), {.at = us(10), .kernel = KernelId{1}});
    rig.run_to(us(100));
    rig.engine.resize(launch, {1, 1}, true);
  });
}

TEST(Cohorts, BlocksThatEndTogetherMakeRoomOneByOne) {
  // The room of one of its blocks is enough for the second launch, that of two for the first, which was first
  // to want some.
  expect_exact([](EngineRig& rig) {
    const LaunchId large = rig.accept(kernel(2, 1024, ms(1)), {.ctas_per_sm = {1, 0}});
    const LaunchId small =
        rig.accept(kernel(2, 512, ms(1)), {.at = us(10), .ctas_per_sm = {1, 0}, .kernel = KernelId{1}});
    rig.accept(busy(kernel(4, 512, us(200)), 50),
               {.at = us(20), .mask = TpcMask::range(1, 2), .kernel = KernelId{2}});
    rig.run_to(us(100));
    rig.engine.resize(large, {1, 1}, true);
    rig.engine.resize(small, {1, 1}, true);
  });
}

TEST(Waves, OfAKernelOfManyWavesAreSkipped) {
  EngineRig quick(small_gpu(2), kShortcuts, false), plain(small_gpu(2), kPlain, false);
  for (EngineRig* rig : {&quick, &plain}) {
    rig->accept(kernel(100'000, 256, us(1)));
    rig->run();
  }
  EXPECT_LT(quick.engine.events() * 100, plain.engine.events());
  EXPECT_EQ(lines(quick.collected.kernels), lines(plain.collected.kernels));
}

/// Kernels of ResNet-50 on an H200, which wait for the memory, each as a persistent kernel; others come, and
/// its number of CTAs changes, at some time.
std::vector<std::string> rounds(std::uint64_t seed, EngineOptions options) {
  static const Gpu h200 = read_gpu("h200");
  static const Trace trace = read_trace("traces/h200/resnet50_b1.json");
  Dice dice(seed);
  Gpu gpu = h200;
  if (dice.one_in(2)) gpu.compute_capability_major = 8;  // whose issue slots go by the age of blocks
  EngineRig rig(gpu, options, false);
  Time at{};
  for (int i = 0; i < 3; ++i) {
    const auto any = [&] {
      return KernelId{dice.any(0, static_cast<std::uint32_t>(trace.kernels.size()) - 1)};
    };
    const KernelId persistent = any();
    const std::uint32_t ctas = dice.any(1, 4) * (dice.one_in(2) ? 132 : 1);
    const LaunchId launch =
        rig.accept(trace.kernels[persistent.value], {.at = at, .ctas = ctas, .kernel = persistent});
    at += ns(dice.any(0, 60'000));
    if (dice.one_in(2)) {
      rig.run_to(at);
      rig.engine.resize(launch, dice.any(1, 4));
    }
    const KernelId other = any();
    rig.accept(trace.kernels[other.value], {.at = at, .ctas = dice.one_in(2) ? 2u : 0u, .kernel = other});
    if (dice.one_in(3)) rig.run();
    at = std::max(at, rig.engine.now()) + ns(dice.any(0, 3'000));
  }
  rig.run();
  std::vector<std::string> seen = lines(rig.collected.kernels);
  seen.push_back(
      fmt::format("{} {} {}", rig.engine.sm_ps(), rig.engine.warp_ps(), rig.engine.blocks_run()));
  return seen;
}

TEST(Rounds, OfAPersistentKernelThatContendsAreTheSameSkippedAndNot) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed)
    ASSERT_EQ(rounds(seed, kShortcuts), rounds(seed, kPlain)) << "seed " << seed;
}

TEST(Rounds, OfAPersistentKernelThatContendsAreSkipped) {
  EngineRig quick(small_gpu(2), kShortcuts, false), plain(small_gpu(2), kPlain, false);
  for (EngineRig* rig : {&quick, &plain}) {
    rig->accept(busy(kernel(10'000, 256, us(1)), 60), {.ctas = 2});
    rig->run();
  }
  EXPECT_LT(quick.engine.events() * 100, plain.engine.events());
  EXPECT_EQ(lines(quick.collected.kernels), lines(plain.collected.kernels));
}

TEST(Solo, ASecondRunAloneTakesTwoEvents) {
  TraceBuilder b;
  b.client("client", b.program({launch(b.kernel(kernel(1000, 256, us(1))))}), ClosedLoop{});
  b.trace.run.duration = ms(10);
  const Ran quick = run_trace(b.trace, small_gpu(2), "fcfs", Record::kernels, kShortcuts);
  const Ran plain = run_trace(b.trace, small_gpu(2), "fcfs", Record::kernels, kPlain);
  EXPECT_EQ(lines(quick.kernels), lines(plain.kernels));
  EXPECT_LT(quick.events, quick.kernels.size() * 3);
}

TEST(Solo, IsGivenUpWhenAnotherKernelComesAtAnyTime) {
  for (const Time at : {ps(0), ps(1), ns(1), us(3), us(3) + ps(1), us(48), us(49), us(50)})
    expect_exact([&](EngineRig& rig) {
      const Kernel k = whole_sm_kernel(32, us(3));
      rig.accept(k);
      rig.accept(k, {.at = us(500)});
      rig.accept(kernel(3, 32, us(1)), {.at = us(500) + at, .kernel = KernelId{1}});
    });
}

TEST(Solo, AResizeAfterTheLastBlockHasStartedDoesNothing) {
  expect_exact([](EngineRig& rig) {
    const Kernel k = whole_sm_kernel(3, us(3));
    rig.accept(k, {.ctas = 2});
    const LaunchId again = rig.accept(k, {.at = us(500), .ctas = 2});
    rig.run_to(us(504));
    rig.engine.resize(again, 3);
  });
}

}  // namespace
}  // namespace corun::sim
