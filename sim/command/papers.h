// `sim papers`: the papers' figures, simulated, beside what the papers print.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace corun::sim {

struct PapersArguments {
  std::string folder, markdown;
  std::vector<std::string> only;
  unsigned threads = 0;
  bool json = false;
};

CLI::App* add_papers(CLI::App& app, PapersArguments& arguments);
/// Returns the exit code.  Throws InputError.
int papers(const PapersArguments& arguments);

}  // namespace corun::sim
