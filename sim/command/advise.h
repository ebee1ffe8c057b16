// `sim advise`: which way to share a GPU keeps what was promised, and what to type to get it.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "sim/stages/compute_engine.h"
#include "traces/model/gpu.h"
#include "traces/model/trace.h"

namespace corun::sim {

struct AdviseArguments {
  std::vector<std::string> slos;  // empty: the clients' deadlines
  std::string goal = "stp";
  std::vector<std::string> gpus;  // in the order in which they are wanted; empty: the trace's
  std::vector<std::string> modes;  // empty: all
  std::string seeds;              // "1..5"; empty: the trace's, and four more where it is random
  std::string rate_of;            // client whose highest rate is asked for
  bool all = false;
  std::string report;
  std::string format;  // of what to paste, which is printed in the place of the report; empty: none
};

void add_advise(CLI::App& command, AdviseArguments& arguments);
/// Returns the exit code: 3 if no setting holds.  `gpu` is the trace's.  Throws InputError.
int advise(const Trace& trace, const Gpu& gpu, const AdviseArguments& arguments, EngineOptions engine, bool json);

}  // namespace corun::sim
