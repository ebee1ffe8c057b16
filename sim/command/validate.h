// `sim validate`: simulates a reference measurement and tells how far off the simulator is.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace corun::sim {

struct ValidateArguments {
  std::string reference, gpu = "h200", inputs = "curve", directory;
  std::vector<std::string> modes, pairs;
  unsigned threads = 0;
  bool json = false, solo_only = false;
};

CLI::App* add_validate(CLI::App& app, ValidateArguments& arguments);
/// Returns the exit code.  Throws InputError.
int validate(const ValidateArguments& arguments);

}  // namespace corun::sim
