#include "sim/command/profile.h"

#include <fmt/format.h>

#include <filesystem>
#include <iostream>

#include "policies/session/profile_file.h"
#include "sim/command/progress.h"
#include "sim/input/carry.h"
#include "sim/run/in_parallel.h"
#include "sim/run/profile.h"
#include "traces/import/recording.h"
#include "traces/json/output_file.h"
#include "traces/json/trace_json.h"
#include "traces/model/error.h"
#include "traces/model/occupancy.h"

namespace corun::sim {
namespace {

/// Both kinds of policy find their points in one file.
Profile every_point(const Kernel& kernel, const Gpu& gpu) {
  Profile points = profile_by_sm(kernel, gpu);
  const Profile further = profile_kernel(kernel, gpu, points);
  points.insert(points.end(), further.begin(), further.end());
  return points;
}

}  // namespace

CLI::App* add_profile(CLI::App& app, ProfileArguments& a) {
  CLI::App* command = app.add_subcommand(
      "profile", "times of a trace's kernels alone, by SMs and CTAs per SM, for policies that size kernels");
  command->add_option("trace", a.trace, "trace with the kernels (cuda: default all of hw/kernels)");
  command->add_option("-o,--output", a.output, "file to write (default: standard output)");
  command->add_option("--gpu", a.gpu,
                      "GPU to simulate: a name of `sim gpus` or a description's path (default: the trace's)");
  command->add_option("--backend", a.backend, "sim: simulate; cuda: measure on the GPU of this machine")
      ->check(CLI::IsMember({"sim", "cuda"}))
      ->capture_default_str();
  command->add_option(
      "--kernels", a.kernels,
      "cuda: write the kernels' shapes, solo times and counters here, to be included in traces");
  command->add_option("--store", a.store, "cuda: folder that keeps compiled kernels between runs");
  command->add_flag("--no-points", a.no_points,
                    "cuda: only what the simulator needs to know of the kernels and of the host");
  command->add_flag("--launch-once", a.launch_once, "cuda: only launch each, for a profiler that watches")
      ->group("");
  return command;
}

int profile(const ProfileArguments& a) {
  if (a.backend == "cuda") return profile_on_gpu(a);
  if (a.trace.empty())
    throw InputError("", "", "no trace given", "`sim profile --help` shows how to call it");
  Trace trace = read_trace(a.trace, [](const auto& included) { return import_recording(included); });
  if (!a.gpu.empty())
    if (const std::string note = put_on(trace, a.trace, a.gpu); !note.empty()) fmt::print(stderr, "note: {}\n", note);
  const std::string name = trace.gpu;
  if (name.empty())
    throw InputError(a.trace, "/gpu", "the trace names no GPU",
                     "pass --gpu=NAME; `sim gpus` lists the names");
  const Gpu gpu = read_gpu(name, std::filesystem::path(a.trace).parent_path());
  Profiles profiles{a.output, gpu.name, "simulated", {}, {}};
  for (const Kernel& kernel : trace.kernels) {
    if (const std::string problem = misfit(kernel, gpu.sm); !problem.empty())
      throw InputError(kernel.origin.file, kernel.origin.place,
                       fmt::format("kernel {} fits no SM of {}: it {}", kernel.name, gpu.name, problem),
                       "choose another GPU with --gpu, or correct the kernel's launch shape");
    profiles.kernels.emplace_back(kernel.name, Profile{});
  }
  {
    ProgressBar bar;
    const auto tell = [&](std::size_t, double share) { bar.show("profile", share); };
    in_parallel(trace.kernels.size(), 0, tell,
                [&](std::size_t i) { profiles.kernels[i].second = every_point(trace.kernels[i], gpu); });
  }
  if (a.output.empty()) {
    write_profiles(profiles, std::cout);
    return 0;
  }
  OutputFile out(a.output);
  write_profiles(profiles, out.stream(), schema_from(a.output, "profile"));
  out.close();
  return 0;
}

}  // namespace corun::sim
