// A run in the simulator: what its backends are made of, and the numbers and warnings that only the simulator
// has.
#pragma once

#include <optional>

#include "policies/api/policy.h"
#include "policies/session/run.h"
#include "sim/run/memory.h"
#include "sim/stages/compute_engine.h"
#include "traces/model/gpu.h"
#include "traces/model/trace.h"

namespace corun::sim {

/// What it points to must outlive the run.
struct RunOptions : corun::RunOptions {
  EngineOptions engine{};
  unsigned threads = 0;      // for the runs of clients alone; 0: as many as there are cores
  Memory* memory = nullptr;  // null: the run has its own
  std::optional<Time> served_ahead{};  // there: the clients are programs under `sim serve`, with this --ahead-us (served_policy.h)
  bool served_persistent = false;      // and kernels that bring their PTX are persistent, as under --persistent
  bool served_waits = true;            // whether launches wait on the GPU for their grants, which takes time; tests of the rest have none
  std::optional<Time> served_look{};   // there: of those the forecast is the service's, and takes this time (later_forecast.h)
};

/// With what clients run on their parts of the GPU (on_parts.h).
Plan simulated(Plan plan);

/// Throws InputError for a trace, GPU or policy that do not fit each other, StuckError for a run that cannot
/// go on, std::logic_error for an invariant that is broken (`engine.audit`).  What policy, sinks, progress
/// and interrupt throw comes through.
RunResult run(const Plan& plan, const RunOptions& options);
inline RunResult run(const Trace& trace, const Gpu& gpu, const RunOptions& options) {
  return run(simulated({trace, gpu, options.policy}), options);
}

}  // namespace corun::sim
