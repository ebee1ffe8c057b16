// Is the engine fast and lean enough?  Bounds with room for a noisy machine; the benchmark beside the code
// prints the figures.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <fstream>

#include "sim/model/kernel_model.h"
#include "sim/stages/compute_engine.h"
#include "tests/support/slowed_down.h"
#include "tests/support/two_networks.h"
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

void run_out(ComputeEngine& engine) {
  std::vector<EngineNotice> notices;
  while (engine.busy()) {
    notices.clear();
    engine.advance(kNever, notices);
  }
}

double resident_mb() {
  std::ifstream statm("/proc/self/statm");
  double total = 0, resident = 0;
  statm >> total >> resident;
  return resident * 4096 / 1e6;
}

TEST(EngineSpeed, FiveMillionBlocksASecondBlockByBlock) {
  if (testing::slowed_down()) GTEST_SKIP() << "not an optimised build";
  const Gpu gpu = read_gpu("h200");
  double best = 0;
  for (int round = 0; round < 5; ++round) {
    Timeline nobody;
    ComputeEngine engine(gpu, nobody, {false, false});
    accept(engine, gpu, 0, kernel_of(256, 32, 1 << 19), from_ns(5000));
    accept(engine, gpu, 1, kernel_of(128, 64, 1 << 19), from_ns(5700));
    const auto began = std::chrono::steady_clock::now();
    run_out(engine);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    best = std::max(best, static_cast<double>(engine.blocks_run()) / took.count());
  }
  RecordProperty("blocks_per_second", std::to_string(best));
  EXPECT_GE(best, 5e6);
}

/// Two kernels that fill each other's SMs, both at the issue slots and in DRAM: every block re-rates its SM.
TEST(EngineSpeed, ThreeMillionBlocksASecondBlockByBlockWithTwoKernelsContending) {
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
  double best = 0;
  for (int round = 0; round < 5; ++round) {
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
    const auto began = std::chrono::steady_clock::now();
    run_out(engine);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    best = std::max(best, static_cast<double>(engine.blocks_run()) / took.count());
  }
  RecordProperty("blocks_per_second", std::to_string(best));
  EXPECT_GE(best, 3e6);
}

/// `run_bench` prints the ratio in the mean.  Here the best counts: other work on the machine only adds.  The
/// ratio was 0.98 to 1.05 when the bound was set; the same binary differs by a third from hour to hour.
TEST(EngineSpeed, ResNet152BesideAnotherTakesAtMostOneAndAHalfTimesTheGpusTime) {
  if (testing::slowed_down()) GTEST_SKIP() << "not an optimised build";
  testing::TwoNetworks networks("resnet152_b8.json", "resnet152_b8.json", from_ns(2e7));
  networks.without_names().run();
  double best = 1e9;
  for (int round = 0; round < 5 || (round < 100 && best >= 1.5); ++round) {
    const std::clock_t began = std::clock();
    const double gpu = networks.run();
    best = std::min(best, static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC / gpu);
  }
  RecordProperty("wall_over_gpu", std::to_string(best));
  EXPECT_LT(best, 1.5);
}

/// The same where kernels are taken to do what their names tell: a sixth of the time goes into
/// `share_memory`, which is solved anew at each start and end of a launch, and more into blocks that change
/// their pace with it.  0.9 on one machine, 1.2 on a slower one.
TEST(EngineSpeed, WithTheirMemoryResNet152BesideAnotherTakesAtMostTwiceTheGpusTime) {
  if (testing::slowed_down()) GTEST_SKIP() << "not an optimised build";
  testing::TwoNetworks networks("resnet152_b8.json", "resnet152_b8.json", from_ns(2e7));
  networks.run();
  double best = 1e9;
  for (int round = 0; round < 5 || (round < 100 && best >= 2); ++round) {
    const std::clock_t began = std::clock();
    const double gpu = networks.run();
    best = std::min(best, static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC / gpu);
  }
  RecordProperty("wall_over_gpu", std::to_string(best));
  EXPECT_LT(best, 2);
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
