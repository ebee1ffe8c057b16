// `sim profile`: times of a trace's kernels alone, by number of SMs and of CTAs on each.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace corun::sim {

struct ProfileArguments {
  std::string trace, gpu, output;
};

CLI::App* add_profile(CLI::App& app, ProfileArguments& arguments);
int profile(const ProfileArguments& arguments);

}  // namespace corun::sim
