// `sim sweep`: a grid of runs, a JSON line each, that goes on where it was interrupted.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace corun::sim {

struct SweepArguments {
  std::string grid;  // a file; else the options
  std::vector<std::string> traces, clients, gpus, policies, only, changes;
  std::string seeds, duration, output;
  unsigned jobs = 0;
};

CLI::App* add_sweep(CLI::App& app, SweepArguments& arguments);
/// Returns the exit code.  Throws InputError.
int sweep(const SweepArguments& arguments);

}  // namespace corun::sim
