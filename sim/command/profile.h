// `sim profile`: times of a trace's kernels alone, by number of SMs and of CTAs on each.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace corun::sim {

struct ProfileArguments {
  std::string trace, gpu, output;
  std::string backend = "sim", kernels, store;
  bool no_points = false, launch_once = false;
};

CLI::App* add_profile(CLI::App& app, ProfileArguments& arguments);
int profile(const ProfileArguments& arguments);
int profile_on_gpu(const ProfileArguments& arguments);

}  // namespace corun::sim
