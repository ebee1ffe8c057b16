// `sim gpus`: the GPU descriptions, and what each rests on.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace corun::sim {

struct GpusArguments {
  bool json = false;
  std::vector<std::string> compare;  // two of them; empty: list all
};

CLI::App* add_gpus(CLI::App& app, GpusArguments& arguments);
/// Returns the exit code.  Throws InputError.
int show_gpus(const GpusArguments& arguments);

}  // namespace corun::sim
