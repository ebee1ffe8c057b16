// One run on a GPU from trace to result: the clients together under a policy, then each alone, as
// sim/backend's run does in the simulator.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "traces/model/gpu.h"
#include "traces/model/trace.h"
#include "traces/timeline/metrics.h"
#include "traces/timeline/timeline.h"

namespace corun::hw {

struct RunOptions {
  std::string policy;
  std::vector<Sink*> sinks;  // of the run together
  std::string store;         // folder that keeps compiled kernels; empty: none
  std::string record;        // file for the notices and decisions; empty: none
  bool alone = true;         // run each client alone too, for what depends on it
  bool verify = false;       // fail if a result differs from the plain kernel's
  std::function<void(const char* stage, double fraction)> progress;
};

/// Throws InputError as sim::run does, and where there is no GPU; DriverError, Stalled or Interrupted when
/// the run fails, after everything has been taken off the GPU.
RunResult run(const Trace& trace, const Gpu& gpu, const RunOptions& options);

}  // namespace corun::hw
