// What it takes to find how busy the memory is under two launches.
#include <benchmark/benchmark.h>

#include <array>

#include "sim/model/memory_balance.h"
#include "traces/json/trace_json.h"

namespace corun::sim {
namespace {

/// Use of DRAM 0.8, of L2 0.5, on an H200: between idle and full.
std::array<Presser, 2> two() {
  Presser streams, computes;
  streams.blocks = 528, streams.per_sm = 4, streams.issue = 1e6, streams.delay = 1e6;
  streams.by_f = 4e6, streams.by_g = 2e6, streams.l2 = 1e4, streams.read = 1.2e4, streams.write = 6e3;
  computes.blocks = 264, computes.per_sm = 2, computes.issue = 8e6, computes.delay = 2e6;
  computes.by_f = 1e6, computes.by_g = 3e6, computes.l2 = 1e4, computes.read = 5e3;
  return {streams, computes};
}

void Newton(benchmark::State& state) {
  const MemoryLimits limits = limits_of(read_gpu("h200"));
  const std::array<Presser, 2> pressers = two();
  MemoryBalance found;
  for (auto _ : state) {
    benchmark::DoNotOptimize(balance_by_newton(pressers, limits, false, found));
    benchmark::DoNotOptimize(found);
  }
}
void Bisection(benchmark::State& state) {
  const MemoryLimits limits = limits_of(read_gpu("h200"));
  const std::array<Presser, 2> pressers = two();
  for (auto _ : state) benchmark::DoNotOptimize(balance_by_bisection(pressers, limits));
}
BENCHMARK(Newton);
BENCHMARK(Bisection);

}  // namespace
}  // namespace corun::sim
