#include "policies/session/instances.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "traces/json/mig_json.h"
#include "traces/json/spelling.h"
#include "traces/model/error.h"

namespace corun {
namespace {

/// Of each client, by ClientId.
std::vector<std::size_t> instance_of_clients(const Trace& trace, const std::vector<Instance>& instances) {
  std::vector<std::size_t> of(trace.clients.size());
  if (std::ranges::all_of(instances, [](const Instance& i) { return i.clients.empty(); })) {
    for (std::size_t i = 0; i < of.size(); ++i) of[i] = i % instances.size();
    return of;
  }
  std::ranges::fill(of, instances.size());
  std::vector<std::string> names;
  for (const Client& client : trace.clients) names.push_back(client.name);
  for (std::size_t k = 0; k < instances.size(); ++k)
    for (const std::string& name : instances[k].clients) {
      const auto found = std::ranges::find(names, name);
      if (found == names.end())
        throw InputError("", "--policy",
                         fmt::format("the trace has no client {}{}", in_quotes(name),
                                     did_you_mean(name, names)),
                         fmt::format("name one of {}", list_names(names)));
      std::size_t& its = of[static_cast<std::size_t>(found - names.begin())];
      if (its != instances.size())
        throw InputError("", "--policy", fmt::format("client {} is in two instances", in_quotes(name)),
                         "name it once");
      its = k;
    }
  for (std::size_t i = 0; i < of.size(); ++i)
    if (of[i] == instances.size())
      throw InputError("", "--policy", fmt::format("client {} is in no instance", in_quotes(names[i])),
                       "name every client of the trace, or none");
  return of;
}

MigGeometry geometry_of(const Gpu& gpu) {
  if (const std::optional<MigGeometry> geometry = mig_geometry(gpu)) return *geometry;
  throw InputError("", "--policy", fmt::format("it is not known how {} is divided into instances", gpu.name),
                   fmt::format("take one of {}", fmt::join(gpus_with_mig(), ", ")));
}

/// "1g.18gb (1 of 8 slices), ..."
std::string sizes(const MigGeometry& geometry) {
  std::vector<std::string> all;
  for (const MigProfile& p : geometry.profiles)
    all.push_back(fmt::format("{} ({} of {} memory slices, from {})", p.name, p.memory_slices,
                              geometry.memory_slices, fmt::join(p.places, " or ")));
  return fmt::format("{}", fmt::join(all, ", "));
}

const MigProfile& profile_of(const std::string& name, const MigGeometry& geometry, const Gpu& gpu) {
  if (const MigProfile* found = geometry.find(name)) return *found;
  std::vector<std::string> names;
  for (const MigProfile& p : geometry.profiles) names.push_back(p.name);
  throw InputError(
      "", "--policy",
      fmt::format("{} has no MIG profile {}{}", gpu.name, in_quotes(name), did_you_mean(name, names)),
      fmt::format("take {}", list_names(names)));
}

using Division = std::vector<const MigProfile*>;

/// Whether an instance could have more SMs beside the others.
bool wastes(Division division, const MigGeometry& geometry) {
  for (const MigProfile*& one : division) {
    const MigProfile* const was = one;
    for (const MigProfile& other : geometry.profiles) {
      one = &other;
      if (other.sms > was->sms && geometry.places(division)) return true;
    }
    one = was;
  }
  return false;
}

}  // namespace

std::vector<Gpu> instances_of(const Gpu& whole, const std::vector<Instance>& wanted) {
  const MigGeometry geometry = geometry_of(whole);
  Division profiles;
  std::vector<std::string> names;
  for (const Instance& instance : wanted) {
    profiles.push_back(&profile_of(instance.profile, geometry, whole));
    names.push_back(instance.profile);
  }
  if (!geometry.places(profiles))
    throw InputError(
        "", "--policy", fmt::format("{} cannot be divided into {}", whole.name, fmt::join(names, " and ")),
        "instances may not overlap; profiles with the slices at which each may start: " + sizes(geometry));
  std::vector<Gpu> gpus;
  for (const MigProfile* profile : profiles) gpus.push_back(instance_of(whole, geometry, *profile));
  return gpus;
}

std::vector<InstancePart> divide(const Trace& trace, const std::vector<Instance>& instances) {
  const std::vector<std::size_t> of = instance_of_clients(trace, instances);
  std::vector<InstancePart> parts;
  for (std::uint32_t k = 0; k < instances.size(); ++k) {
    InstancePart part{k, instances[k], {}, trace};
    part.trace.clients.clear();
    for (std::uint32_t i = 0; i < of.size(); ++i) {
      if (of[i] != k) continue;
      part.clients.push_back(ClientId{i});
      part.trace.clients.push_back(trace.clients[i]);
    }
    if (!part.clients.empty()) parts.push_back(std::move(part));
  }
  return parts;
}

std::vector<std::string> divisions(const Gpu& gpu, std::size_t instances) {
  const std::optional<MigGeometry> geometry = mig_geometry(gpu);
  std::vector<std::string> found;
  if (!geometry || instances == 0 || instances > geometry->memory_slices) return found;
  Division division;
  const std::function<void()> extend = [&] {
    if (!geometry->places(division)) return;
    if (division.size() < instances) {
      for (const MigProfile& p : geometry->profiles) {
        division.push_back(&p);
        extend();
        division.pop_back();
      }
    } else if (!wastes(division, *geometry)) {
      std::vector<std::string> names;
      for (const MigProfile* p : division) names.push_back(p->name);
      found.push_back(fmt::format("{}", fmt::join(names, "/")));
    }
  };
  extend();
  return found;
}

}  // namespace corun
