// One simulated run from trace to result: the clients together under a policy, then each alone for what
// "alone" means.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "sim/stages/compute_engine.h"
#include "traces/model/gpu.h"
#include "traces/model/trace.h"
#include "traces/timeline/metrics.h"

namespace corun::sim {

struct RunOptions {
  std::string policy;  // "name" or "name:key=value"
  EngineOptions engine;
  std::vector<Sink*> sinks;                                          // of the run together
  std::function<void(const char* stage, double fraction)> progress;  // may be empty
};

/// Throws InputError for a trace, GPU or policy that do not fit each other.
RunResult run(const Trace& trace, const Gpu& gpu, const RunOptions& options);

}  // namespace corun::sim
