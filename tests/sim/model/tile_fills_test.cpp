// How often a block that stages its reads in shared memory waits for them: once for each time that they fill
// it.
#include <gtest/gtest.h>

#include "sim/model/kernel_features.h"
#include "sim/model/kernel_model.h"
#include "traces/json/trace_json.h"

namespace corun::sim {
namespace {

constexpr double kGrid = 132, kFills = 10, kTileBytes = 16384;

class TileFills : public testing::Test {
 protected:
  /// `through_l1` times what ten fills of each block's shared memory take; L2 gives half of ten fills.
  Kernel kernel(std::optional<double> through_l1, std::uint32_t shared_memory = kTileBytes) const {
    Kernel k;
    k.name = "a kernel of tiles";
    k.grid = {static_cast<std::uint32_t>(kGrid), 1, 1};
    k.block = {128, 1, 1};
    k.registers_per_thread = 64;
    k.dynamic_shared_memory_bytes = shared_memory;
    k.solo_time = from_ns(100'000);
    k.counters.warp_instructions = 0.5 * 100e-6 * 4 * gpu_.sms * gpu_.clock_hz;
    k.counters.l2_bytes = kFills / 2 * kGrid * kTileBytes;
    k.counters.dram_read_bytes = 0;
    k.counters.dram_write_bytes = 0;
    if (through_l1) k.counters.l1_bytes = *through_l1 * kFills * kGrid * kTileBytes;
    return k;
  }
  /// In waits for L2.
  double fills(const Kernel& k) const {
    const KernelFeatures f(k, *k.solo_time, gpu_);
    return f.fill_wait / f.limits.l2.wait_ps;
  }
  double given_by_l2(const Kernel& k) const {
    const KernelFeatures f(k, *k.solo_time, gpu_);
    return f.least_wait / f.limits.l2.wait_ps;
  }
  const Gpu gpu_ = read_gpu("h200");
};

TEST_F(TileFills, AreCountedByWhatComesThroughL1) {
  const Kernel once = kernel(1), twice = kernel(2);
  EXPECT_GT(fills(once), given_by_l2(once));
  EXPECT_NEAR(fills(twice) - fills(once), kFills, 1e-6);
  EXPECT_EQ(given_by_l2(twice), given_by_l2(once));
}

TEST_F(TileFills, AreWhatL2GivesWhereL1IsPassedByOrNotCounted) {
  for (const std::optional<double> through_l1 : {std::optional<double>(0), std::optional<double>(0.1), {}}) {
    const Kernel k = kernel(through_l1);
    EXPECT_GT(fills(k), 0);
    EXPECT_EQ(fills(k), given_by_l2(k));
  }
}

TEST_F(TileFills, AreNoneOfABlockWithLessSharedMemoryThanATile) {
  EXPECT_GT(fills(kernel(1, 2048)), given_by_l2(kernel(1, 2048)));
  EXPECT_EQ(fills(kernel(1, 2047)), given_by_l2(kernel(1, 2047)));
}

/// A block that waits more often loses more beside one that keeps the memory busy.
TEST_F(TileFills, AreWaitedForWhereTheSoloTimesBySmsAreKnown) {
  const auto wait = [&](double through_l1) {
    Kernel k = kernel(through_l1);
    k.solo_time_by_sms = {{66, from_ns(150'000)}, {132, *k.solo_time}};
    return KernelModel(k, *k.solo_time, gpu_).load(gpu_.sms).memory.wait_ps;
  };
  EXPECT_GT(wait(2), 1.5 * wait(1));
}

}  // namespace
}  // namespace corun::sim
