// A trace through the session and the simulated GPU, with all that it wrote.
#pragma once

#include <string>

#include "policies/session/session.h"
#include "sim/stages/compute_engine.h"
#include "tests/support/build.h"
#include "tests/support/collect.h"

namespace corun::sim {

struct Ran : Collector {
  using Collector::Collector;
  SessionOutcome outcome;
  std::uint64_t blocks_run = 0, events = 0;
  SmArray::Integral sm_ps = 0, warp_ps = 0;
};

enum class Record { kernels, blocks };

/// Audited unless told otherwise.
Ran run_trace(const Trace& trace, const Gpu& gpu, const std::string& policy = "fcfs",
              Record what = Record::kernels, EngineOptions options = {true, true});

}  // namespace corun::sim
