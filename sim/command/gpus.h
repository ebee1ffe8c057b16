// `sim gpus`: the GPU descriptions, and what each rests on.
#pragma once

#include <CLI/CLI.hpp>

namespace corun::sim {

struct GpusArguments {
  bool json = false;
};

CLI::App* add_gpus(CLI::App& app, GpusArguments& arguments);
/// Returns the exit code.
int list_gpus(const GpusArguments& arguments);

}  // namespace corun::sim
