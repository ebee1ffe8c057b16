// Time to choose a padding for one real-time kernel out of the first launches of n best-effort queues; REEF
// needs 0.2 to 0.4 us (Han et al., OSDI 2022, section 7.4, Fig. 19a).
#include <benchmark/benchmark.h>

#include "policies/kernel_padding.h"
#include "traces/json/trace_json.h"

namespace corun {
namespace {

void choose(benchmark::State& state) {
  const Trace trace = read_trace("experiments/papers/traces/reef-networks-mi50.json");
  const Gpu gpu = read_gpu("mi50");
  std::vector<std::vector<Paddable>> networks;
  for (const Program& program : trace.programs) {
    std::vector<Paddable>& launches = networks.emplace_back();
    for (const Op& op : program.ops) {
      const auto& launch = std::get<Launch>(op.what);
      const Kernel& k = trace.kernels[launch.kernel.value];
      launches.push_back({demand_of(k, gpu.sm), k.blocks(), k.blocks(), *launch.solo_time});
    }
  }
  const auto queues = static_cast<std::size_t>(state.range(0));
  std::size_t i = 0;
  std::int64_t padded = 0;
  for (auto _ : state) {
    const Paddable& real_time = networks[0][i % networks[0].size()];
    std::optional<Padding> padding;
    for (std::size_t q = 0; q < queues && !padding; ++q) {
      const std::vector<Paddable>& queue = networks[q % networks.size()];
      padding = pad(real_time, queue[(i * 7 + q) % queue.size()], gpu);
    }
    padded += padding.has_value();
    benchmark::DoNotOptimize(padding);
    ++i;
  }
  state.counters["padded"] = static_cast<double>(padded) / static_cast<double>(state.iterations());
}
BENCHMARK(choose)->Arg(1)->Arg(5)->Arg(32);

}  // namespace
}  // namespace corun
