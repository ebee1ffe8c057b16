// Clients on the command line: which programs share the GPU, without a trace that says so.
#pragma once

#include <string>
#include <vector>

#include "traces/model/trace.h"

namespace corun::sim {

/// One trace of clients that are each written as NAME=FILE[,SETTING...] (sim/input/client_settings.h).
/// FILE is a trace or a recording of a profiler; its own client of that program is where the settings start from.
/// `gpu`: the one to simulate, empty if that is where all were recorded; kernels that were recorded on another are
/// carried over, with a note.  Throws InputError.
Trace compose(const std::vector<std::string>& clients, const std::string& gpu);

}  // namespace corun::sim
