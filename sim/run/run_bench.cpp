// Wall time of a simulated inference beside another, over the time that the GPU would take: "wall_over_gpu"
// below 1 is faster than the GPU.  The model fit, which a session does once, is not in it.  Of processor
// time: a run has one thread, and other processes on the machine do not count.
#include <benchmark/benchmark.h>

#include "tests/support/two_networks.h"

namespace corun::sim {
namespace {

void together(benchmark::State& state, const char* other) {
  testing::TwoNetworks networks("resnet152_b8.json", other, from_ns(5e7));
  networks.run();  // fits the models
  double simulated = 0;
  for (auto _ : state) simulated += networks.run();
  state.counters["wall_over_gpu"] =
      benchmark::Counter(simulated, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void ResNet152BesideResNet152(benchmark::State& state) { together(state, "resnet152_b8.json"); }
void ResNet152BesideResNet50(benchmark::State& state) { together(state, "resnet50_b1.json"); }
BENCHMARK(ResNet152BesideResNet152)->Unit(benchmark::kMillisecond);
BENCHMARK(ResNet152BesideResNet50)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace corun::sim
