// What does a launch find in L2 of what launches before it left there?
#include <gtest/gtest.h>

#include "sim/model/contention.h"
#include "traces/json/trace_json.h"

namespace corun::sim {
namespace {

class L2Contents : public testing::Test {
 protected:
  /// Reads 10 MB that the launch before it has left in L2, in blocks of that length.
  BlockLoad consumer(double ps) const {
    BlockLoad load;
    load.sm.issue_ps = 1, load.sm.fixed_ps = ps, load.memory.wait_ps = 1e5;
    load.extent.blocks = resident();
    load.memory.read_bytes = load.memory.l2_read_bytes = 10e6 / load.extent.blocks;
    load.memory.uncached_share = 0;
    return load;
  }
  /// Moves `share` of what DRAM can read.
  BlockLoad stream(double share) const {
    BlockLoad load;
    load.sm.issue_ps = 1, load.sm.fixed_ps = 1e8, load.memory.wait_ps = 1e5;
    load.memory.read_bytes = load.memory.l2_read_bytes = share * limits_.dram.read_bytes_per_ps * 1e8 / resident();
    load.extent.blocks = 100 * resident();
    return load;
  }
  /// Share of its waits that is for DRAM.
  double missing(const BlockLoad& load, const BlockLoad& beside) const {
    const Contender both[] = {{&load, resident(), 1.0 * gpu_.sms}, {&beside, resident(), 1.0 * gpu_.sms}};
    Met met[2];
    meet(both, limits_, met);
    return met[0].missing;
  }
  double resident() const { return 4.0 * gpu_.sms; }

  const Gpu gpu_ = read_gpu("h200");
  const MemoryLimits limits_ = limits_of(gpu_);
};

TEST_F(L2Contents, AreLostOnceOthersHaveMovedMoreThanThereIsRoomFor) {
  // 20 MB are left where all SMs use the lines: at half of the bandwidth 8.6 us, two launches of 4.3 us.
  EXPECT_EQ(missing(consumer(3.8e6), stream(0.5)), 0);
  EXPECT_GT(missing(consumer(4.8e6), stream(0.5)), 0.02);
  EXPECT_GT(missing(consumer(14e6), stream(0.5)), 0.9);
}

TEST_F(L2Contents, AreLostMoreTheMoreOthersMove) {
  double before = 0;
  for (const double share : {0.2, 0.25, 0.3, 0.35}) {
    const double now = missing(consumer(12e6), stream(share));
    EXPECT_GT(now, before) << share;
    before = now;
  }
}

TEST_F(L2Contents, StayBesideThoseWhoMoveNothing) {
  BlockLoad computes;
  computes.sm.issue_ps = 1e6, computes.sm.fixed_ps = 1e6, computes.extent.blocks = resident();
  EXPECT_EQ(missing(consumer(1e8), computes), 0);
  EXPECT_EQ(missing(consumer(1e8), consumer(1e8)), 0) << "what fits is not moved";
}

TEST_F(L2Contents, AloneAreWhatTheSoloTimeKnows) {
  const BlockLoad load = consumer(1e8);
  const Contender one{&load, resident(), 1.0 * gpu_.sms};
  Met met;
  meet({&one, 1}, limits_, {&met, 1});
  EXPECT_EQ(met.missing, 0);
}

}  // namespace
}  // namespace corun::sim
