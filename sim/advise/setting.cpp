#include "sim/advise/setting.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <ranges>
#include <set>

#include "policies/session/device_memory.h"
#include "policies/session/instances.h"
#include "traces/json/mig_json.h"
#include "traces/json/spelling.h"
#include "traces/model/error.h"

namespace corun::sim {
namespace {

constexpr const char* kStartMps = "nvidia-cuda-mps-control -d";
constexpr std::int32_t kHighest = -5;
constexpr std::uint32_t kLeastPercent = 10;
constexpr const char* kBelow = "CUDA_MPS_CLIENT_PRIORITY=1";
/// More clients are divided between instances by their class only.
constexpr std::size_t kMostGrouped = 4;

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

/// Below normal among clients of MPS, which know two priorities: by class, or where the trace gives priorities, all but the highest.
bool has_lower_priority(const Trace& trace, std::size_t client) {
  if (!has_priorities(trace)) return best_effort(trace.clients[client]);
  const auto highest = [](const Client& c) {
    std::int32_t least = c.streams.empty() ? c.priority : 0;
    for (const ClientStream& s : c.streams) least = std::min(least, s.priority.value_or(c.priority));
    return least;
  };
  std::int32_t first = 0;
  for (const Client& c : trace.clients) first = std::min(first, highest(c));
  return highest(trace.clients[client]) > first;
}

/// Of each client, in whole percent.
std::uint32_t equal_share(std::size_t clients) { return 100 / static_cast<std::uint32_t>(clients); }

/// "3g.71gb/4g.71gb"
std::vector<std::string> instances_in(const std::string& profiles) {
  std::vector<std::string> each;
  for (const auto profile : std::views::split(profiles, '/')) each.emplace_back(profile.begin(), profile.end());
  return each;
}

/// Configuration of NVIDIA's device plugin for Kubernetes, in a line (docs: "Shared Access to GPUs").
std::string device_plugin(const char* sharing, std::size_t replicas) {
  return fmt::format("Kubernetes device plugin: {{version: v1, sharing: {{{}: {{resources: [{{name: nvidia.com/gpu, replicas: {}}}]}}}}}}",
                     sharing, replicas);
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
    std::vector<std::string> typed;
    std::vector<bool> below;
    for (const Client& client : trace.clients) {
      below.push_back(best_effort(client));
      if (below.back()) typed.push_back(fmt::format("{}: {}", client.name, kBelow));
    }
    all.push_back({SharingMode::priority, "priority", "MPS with priorities, real-time first",
                   fmt::format("{}; {}", kStartMps, fmt::join(typed, "; ")), true, {}, below});
    if (has_priorities(trace))
      all.back().below.clear(), all.back().words = "streams with the priorities of the trace",
      all.back().to_do = "cudaStreamCreateWithPriority as the trace says, in one process or under MPS";
  }
  std::set<std::string> processes;
  for (const Client& client : trace.clients) processes.insert(client.process);
  if (processes.size() < trace.clients.size())  // else programs would have to become one
    all.push_back({SharingMode::streams, "fcfs", "streams of one process", "a stream for each client, in one process"});
  return all;
}

Setting percentage_setting(const Trace& trace, const std::vector<std::uint32_t>& percent, bool ranked) {
  std::vector<std::string> capped, typed;
  std::vector<bool> below;
  for (std::size_t i = 0; ranked && i < percent.size(); ++i) below.push_back(has_lower_priority(trace, i));
  for (std::size_t i = 0; i < percent.size(); ++i) {
    const std::string& name = trace.clients[i].name;
    std::vector<std::string> set;
    if (percent[i] != 100) {
      capped.push_back(fmt::format("{} on at most {} % of the SMs", name, percent[i]));
      set.push_back(fmt::format("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE={}", percent[i]));
    }
    if (ranked && below[i]) set.emplace_back(kBelow);
    if (!set.empty()) typed.push_back(fmt::format("{}: {}", name, fmt::join(set, " ")));
  }
  std::string to_do = fmt::format("{}; {}", kStartMps, fmt::join(typed, "; "));
  if (!ranked && percent == std::vector<std::uint32_t>(percent.size(), equal_share(percent.size())))  // what the plugin sets
    to_do += "; " + device_plugin("mps", percent.size());
  return {SharingMode::percentages, fmt::format("{}:percentages={}", ranked ? "priority" : "mps", fmt::join(percent, "/")),
          fmt::format("MPS{}, {}", ranked ? " with priorities" : "", fmt::join(capped, ", ")), to_do, ranked, percent, below};
}

std::vector<Setting> percentage_settings(const Trace& trace) {
  std::vector<Setting> all;
  std::vector<std::uint32_t> percent(trace.clients.size(), 100);
  const auto cap = [&](std::uint32_t p, bool ranked) {
    for (std::size_t i = 0; i < percent.size(); ++i) percent[i] = best_effort(trace.clients[i]) ? p : 100;
    all.push_back(percentage_setting(trace, percent, ranked));
  };
  if (two_classes(trace)) {
    for (const bool ranked : {false, true})
      for (std::uint32_t p = 80; p >= 20; p -= 20) cap(p, ranked);
    std::fill(percent.begin(), percent.end(), equal_share(percent.size()));
    all.push_back(percentage_setting(trace, percent, false));
    return all;
  }
  if (percent.size() == 2) {
    for (std::uint32_t p = 90; p >= 10; p -= 10) all.push_back(percentage_setting(trace, {p, 100 - p}, false));
    return all;
  }
  for (std::uint32_t p : {75u, 50u, equal_share(percent.size())}) {
    std::fill(percent.begin(), percent.end(), p);
    all.push_back(percentage_setting(trace, percent, false));
  }
  return all;
}

std::vector<Setting> uneven_settings(const Trace& trace, const Setting& beside, std::uint32_t step) {
  std::vector<Setting> all;
  for (std::size_t i = 0; i < beside.percent.size(); ++i)
    for (const bool less : {true, false}) {
      std::vector<std::uint32_t> percent = beside.percent;
      if (less ? percent[i] < step + kLeastPercent : percent[i] + step > 100) continue;
      percent[i] = less ? percent[i] - step : percent[i] + step;
      if (std::any_of(percent.begin(), percent.end(), [](std::uint32_t p) { return p < 100; }))
        all.push_back(percentage_setting(trace, percent, beside.priorities_by_class));
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
    const std::vector<std::string> each = instances_in(profiles);
    std::set<std::string> resources;
    for (const std::string& profile : each) resources.insert("nvidia.com/mig-" + profile);
    std::vector<std::uint32_t> instance_of(names.size());
    std::iota(instance_of.begin(), instance_of.end(), 0u);
    all.push_back({SharingMode::mig, "mig:profile=" + profiles,
                   fmt::format("MIG, {} for {}", profiles, fmt::join(names, "/")),
                   fmt::format("nvidia-smi -mig 1; nvidia-smi mig -cgi {} -C; CUDA_VISIBLE_DEVICES of each client in "
                               "the order {}; Kubernetes device plugin: {{version: v1, flags: {{migStrategy: mixed}}}}, with {}",
                               fmt::join(each, ","), fmt::join(names, ", "), fmt::join(resources, ", ")),
                   false, {}, {}, each, instance_of});
  }
  return all;
}

std::vector<Setting> shared_mig_settings(const Trace& trace, const Gpu& gpu) {
  std::vector<Setting> all;
  const std::size_t n = trace.clients.size();
  const std::vector<std::string> names = names_of(trace);
  const auto has_sign = [](const std::string& name) { return name.find_first_of("/+,:") != std::string::npos; };
  if (n < 3 || std::any_of(names.begin(), names.end(), has_sign)) return all;  // signs part the names of mig:clients=
  std::vector<std::vector<std::uint32_t>> groupings;  // instance of each client; the first is in the first
  if (n <= kMostGrouped) {
    for (std::uint32_t with_first = 0; with_first + 1 < 1u << (n - 1); ++with_first) {
      groupings.emplace_back(n, 0);
      for (std::size_t i = 1; i < n; ++i) groupings.back()[i] = (with_first >> (i - 1) & 1) == 0 ? 1 : 0;
    }
  } else if (two_classes(trace)) {
    groupings.emplace_back();
    for (const Client& client : trace.clients) groupings.back().push_back(best_effort(client) == best_effort(trace.clients.front()) ? 0 : 1);
  }
  for (const std::string& profiles : divisions(gpu, 2))
    for (const std::vector<std::uint32_t>& instance_of : groupings) {
      const std::vector<std::string> each = instances_in(profiles);
      std::vector<std::string> of_instances, words;
      for (std::uint32_t k = 0; k < each.size(); ++k) {
        std::vector<std::string> its;
        for (std::size_t i = 0; i < n; ++i)
          if (instance_of[i] == k) its.push_back(names[i]);
        of_instances.push_back(fmt::format("{}", fmt::join(its, "+")));
        words.push_back(fmt::format("{} for {}", each[k], of_instances.back()));
      }
      all.push_back({SharingMode::mig, fmt::format("mig:profile={},clients={},inside=mps", profiles, fmt::join(of_instances, "/")),
                     fmt::format("MIG with MPS inside, {}", fmt::join(words, ", ")),
                     fmt::format("nvidia-smi -mig 1; nvidia-smi mig -cgi {} -C; one MPS daemon ({}) per shared instance, its clients with that "
                                 "instance's CUDA_VISIBLE_DEVICES and CUDA_MPS_PIPE_DIRECTORY",
                                 fmt::join(each, ","), kStartMps),
                     false, {}, {}, each, instance_of});
    }
  return all;
}

std::string does_not_hold(const Setting& setting, const Trace& trace, const Gpu& gpu) {
  const auto geometry = mig_geometry(gpu);
  for (std::uint32_t k = 0; k < std::max<std::size_t>(1, setting.profiles.size()); ++k) {
    const MigProfile* profile = setting.profiles.empty() || !geometry ? nullptr : geometry->find(setting.profiles[k]);
    const std::uint64_t there = profile != nullptr ? profile->memory_bytes : gpu.memory_bytes;
    std::uint64_t sum = 0;
    std::vector<std::string> wanted;
    for (std::size_t i = 0; i < trace.clients.size(); ++i) {
      if (!setting.instance_of.empty() && setting.instance_of[i] != k) continue;
      sum += trace.clients[i].memory_bytes;
      if (trace.clients[i].memory_bytes != 0)
        wanted.push_back(fmt::format("{} for {}", in_bytes(trace.clients[i].memory_bytes), trace.clients[i].name));
    }
    if (sum > there)
      return fmt::format("{} {} needed, and {} has {}", fmt::join(wanted, " and "), wanted.size() == 1 ? "is" : "are",
                         profile != nullptr ? profile->name : gpu.name, in_bytes(there));
  }
  return "";
}

Trace under(const Setting& setting, Trace trace) {
  if (setting.priorities_by_class && !has_priorities(trace))
    for (Client& client : trace.clients) client.priority = best_effort(client) ? 0 : kHighest;
  return trace;
}

}  // namespace corun::sim
