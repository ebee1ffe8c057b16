// The simulator's answer to a reference measurement: every kernel alone, alone on fewer SMs, and every row.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/stages/compute_engine.h"
#include "sim/validate/reference.h"
#include "traces/model/gpu.h"
#include "traces/model/trace.h"

namespace corun::sim {

struct ReplayOptions {
  EngineOptions engine;
  unsigned threads = 0;                                              // 0: as many as the machine has
  std::function<void(const char* stage, double fraction)> progress;  // may be empty
};

/// In the order of the reference; times in ms, as they were measured.
struct Replay {
  struct Row {
    double t_a = 0, t_b = 0;
    std::string why;  // what bounds each client, as the contention model has it; empty: it does not say
  };
  std::vector<double> solo_ms;
  std::vector<std::map<std::uint32_t, double>> solo_ms_by_sms;
  std::vector<Row> rows;
};

/// The same whatever the number of threads.
Replay replay(const Reference& reference, const Gpu& gpu, const ReplayOptions& options);

/// A row as a trace: two clients of one process, "a" and "b", the one issued first before the other, each
/// with all its launches in one stream at time 0, and a kernel of its own, since they share no buffers.
Trace together(const Reference& reference, const ReferenceRow& row, const Gpu& gpu);
/// One kernel's launches on the whole GPU, or on SMs 0 to sms - 1.
Trace alone(const ReferenceKernel& kernel, const Gpu& gpu, std::optional<std::uint32_t> sms = {});
/// The policy that shares the GPU in this way.
const char* policy_of(Mode mode);

/// The GPU when all launches are queued behind a gate: calls and their way to the GPU take no time.
Gpu behind_gate(Gpu gpu);

}  // namespace corun::sim
