// What of a kernel's work changes with the card, and what stays?
#include "sim/model/carried_kernel.h"

#include <gtest/gtest.h>

#include "traces/json/trace_json.h"

namespace corun::sim {
namespace {

class CarriedKernelTo : public testing::Test {
 protected:
  /// 10,000 blocks of 4 warps that take 1 ms: of it the issue slots are busy for 0.8, or DRAM for 0.9.
  static Kernel issues() { return kernel_with(21'000, 1e6, 0); }
  static Kernel reads() { return kernel_with(100, 4.2e9, 0); }
  /// 100 MB of which L2 keeps 20 that are never seen at DRAM.
  static Kernel writes() { return kernel_with(100, 1e8, 8e7); }
  static Kernel kernel_with(double instructions, double read, double written) {
    Kernel k;
    k.name = "k";
    k.grid = {10'000, 1, 1}, k.block = {128, 1, 1};
    k.solo_time = from_ns(1e6);
    k.counters.warp_instructions = 4e4 * instructions;
    k.counters.dram_read_bytes = read;
    k.counters.dram_write_bytes = written;
    k.counters.l2_bytes = 1.5 * (read + 1.25 * written);
    return k;
  }
  CarriedKernel carried(const Kernel& k, double about_ms = 1) const {
    return {k, *k.solo_time, from_ns(1e6 * about_ms), here_, there_};
  }
  double ratio(const Kernel& k, double about_ms) const {
    return carried(k, about_ms).ratio(here_.sms, there_.sms);
  }

  const Gpu here_ = read_gpu("h200");
  Gpu there_ = here_;
};

TEST_F(CarriedKernelTo, TheSameCardTakesAsLongAndMovesAsMuch) {
  for (const Kernel& k : {issues(), reads(), writes()}) {
    const CarriedKernel same = carried(k);
    ASSERT_TRUE(same.known());
    EXPECT_DOUBLE_EQ(same.ratio(here_.sms, here_.sms), 1);
    EXPECT_EQ(same.counters().dram_read_bytes, k.counters.dram_read_bytes);
    EXPECT_EQ(same.counters().dram_write_bytes, k.counters.dram_write_bytes);
    EXPECT_EQ(same.counters().l2_bytes, k.counters.l2_bytes);
  }
}

TEST_F(CarriedKernelTo, ASlowerClockTakesLongerForWhatTheSmsDo) {
  there_.clock_hz /= 2;
  EXPECT_NEAR(ratio(issues(), 2), 2, 0.02);
  EXPECT_NEAR(ratio(reads(), 1), 1, 0.1);
}

TEST_F(CarriedKernelTo, HalfOfTheBandwidthTakesLongerForWhatDramBounds) {
  there_.contention.dram_read_bytes_per_second /= 2;
  EXPECT_NEAR(ratio(reads(), 2), 2, 0.15);
  EXPECT_NEAR(ratio(issues(), 1), 1, 0.01);
}

TEST_F(CarriedKernelTo, HalfOfTheSmsTakesTwiceAsLongWhereverTheyAre) {
  const CarriedKernel k = carried(issues());
  EXPECT_NEAR(k.ratio(here_.sms, here_.sms / 2), 2, 0.1);
  EXPECT_NEAR(k.ratio(here_.sms / 2, here_.sms), 0.5, 0.03);
  EXPECT_NEAR(k.ratio(here_.sms / 2, here_.sms / 2), 1, 1e-9);
}

TEST_F(CarriedKernelTo, ALaunchThatTakesLongerIsNoneOfItsWork) {
  there_.contention.launch_cost *= 10;
  EXPECT_NEAR(ratio(issues(), 1), 1, 1e-6);
}

TEST_F(CarriedKernelTo, AnL2ThatKeepsLessOfWhatIsWrittenWritesTheRest) {
  const auto more = [&](std::uint64_t keeps) {
    there_.contention.l2_dirty_bytes = keeps;
    const Kernel k = writes();
    return *carried(k).counters().dram_write_bytes - *k.counters.dram_write_bytes;
  };
  EXPECT_NEAR(more(20'000'000), 0, 1e-3);
  EXPECT_NEAR(more(19'999'000), 1000, 1e-3);
  EXPECT_NEAR(more(0), 2e7, 1e-3);
}

TEST_F(CarriedKernelTo, ACardThatCannotHoldABlockIsNotKnownNorIsAKernelWithoutCounters) {
  Kernel k = issues();
  EXPECT_TRUE(carried(k).known());
  k.dynamic_shared_memory_bytes = 40'000;
  there_.sm.shared_memory_bytes = 40'000 + there_.sm.shared_memory_reserved_bytes;
  there_.sm.shared_memory_allocation_unit = 1;
  EXPECT_TRUE(carried(k).known());
  --there_.sm.shared_memory_bytes;
  EXPECT_FALSE(carried(k).known());
  there_ = here_;
  k.counters.warp_instructions.reset();
  EXPECT_FALSE(carried(k).known());
  EXPECT_FALSE(carried(kernel_with(21'000, 0, 0)).known()) << "nor is it known what it does with the memory";
}

}  // namespace
}  // namespace corun::sim
