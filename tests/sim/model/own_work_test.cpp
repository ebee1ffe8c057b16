// What of a block's time is its own, where solo times on parts of the GPU do not tell: as much as its
// instructions can take.  The rest waits for memory.
#include <gtest/gtest.h>

#include <cmath>

#include "sim/model/kernel_model.h"
#include "traces/json/trace_json.h"

namespace corun::sim {
namespace {


class OwnWork : public testing::Test {
 protected:
  /// Thirteen blocks that last 400 us on any number of SMs, at `cycles` an instruction.
  Kernel kernel(double cycles) const {
    Kernel k;
    k.name = "few blocks";
    k.grid = {blocks_, 1, 1};
    k.block = {1024, 1, 1};
    k.registers_per_thread = 54;
    k.solo_time = from_ns(400'000);
    k.solo_time_by_sms = {{16, *k.solo_time}, {66, *k.solo_time}, {132, *k.solo_time}};
    k.counters.warp_instructions = 400e-6 * gpu_.clock_hz / cycles * blocks_ * 32;
    k.counters.dram_read_bytes = 12.9e6;
    k.counters.dram_write_bytes = 29e6;
    k.counters.l2_bytes = 102e6;
    return k;
  }
  /// Share of a block's time that memory does not stretch.
  double own(const Kernel& k) const {
    const BlockLoad load = KernelModel(k, *k.solo_time, gpu_).load(gpu_.sms);
    return (load.sm.fixed_ps + load.sm.issue_ps) / load.alone_ps;
  }
  static constexpr std::uint32_t blocks_ = 13;
  const Gpu gpu_ = read_gpu("h200");
};

TEST_F(OwnWork, IsNoMoreThanTheInstructionsTake) {
  const double slow = own(kernel(60)), fast = own(kernel(12));
  EXPECT_LT(slow, 0.6);  // a fifth would be their time
  EXPECT_GT(fast, 0.8);
}

TEST_F(OwnWork, IsNotLimitedWhereInstructionsWereNotCounted) {
  Kernel k = kernel(60);
  k.counters.issue_active_pct = 100.0 * *k.counters.warp_instructions / (400e-6 * gpu_.clock_hz * 4 * blocks_);
  const double counted = own(k);
  k.counters.warp_instructions.reset();
  EXPECT_GT(own(k), counted + 0.1);
}

}  // namespace
}  // namespace corun::sim
