// What does it take to get launches off the GPU, and what becomes of their blocks?  And of a padded launch's?
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "policies/api/registry.h"
#include "policies/kernel_padding.h"
#include "sim/backend/sim_backend.h"
#include "tests/support/engine_rig.h"
#include "tests/support/random_trace.h"
#include "tests/support/run_trace.h"

namespace corun::sim {
namespace {

using testing::HasSubstr;

/// 4 SMs; 4 us to set the flag, 3 to empty the host's queues, 5 to kill, 20 and 2 for an evicted launch.
Gpu preemptible_gpu() {
  Gpu gpu = small_gpu(4);
  gpu.stop_flag = us(4);
  gpu.preemption.flag_place = PreemptionCosts::FlagPlace::relay;
  gpu.preemption.host_queue_reset = us(3);
  gpu.preemption.kill = us(5);
  gpu.preemption.evicted_launch = us(20);
  gpu.preemption.evicted_launch_interval = us(2);
  return gpu;
}

Kernel idempotent(Kernel k) {
  k.idempotent = true;
  return k;
}

/// Launches whatever is pending, in order; takes the first launch of client 0 off at a time; launches again
/// what came off from another time on.
class Script final : public Policy {
 public:
  Script(Time off, decide::Stop how, Time again) : off_(off), again_(again), how_(how) {}
  std::string_view name() const override { return "script"; }
  Requirements requirements() const override { return {{Capability::preempt_at_block, Capability::preempt_reset}}; }
  void decide(const Snapshot& now, std::vector<Decision>& decisions) override {
    for (const Notice& notice : now.notices) {
      if (const auto* p = std::get_if<Preempted>(&notice)) preempted.push_back({now.now, *p});
      if (const auto* f = std::get_if<KernelFinished>(&notice)) finished.push_back({now.now, *f});
    }
    if (now.now < off_ || now.now >= again_)
      for (LaunchId id : now.pending) decisions.push_back(decide::Launch{id, 0, {}, 0});
    if (now.now < off_) decisions.push_back(decide::WakeAt{off_});
    if (now.now >= off_ && now.now < again_) decisions.push_back(decide::WakeAt{again_});
    if (now.now < off_ || ordered_) return;
    ordered_ = true;
    if (!now.running.empty()) decisions.push_back(decide::Preempt{now.running.front(), how_});
  }
  std::vector<std::pair<Time, Preempted>> preempted;
  std::vector<std::pair<Time, KernelFinished>> finished;

