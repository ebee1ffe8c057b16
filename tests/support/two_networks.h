// Two networks that run beside each other in closed loops on a simulated H200, both as graphs.
#pragma once

#include <memory>
#include <string>

#include "policies/api/registry.h"
#include "policies/session/session.h"
#include "sim/backend/sim_backend.h"
#include "traces/json/trace_json.h"

namespace corun::testing {

class TwoNetworks {
 public:
  /// File names in traces/h200.
  TwoNetworks(const std::string& first, const std::string& second, Time duration) : gpu_(read_gpu("h200")) {
    trace_ = read_trace("traces/h200/" + first);
    const Trace other = read_trace("traces/h200/" + second);
    trace_.clients.clear();  // the file's own
    const auto first_kernels = static_cast<std::uint32_t>(trace_.kernels.size());
    for (const Kernel& kernel : other.kernels) trace_.kernels.push_back(kernel);
    Program program = other.programs.front();
    for (Op& op : program.ops)
      if (auto* launch = std::get_if<Launch>(&op.what)) launch->kernel.value += first_kernels;
    trace_.programs.push_back(std::move(program));
    for (std::uint32_t i = 0; i < 2; ++i) {
      Client client;
      client.name = i == 0 ? "first" : "second";
      client.program = ProgramId{i};
      client.process = "one";
      client.issue = Issue::graph;
      client.streams.resize(trace_.programs[i].streams.size());
      client.arrivals = ClosedLoop{};
      trace_.clients.push_back(client);
    }
    trace_.run.duration = duration;
  }

  /// Names that tell nothing of what kernels do: none is taken to use the memory.
  TwoNetworks& without_names() {
    for (std::size_t i = 0; i < trace_.kernels.size(); ++i) trace_.kernels[i].name = std::to_string(i);
    return *this;
  }

  /// Returns the GPU's time, in seconds.  The first run fits the kernels' models, which the others know.
  double run() {
    Timeline nobody;
    const std::unique_ptr<Policy> policy = make_policy("fcfs");
    sim::SimBackend backend(trace_, gpu_, policy->requirements(), nobody, {}, &shapes_);
    Session session(trace_, *policy, backend, nobody, {});
    const double seconds = to_seconds(session.run().end);
    backend.close();
    return seconds;
  }

 private:
  Gpu gpu_;
  Trace trace_;
  sim::Shapes shapes_{gpu_};
};

}  // namespace corun::testing
