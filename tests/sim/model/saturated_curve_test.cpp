// Solo times on parts of the GPU of a kernel that keeps DRAM busy on each of them: they do not tell what its blocks wait for.
#include <gtest/gtest.h>

#include "sim/model/kernel_model.h"
#include "traces/json/trace_json.h"

namespace corun::sim {
namespace {

class SaturatedCurve : public testing::Test {
 protected:
  /// PyTorch's sum of two tensors on an H100, which took 96.4 us on all SMs and 94.2 on 38 (experiments/h100/live).
  static Kernel sum(std::map<std::uint32_t, Time> by_sms) {
    Kernel k;
    k.name = "vectorized_elementwise_kernel";
    k.grid = {25088, 1, 1};
    k.block = {128, 1, 1};
    k.registers_per_thread = 32;
    k.solo_time = from_ns(96'383);
    k.solo_time_by_sms = std::move(by_sms);
    k.counters.warp_instructions = 3'411'968;
    k.counters.issue_active_pct = 3.5;
    k.counters.warps_active_pct = 81.79;
    k.counters.dram_read_bytes = 205'531'904;
    k.counters.dram_write_bytes = 82'898'688;
    k.counters.l2_bytes = 467'387'072;
    k.counters.l1_bytes = 308'281'344;
    return k;
  }
  double us_on(std::uint32_t sms, const Kernel& k) const { return to_ns(KernelModel(k, *k.solo_time, gpu_).solo_time(sms)) / 1e3; }
  const Gpu gpu_ = read_gpu("h100-sxm");
};

TEST_F(SaturatedCurve, OnAsManySmsItTakesWhatItTookThere) {
  const Kernel k = sum({{38, from_ns(94'223)}, {132, from_ns(96'383)}});
  EXPECT_DOUBLE_EQ(us_on(38, k), 94.223);
  EXPECT_NEAR(us_on(40, k), 94.2, 9) << "on two more SMs";
  EXPECT_NEAR(us_on(66, k), 96, 9);
}

TEST_F(SaturatedCurve, IsOneThatLeavesLessOfDramThanTheBound) {
  const Kernel k = sum({});
  const KernelFeatures f(k, *k.solo_time, gpu_);
  const double longest = f.dram_busy / 0.7;
  EXPECT_TRUE(f.keeps_dram_busy(longest * 0.999));
  EXPECT_FALSE(f.keeps_dram_busy(longest * 1.001));
}

}  // namespace
}  // namespace corun::sim
