// `sim compare`: policies side by side, and beside the best fixed division of the GPU.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "policies/session/profile_file.h"
#include "sim/command/contention.h"
#include "sim/stages/compute_engine.h"
#include "traces/model/gpu.h"
#include "traces/model/trace.h"
#include "traces/timeline/report.h"

namespace corun::sim {

struct CompareArguments {
  std::vector<std::string> policies{"fcfs", "timeslice", "greedy"};
  std::vector<std::string> only;  // of these policies; empty: all
  std::vector<std::string> gpus;  // the same trace on each of these; empty: on one
  bool oracle = false;
  Notes notes = Notes::first;
  bool where = false;  // latency goes
  ContentionChoice contention;
  std::string objective = "stp";
  std::string seeds;  // empty: five from the trace's on where arrivals are random
  std::string until;  // "p99:2%": further seeds until the figure is so sure; empty: none
};

/// The options of `compare` that a single run does not have.
void add_compare(CLI::App& command, CompareArguments& arguments);
/// The policies as specs; `all` stands for every registered one.  Throws InputError for one that there is
/// not.
std::vector<std::string> specs_of(const CompareArguments& arguments);
/// Those of the specs that `only` names, with or without parameters; empty: all.  Throws InputError for one that is not there.
std::vector<std::string> only_these(const std::vector<std::string>& specs, const std::vector<std::string>& only);
/// Returns the exit code.  Throws InputError.
int compare(const Trace& trace, const Gpu& gpu, const CompareArguments& arguments, EngineOptions engine,
            const Profiles* profiles, bool json);

}  // namespace corun::sim