 private:
  Time off_, again_;
  decide::Stop how_;
  bool ordered_ = false;
};

struct Outcomes : Ran {
  using Ran::Ran;
  std::vector<std::pair<Time, Preempted>> preempted;
  std::vector<std::pair<Time, KernelFinished>> finished;
};

Outcomes play(const Trace& trace, const Gpu& gpu, Script script) {
  Outcomes ran(true);
  Timeline timeline;
  timeline.attach(ran);
  SimBackend backend(trace, gpu, script.requirements(), timeline, {true, true});
  Session session(trace, script, backend, timeline, {});
  ran.outcome = session.run();
  backend.close();
  timeline.flush();
  ran.preempted = script.preempted;
  ran.finished = script.finished;
  return ran;
}

/// One client, one stream, `n` launches of a kernel of 12 blocks of 10 us, 4 at a time.
Trace launches(std::uint32_t n, const Kernel& k) {
  TraceBuilder b;
  const KernelId id = b.kernel(k);
  b.client("client", b.program(std::vector<Op>(n, launch(id))), Once{});
  return b.trace;
}
Kernel three_waves() { return idempotent(whole_sm_kernel(12, us(10))); }

std::vector<std::uint32_t> times_run(const Outcomes& ran, std::uint32_t blocks) {
  std::vector<std::uint32_t> times(blocks);
  for (const BlockRecord& b : ran.blocks) ++times[b.block];
  return times;
}

// ---- at the next block ------------------------------------------------------------------------------------

TEST(PreemptAtBlock, RunningBlocksEndAndTheRestRunLaterOnceEach) {
  const Outcomes ran =
      play(launches(1, three_waves()), preemptible_gpu(), {us(2), decide::Stop::at_block, us(50)});
  ASSERT_EQ(ran.preempted.size(), 1u);
  EXPECT_EQ(ran.preempted[0].second.blocks_done, 4u);  // the flag is seen at 6 us; the first wave ends at 10
  EXPECT_NEAR(to_ns(ran.preempted[0].first), 10'000, 10);
  EXPECT_EQ(times_run(ran, 12), std::vector<std::uint32_t>(12, 1));
  ASSERT_EQ(ran.kernels.size(), 1u);
  EXPECT_EQ(ran.kernels[0].preemptions, 1u);
  EXPECT_EQ(ran.kernels[0].redone_blocks, 0u);
  EXPECT_NEAR(to_ns(ran.kernels[0].finished), 70'000, 20);
}

TEST(PreemptAtBlock, ALaunchWhoseLastBlockHasStartedFinishesInstead) {
  // The last wave starts at 20.000 us and some dispatch; the flag is seen 4 us after the order.
  const Outcomes late =
      play(launches(1, three_waves()), preemptible_gpu(), {us(17), decide::Stop::at_block, us(50)});
  EXPECT_TRUE(late.preempted.empty());
  EXPECT_EQ(late.finished.size(), 1u);
  const Outcomes before =
      play(launches(1, three_waves()), preemptible_gpu(), {us(15), decide::Stop::at_block, us(50)});
  EXPECT_EQ(before.preempted.size(), 1u);
  EXPECT_EQ(before.preempted[0].second.blocks_done, 8u);
}

TEST(PreemptAtBlock, AStopThatIsSeenAPicosecondBeforeABlockEndsKeepsTheNextFromStarting) {
  const Gpu gpu = preemptible_gpu();
  const Trace trace = launches(1, idempotent(whole_sm_kernel(8, us(10))));
  // The first block of the second wave starts at 10 us.
  const Outcomes before = play(trace, gpu, {us(6) - ps(1), decide::Stop::at_block, us(50)});
  ASSERT_EQ(before.preempted.size(), 1u);
  EXPECT_EQ(before.preempted[0].second.blocks_done, 4u);
  const Outcomes at = play(trace, gpu, {us(6), decide::Stop::at_block, us(50)});
  ASSERT_EQ(at.preempted.size(), 1u);
  EXPECT_EQ(at.preempted[0].second.blocks_done, 5u);  // that one has started
}

TEST(PreemptAtBlock, LaunchesBehindItPassOneByOne) {
  const Outcomes ran =
      play(launches(4, three_waves()), preemptible_gpu(), {us(2), decide::Stop::at_block, us(90)});
  ASSERT_EQ(ran.preempted.size(), 4u);
  // The running one at 10 us; then 20 us, 2 us and 2 us, each with the dispatch of 12 blocks.
  const std::vector<double> expected{10'000, 30'012, 32'024, 34'036};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(to_ns(ran.preempted[i].first), expected[i], 10) << i;
  ASSERT_EQ(ran.preemptions.size(), 1u);
  EXPECT_EQ(ran.preemptions[0].launches, 4u);
  EXPECT_NEAR(to_ns(ran.preemptions[0].cleared - ran.preemptions[0].decided), 32'036, 10);
  EXPECT_EQ(ran.kernels.size(), 4u);
}

TEST(PreemptAtBlock, TheFlagTakesLongerTheMoreBlocksPollTheHost) {
  Gpu gpu = preemptible_gpu();
  gpu.preemption.flag_place = PreemptionCosts::FlagPlace::host;
  gpu.preemption.flag_host = us(4);
  gpu.preemption.flag_host_block = us(1);
  // Four blocks poll: 7 us, so that an order at 2 us still catches the first wave, one at 4 us does not.
  const auto done = [&](Time at) {
    return play(launches(1, three_waves()), gpu, {at, decide::Stop::at_block, us(50)})
        .preempted.at(0)
        .second.blocks_done;
  };
  EXPECT_EQ(done(us(2)), 4u);
  EXPECT_EQ(done(us(4)), 8u);
}

// ---- reset ------------------------------------------------------------------------------------------------

TEST(PreemptReset, RunningBlocksAreKilledAndTheKernelStartsAnew) {
  const Outcomes ran =
      play(launches(1, three_waves()), preemptible_gpu(), {ns(10'500), decide::Stop::reset, us(50)});
  ASSERT_EQ(ran.preempted.size(), 1u);
  EXPECT_EQ(ran.preempted[0].second.blocks_done, 0u);
  EXPECT_EQ(ran.preempted[0].first, ns(19'500));  // the flag after 4 us, the kill after 5 more
  ASSERT_EQ(ran.kernels.size(), 1u);
  EXPECT_EQ(ran.kernels[0].redone_blocks, 8u);
  EXPECT_NEAR(to_ns(ran.kernels[0].finished), 80'000, 20);
  for (const std::uint32_t n : times_run(ran, 12)) EXPECT_GE(n, 1u);
}

TEST(PreemptReset, IsRefusedForAKernelThatIsNotIdempotent) {
  const Outcomes ran =
      play(launches(1, whole_sm_kernel(12, us(10))), preemptible_gpu(), {us(2), decide::Stop::reset, us(50)});
  EXPECT_EQ(ran.outcome.refusals, 1u);
  EXPECT_TRUE(ran.preempted.empty());
  EXPECT_EQ(ran.kernels.at(0).redone_blocks, 0u);
}

TEST(PreemptReset, ClearsTheGpuHoweverLongItsBlocksAre) {
  for (const Time block : {us(50), ms(1), ms(100)}) {
    const Outcomes ran = play(launches(3, idempotent(whole_sm_kernel(4, block))), preemptible_gpu(),
                              {us(2), decide::Stop::reset, us(60)});
    ASSERT_EQ(ran.preemptions.size(), 1u);
    // Flag, kill, two launches behind it.
    EXPECT_NEAR(to_ns(ran.preemptions[0].cleared - ran.preemptions[0].decided),
                4'000 + 5'000 + 20'004 + 2'004, 10);
  }
}

// ---- padding ----------------------------------------------------------------------------------------------

/// Launches the first pending launch of client 0 padded with client 1's.
class Pads final : public Policy {
 public:
  Pads(std::uint32_t sms, std::uint64_t blocks) : sms_(sms), blocks_(blocks) {}
  std::string_view name() const override { return "pads"; }
  Requirements requirements() const override { return {{Capability::padding}}; }
  void decide(const Snapshot& now, std::vector<Decision>& decisions) override {
    for (const Notice& notice : now.notices)
      if (const auto* p = std::get_if<Preempted>(&notice)) done.push_back(p->blocks_done);
    if (now.pending.size() == 2 && done.empty())
      decisions.push_back(decide::LaunchPadded{now.pending[0], 0, sms_, now.pending[1], blocks_});
    else if (!done.empty())
      for (LaunchId id : now.pending) decisions.push_back(decide::Launch{id, 0, {}, 0});
  }
  std::vector<std::uint64_t> done;

 private:
  std::uint32_t sms_;
  std::uint64_t blocks_;
};

struct PaddedRun : Ran {
  using Ran::Ran;
  std::vector<std::uint64_t> done;
};
PaddedRun pad_run(const Kernel& real_time, const Kernel& padding, std::uint32_t sms, std::uint64_t blocks) {
  TraceBuilder b;
  b.one_kernel("real-time", real_time);
  b.one_kernel("padding", padding);
  PaddedRun ran(true);
  Timeline timeline;
  timeline.attach(ran);
  Pads policy(sms, blocks);
  Gpu gpu = preemptible_gpu();
  gpu.preemption.padding_cost_ratio = 1.01;
  SimBackend backend(b.trace, gpu, policy.requirements(), timeline, {true, true});
  Session session(b.trace, policy, backend, timeline, {});
  ran.outcome = session.run();
  backend.close();
  timeline.flush();
  ran.done = policy.done;
  return ran;
}

TEST(Padding, BothKeepToTheirSmsAndEndTogether) {
  const PaddedRun ran = pad_run(whole_sm_kernel(3, us(100)), whole_sm_kernel(5, us(30)), 3, 2);
  ASSERT_EQ(ran.done, std::vector<std::uint64_t>{2});
  for (const BlockRecord& b : ran.blocks) {
    if (b.client == ClientId{0}) {
      EXPECT_LT(b.sm.value, 3u);
    } else if (b.block < 2) {
      EXPECT_EQ(b.sm.value, 3u);
    }
  }
  EXPECT_NEAR(to_ns(ran.only(ClientId{0}).finished), 101'000, 10);  // with the cost of padding
  std::vector<std::uint32_t> times(5);
  for (const BlockRecord& b : ran.blocks)
    if (b.client == ClientId{1}) ++times[b.block];
  EXPECT_EQ(times, std::vector<std::uint32_t>(5, 1));
}

TEST(Padding, TheLaunchEndsWithTheLongerOfTheTwo) {
  const PaddedRun ran = pad_run(whole_sm_kernel(3, us(10)), whole_sm_kernel(2, us(30)), 3, 2);
  EXPECT_NEAR(to_ns(ran.only(ClientId{0}).finished), 60'600, 10);
  EXPECT_EQ(ran.only(ClientId{0}).finished, ran.only(ClientId{1}).finished);
}

TEST(Padding, BothHaveWhatTheLargerNeeds) {
  // Two blocks of half an SM's threads fit one SM alone; beside a kernel of whole SMs only one does.
  const PaddedRun ran = pad_run(whole_sm_kernel(3, us(100)), kernel(2, 1024, us(30)), 3, 2);
  std::vector<Time> starts;
  for (const BlockRecord& b : ran.blocks)
    if (b.client == ClientId{1}) starts.push_back(b.start);
  ASSERT_EQ(starts.size(), 2u);
  EXPECT_NEAR(to_ns(starts[1] - starts[0]), 30'300, 10);
}

TEST(Padding, FollowsTheReleasedRule) {
  Gpu gpu = small_gpu(60);
  const auto paddable = [&](const Kernel& k, Time solo) {
    return Paddable{demand_of(k, gpu.sm), k.blocks(), k.blocks(), solo};
  };
  // 100 blocks on 60 SMs: 2 layers, 50 SMs. 10 SMs are left; 4 blocks of 512 threads fit each, 100 us / 30
  // us: 3 times.
  const Kernel rt = kernel(100, 512, us(100)), be = kernel(1000, 512, us(30));
  const auto padding =
      pad(paddable(rt, us(100)), paddable(be, us(150)), gpu);  // 240 at a time: 5 waves of 30 us
  ASSERT_TRUE(padding);
  EXPECT_EQ(padding->sms, 50u);
  EXPECT_EQ(padding->blocks, 10u * 3 * 4);
  // No SM is left.
  EXPECT_FALSE(pad(paddable(kernel(60, 512, us(1)), us(100)), paddable(be, us(150)), gpu));
  // Its waves are longer than the real-time kernel, by a picosecond.
  EXPECT_TRUE(pad(paddable(rt, us(30)), paddable(be, us(150)), gpu));
  EXPECT_FALSE(pad(paddable(rt, us(30) - ps(1)), paddable(be, us(150)), gpu));
  // Its shared memory would halve the real-time kernel's occupancy.
  EXPECT_FALSE(pad(paddable(rt, us(100)), paddable(whole_sm_kernel(100, us(10)), us(20)), gpu));
}

// ---- everything over random workloads ---------------------------------------------------------------------

TEST(Preemption, EveryBlockRunsAtLeastOnceAndOnceOnlyUnlessAResetRedidIt) {
  std::uint64_t preempted = 0, redone = 0;
  for (const char* policy : {"reef", "reef-n:padding=on", "wait"})
    for (std::uint64_t seed = 5001; seed <= 5040; ++seed) {
      const auto [gpu, trace] = random_scenario(seed, Requests::one);
      const Ran ran = run_trace(trace, gpu, policy, Record::blocks);
      ASSERT_EQ(ran.outcome.stuck, "") << policy << " " << seed;
      std::map<LaunchId, std::vector<std::uint64_t>> times;
      for (const BlockRecord& b : ran.blocks) {
        auto& of = times[b.launch];
        of.resize(std::max<std::size_t>(of.size(), b.block + 1));
        ++of[b.block];
      }
      for (const KernelRecord& k : ran.kernels) {
        ASSERT_EQ(times[k.launch].size(), k.blocks) << policy << " " << seed;
        std::uint64_t extra = 0;
        for (const std::uint64_t n : times[k.launch]) {
          ASSERT_GE(n, 1u);
          extra += n - 1;
        }
        ASSERT_LE(extra, k.redone_blocks) << policy << " " << seed;
        preempted += k.preemptions, redone += k.redone_blocks;
      }
    }
  EXPECT_GT(preempted, 30u);
  EXPECT_GT(redone, 10u);
}

TEST(Preemption, GoesAlikeWithAndWithoutShortcuts) {
  for (const char* policy : {"reef", "reef-n:padding=on", "wait"})
    for (std::uint64_t seed = 6001; seed <= 6020; ++seed) {
      const auto [gpu, trace] = random_scenario(seed, Requests::repeated);
      const Ran with = run_trace(trace, gpu, policy, Record::kernels, {true, false});
      const Ran without = run_trace(trace, gpu, policy, Record::kernels, {false, false});
      ASSERT_EQ(lines(with.kernels), lines(without.kernels)) << policy << " " << seed;
    }
}

}  // namespace
}  // namespace corun::sim
