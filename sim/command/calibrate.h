// `sim calibrate`: a description of the GPU in this machine, measured.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace corun::sim {

struct CalibrateArguments {
  std::string output, store, samples;
};

CLI::App* add_calibrate(CLI::App& app, CalibrateArguments& arguments);
int calibrate(const CalibrateArguments& arguments);

}  // namespace corun::sim
