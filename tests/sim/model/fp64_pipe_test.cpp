// A kernel that the FP64 pipe of each SM bounds: its rate alone, beside one that does not need the pipe, and
// beside another that does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "sim/model/kernel_model.h"
#include "tests/support/run_trace.h"
#include "traces/json/trace_json.h"

namespace corun::sim {
namespace {

/// On a Titan Xp, 9 blocks of 128 threads on an SM; 100 waves, so that the last one does not count.
Kernel bound_by(std::optional<double> fp64, double issue) {
  Kernel k;
  k.name = "k";
  k.grid = {27000, 1, 1};
  k.block = {128, 1, 1};
  k.registers_per_thread = 56;
  k.solo_time = ms(500);
  k.counters.issue_active_pct = issue;
  k.counters.fp64_active_pct = fp64;
  return k;
}

class Fp64Pipe : public testing::Test {
 protected:
  BlockLoad load(const Kernel& k) const { return KernelModel(k, *k.solo_time, gpu_).load(gpu_.sms); }
  /// Blocks of the kernel on an SM, over those alone at full residency, in the same time.
  static double rate(const BlockLoad& l, std::uint32_t blocks, double time) {
    return blocks / time / (l.extent.residents / l.alone_ps);
  }
  static double alone(const BlockLoad& l, std::uint32_t blocks) {
    return rate(l, blocks, alone_on_sm(l.sm.issue_ps, blocks, l.delay_alone_ps));
  }
  static SmShare share(const BlockLoad& l, std::uint32_t blocks) {
    return {l.sm.issue_ps, l.delay_alone_ps, blocks, 0, 1, l.sm.uses};
  }

  Gpu gpu_ = read_gpu("titan-xp");
  MemoryLimits limits_ = limits_of(gpu_);
};

TEST_F(Fp64Pipe, AFewBlocksFillItWhereWithoutItEachAddsItsPart) {
  const BlockLoad fp64 = load(bound_by(98, 5)), other = load(bound_by({}, 5));
  ASSERT_EQ(fp64.extent.residents, 9u);
  EXPECT_NEAR(alone(fp64, 9), 1, 0.01);
  EXPECT_GT(alone(fp64, 4), 0.95);
  EXPECT_GT(alone(fp64, 1), 0.7);
  EXPECT_NEAR(alone(other, 9), 1, 0.01);
  EXPECT_LT(alone(other, 4), 0.5);
}

TEST_F(Fp64Pipe, BesideOneThatIssuesMuchBothGoOnAsAlone) {
  const BlockLoad fp64 = load(bound_by(98, 5)), other = load(bound_by({}, 60));
  for (const bool older : {true, false}) {
    std::array shares = {share(older ? fp64 : other, 4), share(older ? other : fp64, 4)};
    share_sm(shares, kMostApart, limits_);
    EXPECT_NEAR(rate(fp64, 4, shares[older ? 0 : 1].time_ps), alone(fp64, 4), 0.06) << older;
    EXPECT_NEAR(rate(other, 4, shares[older ? 1 : 0].time_ps), alone(other, 4), 0.06) << older;
  }
  // Bound by the issue slots instead, the two do not fit.
  const BlockLoad issues = load(bound_by({}, 95));
  std::array shares = {share(issues, 4), share(issues, 4)};
  share_sm(shares, kMostApart, limits_);
  EXPECT_LT(rate(issues, 4, shares[1].time_ps), 0.8 * alone(issues, 4));
}

/// As at the issue slots, it serves the older blocks first (experiments/h200/contention, shares and pairs).
TEST_F(Fp64Pipe, TwoThatNeedItHaveHalfOfItEachByTurnsAndTheOlderMostOfItByAge) {
  const BlockLoad fp64 = load(bound_by(98, 5));
  std::array turns = {share(fp64, 4), share(fp64, 4)}, aged = turns;
  share_sm(turns, kProcessorSharing, limits_);
  for (const SmShare& s : turns) EXPECT_NEAR(rate(fp64, 4, s.time_ps), 0.5, 0.03);
  share_sm(aged, kMostApart, limits_);
  EXPECT_GT(rate(fp64, 4, aged[0].time_ps), 0.8);
  EXPECT_NEAR(rate(fp64, 4, aged[0].time_ps) + rate(fp64, 4, aged[1].time_ps), 1, 0.06);
}

/// In the simulator: one of the two begins first and neither waits for the other's blocks.
TEST_F(Fp64Pipe, TwoHalvesOfTheGpusPlacesGiveTheWholeOfIt) {
  TraceBuilder b;
  for (const char* name : {"a", "b"}) {
    Kernel k = bound_by(98, 5);
    k.grid = {2700, 1, 1};
    k.solo_time = ms(50);
    b.one_kernel(name, k);
  }
  const Ran ran = run_trace(b.trace, gpu_, "static-split:ctas=44/44");
  const Time last = std::max(ran.only(ClientId{0}).finished, ran.only(ClientId{1}).finished);
  EXPECT_NEAR(to_seconds(last), 0.1, 0.004);
}

}  // namespace
}  // namespace corun::sim
