#include "policies/session/profile_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "traces/json/input_file.h"
#include "traces/json/parse.h"
#include "traces/json/print.h"
#include "traces/json/schema.h"
#include "traces/json/spelling.h"
#include "traces/model/error.h"

namespace corun {
namespace {

/// Fewest CTAs first; of as many, those on fewer SMs.
bool before(const ProfilePoint& a, const ProfilePoint& b) {
  return std::tuple(a.ctas, a.sms, a.ctas_per_sm) < std::tuple(b.ctas, b.sms, b.ctas_per_sm);
}

constexpr std::pair<const char*, Time HostCosts::*> kHostCosts[] = {
    {"launch_latency_ns", &HostCosts::launch_latency},
    {"stream_gap_ns", &HostCosts::stream_gap},
    {"completion_notice_ns", &HostCosts::completion_notice},
    {"persistent_latency_ns", &HostCosts::persistent_latency},
    {"persistent_turn_ns", &HostCosts::persistent_turn},
    {"launch_call_ns", &HostCosts::launch_call},
    {"end_call_ns", &HostCosts::end_call},
    {"held_call_ns", &HostCosts::held_call},
    {"hand_over_ns", &HostCosts::hand_over},
    {"take_back_ns", &HostCosts::take_back}};

}  // namespace

const Profile& Profiles::of(const std::string& kernel) const {
  for (const auto& [name, profile] : kernels)
    if (name == kernel) return profile;
  std::vector<std::string> names;
  for (const auto& [name, profile] : kernels) names.push_back(name);
  throw InputError(
      file, "/kernels",
      fmt::format("there is no profile of kernel {}{}", in_quotes(kernel), did_you_mean(kernel, names)),
      "profile this trace, or leave out --profiles");
}

Profiles read_profiles(const std::filesystem::path& file) {
  const nlohmann::json document = parse_json(*open_input(file), file.string());
  check_schema(document, "profile", file.string());
  Profiles read{file.string(), document["gpu"], document["source"], {}, {}};
  std::set<std::string> names;
  for (std::size_t k = 0; k < document["kernels"].size(); ++k) {
    const nlohmann::json& kernel = document["kernels"][k];
    const std::string name = kernel["kernel"];
    if (!names.insert(name).second)
      throw InputError(file.string(), fmt::format("/kernels/{}/kernel", k),
                       fmt::format("kernel {} has two profiles", in_quotes(name)), "keep one of them");
    Profile profile;
    std::set<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>> seen;
    for (std::size_t i = 0; i < kernel["points"].size(); ++i) {
      const nlohmann::json& from = kernel["points"][i];
      const std::string place = fmt::format("/kernels/{}/points/{}", k, i);
      ProfilePoint p;
      p.sms = from["sms"];
      p.ctas_per_sm = from["ctas_per_sm"];
      p.ctas = from.value("ctas", p.sms * p.ctas_per_sm);
      p.time = from_ns(from["time_ns"].get<double>());
      if (p.ctas > p.sms * p.ctas_per_sm || p.ctas <= p.sms * (p.ctas_per_sm - 1))
        throw InputError(
            file.string(), place + "/ctas",
            fmt::format("{} CTAs are not {} or one less on each of {} SMs", p.ctas, p.ctas_per_sm, p.sms),
            "correct one of the three");
      if (!seen.insert({p.ctas, p.sms, p.ctas_per_sm}).second)
        throw InputError(file.string(), place, "this configuration is there twice", "keep one of them");
      profile.push_back(p);
    }
    std::sort(profile.begin(), profile.end(), before);
    read.kernels.emplace_back(name, std::move(profile));
  }
  if (const auto host = document.find("host"); host != document.end()) {
    read.host.emplace();
    for (const auto& [key, to] : kHostCosts) read.host.value().*to = from_ns(host->value(key, 0.0));
  }
  return read;
}

void write_profiles(const Profiles& profiles, std::ostream& out, const std::string& schema) {
  nlohmann::ordered_json document;
  if (!schema.empty()) document["$schema"] = schema;
  document["corun_profile"] = 1;
  document["gpu"] = profiles.gpu;
  document["source"] = profiles.source;
  document["kernels"] = nlohmann::ordered_json::array();
  for (const auto& [name, profile] : profiles.kernels) {
    nlohmann::ordered_json points = nlohmann::ordered_json::array();
    for (const ProfilePoint& p : profile) {
      nlohmann::ordered_json point{{"sms", p.sms}, {"ctas_per_sm", p.ctas_per_sm}};
      if (p.ctas != p.sms * p.ctas_per_sm) point["ctas"] = p.ctas;
      point["time_ns"] = to_ns(p.time);
      points.push_back(std::move(point));
    }
    document["kernels"].push_back({{"kernel", name}, {"points", std::move(points)}});
  }
  if (profiles.host)
    for (const auto& [key, from] : kHostCosts) document["host"][key] = to_ns((*profiles.host).*from);
  print_json(document, out);
}

Gpu through(const HostCosts& host, Gpu gpu) {
  gpu.launch_latency = host.launch_latency;
  gpu.stream_gap = host.stream_gap;
  gpu.completion_notice = host.completion_notice;
  // It reads what workers write to host memory, 1.6 us old (experiments/h200/launch_path, `progress_read`),
  // and has as many hardware channels as there are.
  gpu.progress_read = std::chrono::nanoseconds(1600);
  gpu.host_channels = std::max(gpu.host_channels, 32u);
  gpu.persistent_shared_bytes = 44;  // hw/transform/persistent.cuh: two slots and the leader's state
  gpu.neighbours_take_together = true;
  gpu.retreat += std::chrono::microseconds(5);  // corun_find_seat
  return gpu;
}

Profile points_for(const Profile& profile, std::uint32_t sms, bool by_sm) {
  Profile points;
  for (const ProfilePoint& p : profile)
    if (by_sm ? p.ctas == p.sms * p.ctas_per_sm : p.sms == std::min(p.ctas, sms)) points.push_back(p);
  return points;
}

}  // namespace corun
