#include "sim/command/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <set>

#include "policies/session/profile_file.h"
#include "sim/backend/profile.h"
#include "sim/command/progress.h"
#include "traces/json/trace_json.h"
#include "traces/model/error.h"
#include "traces/model/occupancy.h"

namespace corun::sim {
namespace {

/// Both kinds of policy find their points in one file.
Profile every_point(const Kernel& kernel, const Gpu& gpu) {
  Profile points = profile_by_sm(kernel, gpu);
  for (const ProfilePoint& p : profile_kernel(kernel, gpu))
    if (std::none_of(points.begin(), points.end(), [&](const ProfilePoint& q) {
          return q.ctas == p.ctas && q.sms == p.sms && q.ctas_per_sm == p.ctas_per_sm;
        }))
      points.push_back(p);
  return points;
}

}  // namespace

CLI::App* add_profile(CLI::App& app, ProfileArguments& a) {
  CLI::App* command = app.add_subcommand(
      "profile", "times of a trace's kernels alone, by SMs and CTAs per SM, for policies that size kernels");
  command->add_option("trace", a.trace, "trace with the kernels")->required();
  command->add_option("-o,--output", a.output, "file to write (default: standard output)");
  command->add_option("--gpu", a.gpu,
                      "GPU to simulate: a name of `sim gpus` or a description's path (default: the trace's)");
  return command;
}

int profile(const ProfileArguments& a) {
  const Trace trace = read_trace(a.trace);
  const std::string name = a.gpu.empty() ? trace.gpu : a.gpu;
  if (name.empty())
    throw InputError(a.trace, "/gpu", "the trace names no GPU",
                     "pass --gpu=NAME; `sim gpus` lists the names");
  const Gpu gpu = read_gpu(name, std::filesystem::path(a.trace).parent_path());
  Profiles profiles{a.output, gpu.name, "simulated", {}};
  {
    ProgressBar bar;
    for (std::size_t i = 0; i < trace.kernels.size(); ++i) {
      const Kernel& kernel = trace.kernels[i];
      if (const std::string problem = misfit(kernel, gpu.sm); !problem.empty())
        throw InputError(kernel.origin.file, kernel.origin.place,
                         fmt::format("kernel {} fits no SM of {}: it {}", kernel.name, gpu.name, problem),
                         "choose another GPU with --gpu, or correct the kernel's launch shape");
      bar.show("profile", static_cast<double>(i) / static_cast<double>(trace.kernels.size()));
      profiles.kernels.emplace_back(kernel.name, every_point(kernel, gpu));
    }
  }
  if (a.output.empty()) {
    write_profiles(profiles, std::cout);
    return 0;
  }
  std::ofstream out(a.output, std::ios::binary);
  write_profiles(profiles, out);
  out.flush();
  if (!out) throw InputError(a.output, "", "cannot be written", "choose another place with -o");
  return 0;
}

}  // namespace corun::sim
