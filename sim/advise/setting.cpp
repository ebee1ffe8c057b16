#include "sim/advise/setting.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ranges>
#include <set>

#include "policies/session/instances.h"
#include "traces/json/mig_json.h"
#include "traces/json/spelling.h"
#include "traces/model/error.h"

namespace corun::sim {
namespace {

constexpr const char* kStartMps = "nvidia-cuda-mps-control -d";
constexpr std::int32_t kHighest = -5;

bool best_effort(const Client& client) { return client.service_class == ServiceClass::best_effort; }

std::vector<std::string> names_of(const Trace& trace) {
  std::vector<std::string> names;
  for (const Client& client : trace.clients) names.push_back(client.name);
  return names;
}

bool has_priorities(const Trace& trace) {
  return std::any_of(trace.clients.begin(), trace.clients.end(), [](const Client& client) {
    return client.priority != 0 || std::any_of(client.streams.begin(), client.streams.end(),
                                               [](const ClientStream& s) { return s.priority.value_or(0) != 0; });
  });
}

bool two_classes(const Trace& trace) {
  const auto n = std::count_if(trace.clients.begin(), trace.clients.end(), best_effort);
  return n != 0 && static_cast<std::size_t>(n) != trace.clients.size();
}

/// Of each client, in whole percent.
std::uint32_t equal_share(std::size_t clients) { return 100 / static_cast<std::uint32_t>(clients); }

/// Configuration of NVIDIA's device plugin for Kubernetes, in a line (docs: "Shared Access to GPUs").
std::string device_plugin(const char* sharing, std::size_t replicas) {
  return fmt::format("Kubernetes device plugin: {{version: v1, sharing: {{{}: {{resources: [{{name: nvidia.com/gpu, replicas: {}}}]}}}}}}",
                     sharing, replicas);
}

Setting percentage_setting(const Trace& trace, const std::vector<std::uint32_t>& percent) {
  std::vector<std::string> capped, typed;
  for (std::size_t i = 0; i < percent.size(); ++i) {
    if (percent[i] == 100) continue;
    const std::string& name = trace.clients[i].name;
    capped.push_back(fmt::format("{} on at most {} % of the SMs", name, percent[i]));
    typed.push_back(fmt::format("{}: CUDA_MPS_ACTIVE_THREAD_PERCENTAGE={}", name, percent[i]));
  }
  std::string to_do = fmt::format("{}; {}", kStartMps, fmt::join(typed, "; "));
  if (percent == std::vector<std::uint32_t>(percent.size(), equal_share(percent.size())))  // what the plugin sets
    to_do += "; " + device_plugin("mps", percent.size());
  return {SharingMode::percentages, fmt::format("mps:percentages={}", fmt::join(percent, "/")),
          fmt::format("MPS, {}", fmt::join(capped, ", ")), to_do};
}

}  // namespace

const char* in_words(SharingMode mode) {
  switch (mode) {
    case SharingMode::mps: return "MPS";
    case SharingMode::priority: return "priorities";
    case SharingMode::streams: return "streams of one process";
    case SharingMode::time_slicing: return "time-slicing";
    case SharingMode::percentages: return "MPS percentages";
    case SharingMode::green_contexts: return "green contexts";
    case SharingMode::mig: return "MIG";
  }
  return "";
}

SharingMode parse_mode(const std::string& name) {
  static const std::vector<std::pair<std::string, SharingMode>> kModes = {
      {"mps", SharingMode::mps},
      {"priority", SharingMode::priority},
      {"streams", SharingMode::streams},
      {"time-slicing", SharingMode::time_slicing},
      {"percentages", SharingMode::percentages},
      {"green-contexts", SharingMode::green_contexts},
      {"mig", SharingMode::mig}};
  std::vector<std::string> names;
  for (const auto& [known, mode] : kModes) {
    if (known == name) return mode;
    names.push_back(known);
  }
  throw InputError("", "--modes", fmt::format("unknown mode {}{}", in_quotes(name), did_you_mean(name, names)),
                   fmt::format("use some of {}", list_names(names)));
}

std::vector<Setting> plain_settings(const Trace& trace) {
  std::vector<Setting> all;
  if (trace.clients.size() == 1)
    return {{SharingMode::streams, "fcfs", "the whole GPU, shared with nobody", "nothing to set"}};
  all.push_back({SharingMode::time_slicing, "timeslice", "time-slicing",
                 "nothing to set: processes take turns; " + device_plugin("timeSlicing", trace.clients.size())});
  all.push_back({SharingMode::mps, "mps", "MPS without percentages", kStartMps});
  if (has_priorities(trace) || two_classes(trace)) {
    std::vector<std::string> below;
    for (const Client& client : trace.clients)
      if (best_effort(client)) below.push_back(client.name + ": CUDA_MPS_CLIENT_PRIORITY=1");
    all.push_back({SharingMode::priority, "priority", "MPS with priorities, real-time first",
                   fmt::format("{}; {}", kStartMps, fmt::join(below, "; ")), true});
    if (has_priorities(trace))
      all.back().words = "streams with the priorities of the trace",
      all.back().to_do = "cudaStreamCreateWithPriority as the trace says, in one process or under MPS";
  }
  std::set<std::string> processes;
  for (const Client& client : trace.clients) processes.insert(client.process);
  if (processes.size() < trace.clients.size())  // else programs would have to become one
    all.push_back({SharingMode::streams, "fcfs", "streams of one process", "a stream for each client, in one process"});
  return all;
}

std::vector<Setting> percentage_settings(const Trace& trace) {
  std::vector<Setting> all;
  std::vector<std::uint32_t> percent(trace.clients.size(), 100);
  if (two_classes(trace)) {
    for (std::uint32_t p = 90; p >= 10; p -= 10) {
      for (std::size_t i = 0; i < percent.size(); ++i) percent[i] = best_effort(trace.clients[i]) ? p : 100;
      all.push_back(percentage_setting(trace, percent));
    }
    std::fill(percent.begin(), percent.end(), equal_share(percent.size()));
    all.push_back(percentage_setting(trace, percent));
    return all;
  }
  if (percent.size() == 2) {
    for (std::uint32_t p = 90; p >= 10; p -= 10)
      all.push_back(percentage_setting(trace, {p, 100 - p}));
    return all;
  }
  for (std::uint32_t p : {75u, 50u, equal_share(percent.size())}) {
    std::fill(percent.begin(), percent.end(), p);
    all.push_back(percentage_setting(trace, percent));
  }
  return all;
}

Setting green_context_setting(const Trace& trace, const Gpu& gpu, const std::vector<std::uint32_t>& units) {
  std::vector<std::uint32_t> sms, tpcs;
  for (const std::uint32_t n : units) sms.push_back(n * kGreenContextSms), tpcs.push_back(sms.back() / gpu.sms_per_tpc);
  std::vector<std::string> typed;
  for (std::size_t i = 0; i < sms.size(); ++i) typed.push_back(fmt::format("{}: {} SMs", trace.clients[i].name, sms[i]));
  return {SharingMode::green_contexts, fmt::format("tpc-mask:split=even,tpcs={}", fmt::join(tpcs, "/")),
          fmt::format("green contexts, {} for {}", fmt::join(sms, "/"), fmt::join(names_of(trace), "/")),
          fmt::format("cuDevSmResourceSplitByCount in groups of 8 (CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING: all of "
                      "them) or torch.cuda.green_contexts.GreenContext.create: {}",
                      fmt::join(typed, ", "))};
}

std::vector<Setting> mig_settings(const Trace& trace, const Gpu& gpu) {
  std::vector<Setting> all;
  const std::vector<std::string> names = names_of(trace);
  std::vector<std::string> divided = divisions(gpu, names.size());
  if (const auto geometry = mig_geometry(gpu); names.size() == 1 && geometry) {  // what it leaves is others'
    divided.clear();
    for (const MigProfile& profile : geometry->profiles) divided.push_back(profile.name);
  }
  for (const std::string& profiles : divided) {
    std::string made = profiles;
    std::replace(made.begin(), made.end(), '/', ',');
    std::set<std::string> resources;
    for (const auto profile : std::views::split(profiles, '/'))
      resources.insert("nvidia.com/mig-" + std::string(profile.begin(), profile.end()));
    all.push_back({SharingMode::mig, "mig:profile=" + profiles,
                   fmt::format("MIG, {} for {}", profiles, fmt::join(names, "/")),
                   fmt::format("nvidia-smi -mig 1; nvidia-smi mig -cgi {} -C; CUDA_VISIBLE_DEVICES of each client in "
                               "the order {}; Kubernetes device plugin: {{version: v1, flags: {{migStrategy: mixed}}}}, with {}",
                               made, fmt::join(names, ", "), fmt::join(resources, ", "))});
  }
  return all;
}

Trace under(const Setting& setting, Trace trace) {
  if (setting.priorities_by_class && !has_priorities(trace))
    for (Client& client : trace.clients) client.priority = best_effort(client) ? 0 : kHighest;
  return trace;
}

}  // namespace corun::sim
