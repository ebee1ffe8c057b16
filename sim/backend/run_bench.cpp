// Wall time of a simulated inference beside another, over the time that the GPU would take: "wall_over_gpu"
// below 1 is faster than the GPU.  The model fit and the runs alone, which a session does once, are not in
// it.
#include <benchmark/benchmark.h>

#include "policies/api/registry.h"
#include "policies/session/session.h"
#include "sim/backend/sim_backend.h"
#include "traces/json/trace_json.h"

namespace corun::sim {
namespace {

void together(benchmark::State& state, const char* other) {
  Trace trace = read_trace("traces/h200/resnet152_b8.json");
  const Trace second = read_trace(std::string("traces/h200/") + other);
  const auto first_kernels = static_cast<std::uint32_t>(trace.kernels.size());
  for (const Kernel& kernel : second.kernels) trace.kernels.push_back(kernel);
  Program program = second.programs.front();
  for (Op& op : program.ops)
    if (auto* launch = std::get_if<Launch>(&op.what)) launch->kernel.value += first_kernels;
  trace.programs.push_back(std::move(program));
  for (std::uint32_t i = 0; i < 2; ++i) {
    Client client;
    client.name = i == 0 ? "first" : "second";
    client.program = ProgramId{i};
    client.process = "one";
    client.issue = Issue::graph;
    client.streams.resize(trace.programs[i].streams.size());
    client.arrivals = ClosedLoop{};
    trace.clients.push_back(client);
  }
  trace.run.duration = from_ns(5e7);
  const Gpu gpu = read_gpu("h200");
  Shapes shapes(gpu);
  double simulated = 0;
  for (auto _ : state) {
    Timeline nobody;
    const std::unique_ptr<Policy> policy = make_policy("fcfs");
    SimBackend backend(trace, gpu, policy->requirements(), nobody, {}, &shapes);
    Session session(trace, *policy, backend, nobody, {});
    simulated += to_seconds(session.run().end);
    backend.close();
  }
  state.counters["wall_over_gpu"] =
      benchmark::Counter(simulated, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void ResNet152BesideResNet152(benchmark::State& state) { together(state, "resnet152_b8.json"); }
void ResNet152BesideResNet50(benchmark::State& state) { together(state, "resnet50_b1.json"); }
BENCHMARK(ResNet152BesideResNet152)->Unit(benchmark::kMillisecond);
BENCHMARK(ResNet152BesideResNet50)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace corun::sim
