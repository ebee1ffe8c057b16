// `sim profile --backend=cuda`: measures on the GPU of this machine.
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <iostream>
#include <optional>

#include "hw/run/counters.h"
#include "hw/run/profile.h"
#include "hw/run/run.h"
#include "policies/session/profile_file.h"
#include "sim/command/profile.h"
#include "traces/json/output_file.h"
#include "traces/json/trace_json.h"
#include "traces/model/error.h"

namespace corun::sim {
namespace {

/// The trace's kernels, or all of the library.
std::vector<std::pair<std::string, const hw::LibraryKernel*>> kernels_of(const Trace* trace,
                                                                         hw::Workbench& work) {
  std::vector<std::pair<std::string, const hw::LibraryKernel*>> kernels;
  if (trace == nullptr)
    for (const hw::LibraryKernel& k : hw::kernel_library()) kernels.emplace_back(k.name, &k);
  else
    for (const Kernel& k : trace->kernels) kernels.emplace_back(k.name, &work.device_kernel(k));
  return kernels;
}

/// As the trace at that place names it: its folder may be moved, to another machine too.
std::string seen_from(const std::string& trace, const std::string& file) {
  const auto from = std::filesystem::absolute(trace).lexically_normal();
  return std::filesystem::path(file).lexically_proximate(from.parent_path()).generic_string();
}

std::string in_quotes(const std::string& path) { return "'" + path + "'"; }

void write(const std::string& file, const std::function<void(std::ostream&)>& what) {
  OutputFile out(file);
  what(out.stream());
  out.close();
}

}  // namespace

int profile_on_gpu(const ProfileArguments& a) {
  hw::Runner runner(a.store);
  std::optional<Trace> trace;
  if (!a.trace.empty()) trace = read_trace(a.trace);
  const auto named = kernels_of(trace ? &*trace : nullptr, runner.work());
  std::vector<const hw::LibraryKernel*> all;
  for (const auto& [name, k] : named) all.push_back(k);
  if (a.launch_once) {
    hw::launch_once(all, runner.work());
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
  for (std::size_t i = 0; i < named.size(); ++i) {
    const auto& [name, code] = named[i];
    const hw::LibraryKernel& k = *code;
    Kernel alone = hw::measure_alone(k, gpu, runner.work());
    alone.name = name;
    if (trace) alone.code = trace->kernels[i].code;
    if (alone.code && !alone.code->file.empty() && !a.kernels.empty())
      alone.code->file = seen_from(a.kernels, alone.code->file);
    alone.stoppable = hw::measure_stoppable(k, *alone.solo_time, gpu, runner.work());
    Profile points = hw::measure_points(k, *alone.solo_time, gpu, runner.work(),
                                        a.no_points ? hw::Points::by_workers : hw::Points::by_sm);
    for (const ProfilePoint& p : points)
      if (p.sms == gpu.sms) alone.persistent_time_by_ctas[p.ctas_per_sm] = p.time;
    fmt::print(stderr, "{:<20}{:>10.1f} us plain\n", name, to_ns(*alone.solo_time) / 1000);
    kernels.kernels.push_back(std::move(alone));
    if (a.no_points) continue;
    for (const ProfilePoint& p :
         hw::measure_points(k, *kernels.kernels.back().solo_time, gpu, runner.work(), hw::Points::by_total))
      if (std::none_of(points.begin(), points.end(), [&](const ProfilePoint& q) {
            return q.ctas == p.ctas && q.sms == p.sms && q.ctas_per_sm == p.ctas_per_sm;
          }))
        points.push_back(p);
    profiles.kernels.emplace_back(name, std::move(points));
  }
  std::string why_not;
  const std::string self = in_quotes(std::filesystem::read_symlink("/proc/self/exe").string());
  const std::vector<Counters> counters =
      hw::measure_counters(all,
                           fmt::format("{} profile --backend=cuda --launch-once{}{}", self,
                                       a.trace.empty() ? "" : " " + in_quotes(a.trace),
                                       a.store.empty() ? "" : " --store " + in_quotes(a.store)),
                           why_not);
  for (std::size_t i = 0; i < counters.size(); ++i) kernels.kernels[i].counters = counters[i];
  if (!why_not.empty()) fmt::print(stderr, "note: no counters: {}\n", why_not);
  kernels.notes.push_back(source);

  if (!a.kernels.empty()) write(a.kernels, [&](std::ostream& out) { write_trace(kernels, out, schema_from(a.kernels, "trace")); });
  if (a.output.empty())
    write_profiles(profiles, std::cout);
  else
    write(a.output, [&](std::ostream& out) { write_profiles(profiles, out, schema_from(a.output, "profile")); });
  return 0;
}

}  // namespace corun::sim
