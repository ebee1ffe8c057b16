// `sim profile --backend=cuda`: measures on the GPU of this machine.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "hw/run/counters.h"
#include "hw/run/profile.h"
#include "hw/run/run.h"
#include "policies/session/profile_file.h"
#include "sim/command/profile.h"
#include "traces/json/trace_json.h"
#include "traces/model/error.h"

namespace corun::sim {
namespace {

std::vector<std::string> names_of(const ProfileArguments& a) {
  std::vector<std::string> names;
  if (a.trace.empty()) {
    for (const hw::LibraryKernel& k : hw::kernel_library()) names.push_back(k.name);
    return names;
  }
  for (const Kernel& kernel : read_trace(a.trace).kernels) {
    if (hw::find_kernel(kernel.name) == nullptr)
      throw InputError(kernel.origin.file, kernel.origin.place,
                       fmt::format("there is no device code for kernel {}", kernel.name),
                       "use kernels of hw/kernels, or profile it in the simulator");
    names.push_back(kernel.name);
  }
  return names;
}

std::string in_quotes(const std::string& path) { return "'" + path + "'"; }

void write(const std::string& file, const std::function<void(std::ostream&)>& what) {
  std::ofstream out(file, std::ios::binary);
  what(out);
  out.flush();
  if (!out) throw InputError(file, "", "cannot be written", "choose another place");
}

}  // namespace

int profile_on_gpu(const ProfileArguments& a) {
  hw::Runner runner(a.store);
  if (!a.launch_once.empty()) {
    hw::launch_once(a.launch_once, runner.work());
    return 0;
  }
  const hw::DeviceFacts facts = runner.facts();
  const Gpu gpu = read_gpu(a.gpu.empty() ? "h200" : a.gpu);
  if (facts.sms != gpu.sms)
    throw InputError("", "--gpu",
                     fmt::format("{} has {} SMs, this {} has {}", gpu.name, gpu.sms, facts.name, facts.sms),
                     "pass --gpu=NAME of the GPU in this machine");
  char date[32];
  const std::time_t now = std::time(nullptr);
  std::strftime(date, sizeof date, "%Y-%m-%d %H:%M UTC", std::gmtime(&now));
  const std::string source =
      fmt::format("measured {} on {} ({}) by sim profile --backend=cuda", date, facts.name, facts.driver);

  Profiles profiles{a.output, gpu.name, source, {}, {}};
  profiles.host = hw::measure_host(gpu, runner.work());
  Trace kernels;
  kernels.name = "kernels alone", kernels.gpu = gpu.name;
  const std::vector<std::string> names = names_of(a);
  for (const std::string& name : names) {
    const hw::LibraryKernel& k = *hw::find_kernel(name);
    Kernel alone = hw::measure_alone(k, gpu, runner.work());
    alone.stoppable = hw::measure_stoppable(k, *alone.solo_time, gpu, runner.work());
    Profile points = hw::measure_points(k, *alone.solo_time, gpu, runner.work(), true);
    for (const ProfilePoint& p : points)
      if (p.sms == gpu.sms) alone.persistent_time_by_ctas[p.ctas_per_sm] = p.time;
    for (const ProfilePoint& p : hw::measure_points(k, *alone.solo_time, gpu, runner.work(), false))
      if (std::none_of(points.begin(), points.end(), [&](const ProfilePoint& q) {
            return q.ctas == p.ctas && q.sms == p.sms && q.ctas_per_sm == p.ctas_per_sm;
          }))
        points.push_back(p);
    fmt::print(stderr, "{:<20}{:>10.1f} us plain\n", name, to_ns(*alone.solo_time) / 1000);
    kernels.kernels.push_back(std::move(alone));
    profiles.kernels.emplace_back(name, std::move(points));
  }
  std::string why_not;
  const std::string self = in_quotes(std::filesystem::read_symlink("/proc/self/exe").string());
  const auto counters = hw::measure_counters(
      names,
      fmt::format("{} profile --backend=cuda --launch-once {}{}", self, fmt::join(names, ","),
                  a.store.empty() ? "" : " --store " + in_quotes(a.store)),
      why_not);
  for (Kernel& kernel : kernels.kernels)
    if (const auto found = counters.find(kernel.name); found != counters.end())
      kernel.counters = found->second;
  if (!why_not.empty()) fmt::print(stderr, "note: no counters: {}\n", why_not);
  kernels.notes.push_back(source);

  if (!a.kernels.empty()) write(a.kernels, [&](std::ostream& out) { write_trace(kernels, out); });
  if (a.output.empty())
    write_profiles(profiles, std::cout);
  else
    write(a.output, [&](std::ostream& out) { write_profiles(profiles, out); });
  return 0;
}

}  // namespace corun::sim
