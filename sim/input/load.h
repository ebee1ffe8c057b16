// What a caller, the command or the Python module, runs: a file and what it changes of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "traces/model/trace.h"

namespace corun::sim {

/// A trace or, told by its content, a PyTorch profiler trace, recorded on `gpu` where it does not say, whose
/// launches get the counters that `ncu --csv` printed into `counters`, and times on the part of the GPU on which `by_sms` was
/// recorded (PartRecording; empty: none).  Throws InputError.
Trace read_input(const std::string& file, const std::string& gpu, const std::string& counters = {}, const std::string& by_sms = {});

/// Empty: as the trace says.
struct Adjustments {
  std::string gpu;       // a name of `sim gpus` or a path; times are carried over (`put_on`)
  std::string duration;  // "200ms"
  std::string issue;     // "eager" or "graph", for every client
  std::optional<std::uint64_t> seed;
};

/// Throws InputError also where the trace, which came from `file`, cannot be run.
void adjust(Trace& trace, const std::string& file, const Adjustments& how);

}  // namespace corun::sim
