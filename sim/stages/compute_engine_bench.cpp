// Blocks simulated per second, one core.  `BlockByBlock` has the shortcuts off; a mix of four kernels of
// different shapes, as many blocks each, keeps the SMs of an H200 full.
#include <benchmark/benchmark.h>

#include "sim/stages/compute_engine.h"
#include "traces/json/trace_json.h"

namespace corun::sim {
namespace {

Kernel kernel_of(std::uint32_t threads, std::uint32_t registers, std::uint32_t shared, std::uint32_t blocks) {
  Kernel kernel;
  kernel.grid = {blocks, 1, 1};
  kernel.block = {threads, 1, 1};
  kernel.registers_per_thread = registers;
  kernel.dynamic_shared_memory_bytes = shared;
  return kernel;
}

void run(benchmark::State& state, EngineOptions options, std::uint32_t kernels) {
  const Gpu gpu = read_gpu("h200");
  const std::vector<Kernel> mix{kernel_of(256, 32, 0, 1 << 18), kernel_of(128, 64, 8192, 1 << 18),
                                kernel_of(512, 40, 0, 1 << 18), kernel_of(64, 96, 20000, 1 << 18)};
  std::uint64_t blocks = 0;
  for (auto _ : state) {
    Timeline nobody;
    ComputeEngine engine(gpu, nobody, options);
    for (std::uint32_t i = 0; i < kernels; ++i) {
      Work work;
      work.record.launch = {i, i};
      work.record.kernel = KernelId{i};
      work.record.blocks = mix[i].blocks();
      work.block_alone = from_ns(5000 + 700 * i);
      engine.accept(std::move(work), 0, engine.mask_of(TpcMask::all()), demand_of(mix[i], gpu.sm));
    }
    std::vector<EngineNotice> notices;
    while (engine.busy()) {
      notices.clear();
      engine.advance(kNever, notices);
    }
    blocks += engine.blocks_run();
  }
  state.counters["blocks/s"] = benchmark::Counter(static_cast<double>(blocks), benchmark::Counter::kIsRate);
}

void BlockByBlockOneKernel(benchmark::State& state) { run(state, {false, false}, 1); }
void BlockByBlockFourKernels(benchmark::State& state) { run(state, {false, false}, 4); }
void WithShortcutsFourKernels(benchmark::State& state) { run(state, {true, false}, 4); }

BENCHMARK(BlockByBlockOneKernel)->Unit(benchmark::kMillisecond);
BENCHMARK(BlockByBlockFourKernels)->Unit(benchmark::kMillisecond);
BENCHMARK(WithShortcutsFourKernels)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace corun::sim
