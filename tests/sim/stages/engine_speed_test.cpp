// Is the engine fast and lean enough?  In holds of a standard queue (yardstick.h), with room for a noisy machine; the benchmark beside
// the code prints seconds.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <fstream>

#include "sim/model/kernel_model.h"
#include "sim/stages/compute_engine.h"
#include "tests/support/slowed_down.h"
#include "tests/support/two_networks.h"
#include "tests/support/yardstick.h"
#include "traces/json/trace_json.h"

namespace corun::sim {
namespace {

Kernel kernel_of(std::uint32_t threads, std::uint32_t registers, std::uint32_t blocks) {
  Kernel kernel;
  kernel.grid = {blocks, 1, 1};
  kernel.block = {threads, 1, 1};
  kernel.registers_per_thread = registers;
  return kernel;
}

void accept(ComputeEngine& engine, const Gpu& gpu, std::uint32_t id, const Kernel& kernel, Time block) {
  Work work;
  work.record.launch = {id, id};
  work.record.kernel = KernelId{id};
  work.record.blocks = kernel.blocks();
  work.block_alone = block;
  engine.accept(std::move(work), 0, engine.mask_of(TpcMask::all()), demand_of(kernel, gpu.sm));
}

/// CPU seconds of a block, to the end of all.
double seconds_of_a_block(ComputeEngine& engine) {
  std::vector<EngineNotice> notices;
  const double began = testing::cpu_seconds();
  while (engine.busy()) {
    notices.clear();
    engine.advance(kNever, notices);
  }
  return (testing::cpu_seconds() - began) / static_cast<double>(engine.blocks_run());
}

/// CPU microseconds that a simulated microsecond of two networks takes.
double over_gpu(testing::TwoNetworks& networks) {
  const double began = testing::cpu_seconds();
  const double gpu = networks.run();
  return 1e-6 * (testing::cpu_seconds() - began) / gpu;
}

double resident_mb() {
  std::ifstream statm("/proc/self/statm");
  double total = 0, resident = 0;
  statm >> total >> resident;
  return resident * 4096 / 1e6;
}

TEST(EngineSpeed, ABlockTakesAtMostTwoAndAHalfHolds) {
  if (testing::slowed_down()) GTEST_SKIP() << "not an optimised build";
  const Gpu gpu = read_gpu("h200");
  const double holds = testing::holds_of(
      [&] {
        Timeline nobody;
        ComputeEngine engine(gpu, nobody, {false, false});
        accept(engine, gpu, 0, kernel_of(256, 32, 1 << 19), from_ns(5000));
        accept(engine, gpu, 1, kernel_of(128, 64, 1 << 19), from_ns(5700));
        return seconds_of_a_block(engine);
      },
      2.5);
  RecordProperty("holds", std::to_string(holds));
  EXPECT_LT(holds, 2.5);
}

/// Two kernels that fill each other's SMs, both at the issue slots and in DRAM: every block re-rates its SM.
TEST(EngineSpeed, ABlockTakesAtMostTwoHoldsWhereTwoKernelsContend) {
  if (testing::slowed_down()) GTEST_SKIP() << "not an optimised build";
  const Gpu gpu = read_gpu("h200");
  std::vector<Kernel> kernels;
  for (std::uint32_t i = 0; i < 2; ++i) {
    Kernel k = kernel_of(256, 32, 1 << 18);
    k.solo_time = from_ns(1e6 + 3e5 * i);
    k.counters.warp_instructions = 1.2e8;
    k.counters.dram_read_bytes = k.counters.dram_write_bytes = 1.2e9;
    k.counters.l2_bytes = 4e9;
    kernels.push_back(k);
  }
  const double holds = testing::holds_of(
      [&] {
        Timeline nobody;
        ComputeEngine engine(gpu, nobody, {false, false});
        const SmMask half = engine.mask_of(TpcMask::range(0, gpu.tpcs()));
        for (std::uint32_t i = 0; i < 2; ++i) {
          const KernelModel model(kernels[i], *kernels[i].solo_time, gpu);
          Work work;
          work.record.launch = {i, i};
          work.record.kernel = KernelId{i};
          work.record.client = ClientId{i};
          work.record.blocks = kernels[i].blocks();
          work.block_alone = model.block_alone(gpu.sms);
          work.load = model.load(gpu.sms);
          work.ctas = gpu.sms * 4;  // half of each SM, to the end
          engine.accept(std::move(work), 0, half, demand_of(kernels[i], gpu.sm));
        }
        return seconds_of_a_block(engine);
      },
      2);
  RecordProperty("holds", std::to_string(holds));
  EXPECT_LT(holds, 2);
}

TEST(EngineSpeed, AMicrosecondOfResNet152BesideAnotherTakesAtMostSixteenHolds) {
  if (testing::slowed_down()) GTEST_SKIP() << "not an optimised build";
  testing::TwoNetworks networks("resnet152_b8.json", "resnet152_b8.json", from_ns(2e7));
  networks.without_names().run();
  const double holds = testing::holds_of([&] { return over_gpu(networks); }, 16);
  RecordProperty("holds", std::to_string(holds));
  EXPECT_LT(holds, 16);
}

/// The same where kernels are taken to do what their names tell: a sixth of the time goes into
/// `share_memory`, which is solved anew at each start and end of a launch, and more into blocks that change
/// their pace with it.
TEST(EngineSpeed, WithTheirMemoryAMicrosecondOfResNet152BesideAnotherTakesAtMostTwentyTwoHolds) {
  if (testing::slowed_down()) GTEST_SKIP() << "not an optimised build";
  testing::TwoNetworks networks("resnet152_b8.json", "resnet152_b8.json", from_ns(2e7));
  networks.run();
  const double holds = testing::holds_of([&] { return over_gpu(networks); }, 22);
  RecordProperty("holds", std::to_string(holds));
  EXPECT_LT(holds, 22);
}

TEST(EngineSpeed, TenMillionPendingBlocksTakeLessThan200MB) {
  const Gpu gpu = read_gpu("h200");
  const double before = resident_mb();
  Timeline nobody;
  ComputeEngine engine(gpu, nobody, {false, false});
  for (std::uint32_t i = 0; i < 100; ++i) accept(engine, gpu, i, kernel_of(256, 32, 100'000), from_ns(5000));
  std::vector<EngineNotice> notices;
  engine.advance(from_ns(20'000), notices);  // SMs are full, nearly all blocks still pending
  EXPECT_GT(engine.blocks_run(), 0u);
  EXPECT_LT(resident_mb() - before, 200);
}

}  // namespace
}  // namespace corun::sim
