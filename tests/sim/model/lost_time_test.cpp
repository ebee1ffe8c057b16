// Is what a block loses to its neighbours charged to what they share, and all of it?
#include "sim/model/lost_time.h"

#include <gtest/gtest.h>

#include <numeric>

#include "traces/json/trace_json.h"

namespace corun::sim {
namespace {

class LostTime : public testing::Test {
 protected:
  /// On each SM four blocks of each launch; `sharers[0]` has the older ones.
  LostShares lost(const BlockLoad& a, const BlockLoad& b, std::size_t which) const {
    const Contender both[] = {{&a, 4.0 * gpu_.sms, 1.0 * gpu_.sms}, {&b, 4.0 * gpu_.sms, 1.0 * gpu_.sms}};
    Met beside[2], alone[2];
    meet(both, limits_, beside);
    for (std::size_t i = 0; i < 2; ++i) meet({both + i, 1}, limits_, {alone + i, 1});
    const Sharer sharers[] = {{&a, 4, alone[0], beside[0]}, {&b, 4, alone[1], beside[1]}};
    return lost_shares(sharers, which, kApart, limits_);
  }
  /// What it loses in all, from the times themselves.
  double lost_in_all(const BlockLoad& a, const BlockLoad& b) const {
    Contender both[] = {{&a, 4.0 * gpu_.sms, 1.0 * gpu_.sms}, {&b, 4.0 * gpu_.sms, 1.0 * gpu_.sms}};
    Contender own = both[0];
    share_memory({&own, 1}, limits_);
    share_memory(both, limits_);
    SmShare shares[] = {{both[0].issue_ps, both[0].delay_ps, 4, 0, a.sm.arrival_randomness, a.sm.uses},
                        {both[1].issue_ps, both[1].delay_ps, 4, 0, b.sm.arrival_randomness, b.sm.uses}};
    share_sm(shares, kApart, limits_);
    return 1 - alone_on_sm(own.issue_ps, 4, own.delay_ps, a.sm.arrival_randomness) / shares[0].time_ps;
  }
  static double sum(const LostShares& shares) { return std::accumulate(shares.begin(), shares.end(), 0.0); }

  static BlockLoad issuing() {
    BlockLoad load;
    load.sm.issue_ps = 1e6, load.sm.fixed_ps = 1e6;
    return load;
  }
  /// Alone at about 60 % of DRAM's bandwidth.
  BlockLoad streaming() const {
    BlockLoad load;
    load.sm.issue_ps = 1, load.memory.wait_ps = 1e6, load.memory.staged = false;
    load.memory.read_bytes = load.memory.l2_read_bytes =
        0.6 * limits_.dram.read_bytes_per_ps * 1e6 * limits_.dram.over_l2_ratio / (4.0 * gpu_.sms);
    return load;
  }

  static constexpr std::uint32_t kApart = 2;
  const Gpu gpu_ = read_gpu("h200");
  const MemoryLimits limits_ = limits_of(gpu_);
};

TEST_F(LostTime, OfLaunchesThatOnlyIssueIsAtTheIssueSlots) {
  const LostShares shares = lost(issuing(), issuing(), 1);
  EXPECT_GT(shares[kAtIssue], 0.3) << "the younger ones wait for the older";
  EXPECT_EQ(sum(shares), shares[kAtIssue]);
}

TEST_F(LostTime, OfLaunchesThatOnlyReadMemoryIsAtDram) {
  const LostShares shares = lost(streaming(), streaming(), 0);
  EXPECT_GT(shares[kAtDram], 0.15);
  EXPECT_GT(shares[kAtDram], 0.99 * sum(shares));
}

TEST_F(LostTime, AtAPipeIsChargedToThePipes) {
  for (const std::size_t pipe : {kFp64, kL1, kXu}) {
    BlockLoad load;
    load.sm.issue_ps = 1e6, load.sm.fixed_ps = 1e5;
    load.sm.uses = {0.01};
    load.sm.uses[pipe] = 1;
    const LostShares shares = lost(load, load, 1);
    EXPECT_GT(shares[kAtPipes], 0.4);
    EXPECT_GT(shares[kAtPipes], 0.95 * sum(shares));
  }
}

TEST_F(LostTime, ByATensorKernelThatSlowsTheClockIsTheClocks) {
  BlockLoad tensor = issuing(), steady;
  tensor.sm.issue_ps = 1, tensor.sm.tensor = true;
  steady.sm.fixed_ps = 1e6;
  const LostShares shares = lost(steady, tensor, 0);
  EXPECT_NEAR(shares[kAtClock], 1 - 1 / limits_.sm.tensor_clock_ratio, 1e-9);
  EXPECT_EQ(sum(shares), shares[kAtClock]);
}

TEST_F(LostTime, OfWhatOthersReplaceInL2IsL2s) {
  BlockLoad reader;
  reader.sm.issue_ps = 1, reader.memory.wait_ps = 1e8;
  reader.memory.l2_read_bytes = reader.memory.reread_bytes = limits_.l2.first_loss_bytes / (4.0 * gpu_.sms);
  BlockLoad evicting = streaming();
  evicting.memory.read_bytes = evicting.memory.l2_read_bytes = evicting.memory.read_bytes / 4;
  const LostShares shares = lost(reader, evicting, 0);
  EXPECT_GT(shares[kAtL2], 0.05);
  EXPECT_GT(shares[kAtL2], 0.7 * sum(shares));
}

TEST_F(LostTime, AddsUpToWhatTheBlockTakesLonger) {
  for (double issue : {1e3, 1e5, 5e5, 2e6})
    for (double pipe : {0.0, 0.3, 1.0})
      for (double read : {0.1, 0.8, 2.0}) {
        BlockLoad a = streaming(), b = issuing();
        a.sm.issue_ps = issue, a.sm.uses[kXu] = pipe, a.memory.read_bytes *= read;
        b.sm.uses[kXu] = pipe, b.sm.uses[kSlots] = 1 - pipe / 2, b.memory.read_bytes = a.memory.read_bytes / 2, b.memory.wait_ps = 2e5,
        b.memory.l2_read_bytes = b.memory.read_bytes, b.sm.tensor = true;
        const LostShares shares = lost(a, b, 0);
        EXPECT_NEAR(sum(shares), lost_in_all(a, b), 1e-9) << issue << ' ' << pipe << ' ' << read;
        for (const double share : shares) EXPECT_GE(share, 0);
      }
}

TEST_F(LostTime, IsNoneWhereALaunchIsByItself) {
  const BlockLoad load = streaming();
  const Contender one{&load, 4.0 * gpu_.sms, 1.0 * gpu_.sms};
  Met met;
  meet({&one, 1}, limits_, {&met, 1});
  const Sharer sharer{&load, 4, met, met};
  EXPECT_EQ(sum(lost_shares({&sharer, 1}, 0, 0, limits_)), 0);
}

}  // namespace
}  // namespace corun::sim
