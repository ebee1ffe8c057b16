// `sim validate`: simulates a reference measurement, recorded runs, networks that shared a GPU or data that others published, and
// tells how far off the simulator is.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "sim/command/contention.h"

namespace corun::sim {

struct ValidateArguments {
  std::string reference, gpu, inputs, directory, report, runs, duration, timeline, published, half;
  std::vector<std::string> modes, pairs, mixes, policies, only;
  unsigned threads = 0;
  ContentionChoice contention;
  bool json = false, solo_only = false;
};

CLI::App* add_validate(CLI::App& app, ValidateArguments& arguments);
/// Returns the exit code.  Throws InputError.
int validate(const ValidateArguments& arguments);

}  // namespace corun::sim
