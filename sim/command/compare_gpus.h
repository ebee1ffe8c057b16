// `sim compare --gpus`: one trace on several GPUs, in one table.
#pragma once

#include <string>

#include "sim/command/compare.h"
#include "sim/stages/compute_engine.h"
#include "traces/model/trace.h"

namespace corun::sim {

/// The trace, which came from `file`, names the GPU that its times are of.  Returns the exit code.  Throws
/// InputError.
int compare_gpus(const Trace& trace, const std::string& file, const CompareArguments& arguments,
                 EngineOptions engine, bool json);

}  // namespace corun::sim
