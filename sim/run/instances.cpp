#include "sim/run/instances.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "traces/json/mig_json.h"
#include "traces/json/spelling.h"
#include "traces/model/error.h"

namespace corun::sim {
namespace {

using Division = std::vector<const MigProfile*>;

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
  throw InputError("", "--policy",
                   fmt::format("{} has no MIG profile {}{}", gpu.name, in_quotes(name),
                               did_you_mean(name, names)),
                   fmt::format("take {}", list_names(names)));
}

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

std::vector<std::uint32_t> Instances::make(const std::vector<Instance>& wanted) {
  const MigGeometry geometry = geometry_of(whole_);
  Division profiles;
  std::vector<std::string> names;
  for (const Instance& instance : wanted) {
    profiles.push_back(&profile_of(instance.profile, geometry, whole_));
    names.push_back(instance.profile);
  }
  if (!geometry.places(profiles))
    throw InputError("", "--policy",
                     fmt::format("{} cannot be divided into {}", whole_.name, fmt::join(names, " and ")),
                     "instances may not overlap; profiles with the slices at which each may start: " +
                         sizes(geometry));
  std::vector<std::uint32_t> sms;
  for (const MigProfile* profile : profiles) {
    sms.push_back(profile->sms);
    std::unique_ptr<Part>& part = parts_[profile->name];
    if (part == nullptr) part = std::make_unique<Part>(whole_, instance_of(whole_, geometry, *profile), contention_);
  }
  made_ = wanted;
  return sms;
}

std::vector<std::string> Instances::notes() const {
  if (made_.empty()) return {};
  std::vector<std::string> each;
  for (const Instance& i : made_) {
    const Gpu& gpu = parts_.at(i.profile)->gpu;
    each.push_back(fmt::format("{} ({} SMs, {:.0f} GiB, {:.2g} TB/s) under {}", i.profile, gpu.sms,
                               static_cast<double>(gpu.memory_bytes) / (1 << 30),
                               gpu.contention.dram_read_bytes_per_second * 1e-12, i.policy));
  }
  return {fmt::format("instances: {}", fmt::join(each, ", ")),
          "MIG is simulated from documents, and no GPU could be divided here: three networks alone in instances of an "
          "A100 come out within 8 % of what others published, two do not (experiments/mig); instances share nothing, "
          "and a kernel finds as much of its data in L2 as on the whole GPU"};
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

}  // namespace corun::sim
