// What a decision costs the host under each registered policy, with 32 clients: real time is that of all
// calls of a run; mean_us, p99_us and max_us are of one call.
#include <benchmark/benchmark.h>

#include <numeric>

#include "tests/support/decision_cost.h"

namespace corun::sim {
namespace {

void decisions(benchmark::State& state, const std::string& policy) {
  std::vector<double> us;
  double sum = 0;
  for (auto _ : state) {
    us = decision_costs(policy, static_cast<std::uint32_t>(state.range(0)), 1);
    sum = std::accumulate(us.begin(), us.end(), 0.0);
    state.SetIterationTime(sum / 1e6);
  }
  std::sort(us.begin(), us.end());
  state.counters["calls"] = static_cast<double>(us.size());
  state.counters["mean_us"] = sum / static_cast<double>(us.size());
  state.counters["p99_us"] = us[us.size() * 99 / 100];
  state.counters["max_us"] = us.back();
}

}  // namespace
}  // namespace corun::sim

int main(int argc, char** argv) {
  for (const corun::PolicyInfo& p : corun::policies())
    benchmark::RegisterBenchmark(p.name.c_str(),
                                 [name = p.name](benchmark::State& s) { corun::sim::decisions(s, name); })
        ->Arg(32)
        ->Iterations(10)
        ->UseManualTime()
        ->Unit(benchmark::kMicrosecond);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
