#include "traces/import/profiled_kernel.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "traces/json/spelling.h"

namespace corun {
namespace {

using How = CountersJoin::How;

/// Scaled units have three digits.
constexpr double kRounding = 0.01;
/// Clocks and caches are alike if durations differ by less.
constexpr double kSameDuration = 0.1;

/// Of median duration, among those with all counters if there are any.
const ProfiledLaunch& typical(std::span<const ProfiledLaunch* const> profiled) {
  std::vector<const ProfiledLaunch*> all(profiled.begin(), profiled.end());
  if (!std::ranges::all_of(all, &ProfiledLaunch::cut))
    std::erase_if(all, [](const auto* p) { return p->cut; });
  const auto middle = all.begin() + static_cast<std::ptrdiff_t>((all.size() - 1) / 2);
  std::nth_element(all.begin(), middle, all.end(), [](const ProfiledLaunch* a, const ProfiledLaunch* b) {
    const double x = a->counters.duration_ns.value_or(0), y = b->counters.duration_ns.value_or(0);
    return x != y ? x < y : a->line < b->line;
  });
  return **middle;
}

bool divides(Dim3 cluster, Dim3 grid) {
  return cluster.count() != 0 && grid.x % cluster.x == 0 && grid.y % cluster.y == 0 &&
         grid.z % cluster.z == 0;
}

/// Where only the number of a cluster's blocks is known they are taken to be side by side.
std::optional<Dim3> cluster_of(const ProfiledLaunch& p, Dim3 grid) {
  std::optional<Dim3> cluster = p.cluster;
  if (!cluster && p.cluster_blocks) {
    const std::uint32_t n = *p.cluster_blocks;
    cluster = Dim3{n, 1, 1};
    for (const Dim3 other : {Dim3{1, n, 1}, Dim3{1, 1, n}})
      if (!divides(*cluster, grid)) cluster = other;
  }
  return cluster && divides(*cluster, grid) ? cluster : std::nullopt;
}

bool split_shared_memory(const ProfiledLaunch& p, Kernel& kernel) {
  const std::uint32_t sum = kernel.dynamic_shared_memory_bytes;
  if (sum == 0) return true;
  if (!p.static_shared_memory_bytes || !p.dynamic_shared_memory_bytes) return false;
  const std::uint32_t fixed = *p.static_shared_memory_bytes, dynamic = *p.dynamic_shared_memory_bytes;
  if (std::abs(double(fixed) + dynamic - sum) > kRounding * sum) return false;
  kernel.static_shared_memory_bytes = dynamic == 0 ? sum : std::min(fixed, sum);
  kernel.dynamic_shared_memory_bytes = sum - kernel.static_shared_memory_bytes;
  return true;
}

std::string launches(std::size_t n) { return fmt::format("{} {}", n, n == 1 ? "launch" : "launches"); }

std::vector<std::string> missing_metrics(const CountersJoin& join) {
  constexpr std::pair<const char*, std::optional<double> Counters::*> kNeeded[] = {
      {"smsp__inst_executed.sum", &Counters::warp_instructions},
      {"smsp__issue_active.avg.pct_of_peak_sustained_active", &Counters::issue_active_pct},
      {"dram__bytes_read.sum", &Counters::dram_read_bytes},
      {"dram__bytes_write.sum", &Counters::dram_write_bytes},
      {"lts__t_bytes.sum", &Counters::l2_bytes},
      {"l1tex__t_bytes.sum", &Counters::l1_bytes},
      {"sm__warps_active.avg.pct_of_peak_sustained_active", &Counters::warps_active_pct},
      {"sm__inst_executed_pipe_tensor.sum", &Counters::tensor_instructions},
      {"sm__pipe_fp64_cycles_active.avg.pct_of_peak_sustained_active", &Counters::fp64_active_pct},
      {"gpu__time_duration.sum", &Counters::duration_ns}};
  std::vector<std::string> missing;
  for (const auto& [metric, counter] : kNeeded)
    if (std::none_of(join.matches.begin(), join.matches.end(), [&, of = counter](const CountersJoin::Match& m) {
          return m.launch != nullptr && (m.launch->counters.*of).has_value();
        }))
      missing.emplace_back(metric);
  return missing;
}

}  // namespace

ProfiledFacts take_over(std::span<const ProfiledLaunch* const> profiled, bool registers, Kernel& kernel) {
  ProfiledFacts known{registers, false, kernel.shared_memory_bytes() == 0};
  if (profiled.empty()) return known;
  const ProfiledLaunch& one = typical(profiled);
  kernel.counters = one.counters;
  if (!known.registers && one.registers_per_thread.value_or(0) != 0) {
    kernel.registers_per_thread = *one.registers_per_thread;
    known.registers = true;
  }
  if (const auto cluster = cluster_of(one, kernel.grid)) {
    kernel.cluster = *cluster;
    known.cluster = true;
  }
  known.shared_memory = split_shared_memory(one, kernel);
  return known;
}

std::vector<std::string> profile_notes(const CountersJoin& join, const ProfiledLaunches& profile,
                                       const std::string& file) {
  std::vector<std::string> notes;
  const auto with_counters = [&](How how) {
    return std::ranges::count_if(join.matches, [&](const CountersJoin::Match& m) {
      return m.how == how && m.launch != nullptr && !m.launch->cut;
    });
  };
  const std::size_t all = join.matches.size();
  std::size_t matched = 0;
  std::vector<std::string> ways;
  for (const auto& [how, text] :
       {std::pair(How::order, "by the order of all"), std::pair(How::shape, "by name and shape"),
        std::pair(How::nearest, "by name, shape and nearest duration")})
    if (const auto n = with_counters(how); n != 0) {
      ways.push_back(fmt::format("{} {}", n, text));
      matched += static_cast<std::size_t>(n);
    }
  std::string text = fmt::format("Counters of {} of {} are from {}{}{}.", matched, launches(all), file,
                                 ways.empty() ? "" : ": ", fmt::join(ways, ", "));
  if (join.unused != 0)
    text += fmt::format(" {} of the profile {} none.", launches(join.unused),
                        join.unused == 1 ? "matches" : "match");
  notes.push_back(std::move(text));
  if (join.moved != 0)
    notes.push_back(fmt::format(
        "For {} what {} has at that place took clearly more or less time than it would: the nearest "
        "duration of the name and shape is taken.",
        launches(join.moved), file));
  if (join.left_out != 0)
    notes.push_back(fmt::format(
        "{} took clearly more or less time than any of the name and shape in {}, and {} counters of "
        "none.",
        launches(join.left_out), file, join.left_out == 1 ? "gets" : "get"));
  if (join.sources > 1)
    notes.push_back(
        fmt::format("{} has launches of {} processes and devices: the one that matches best is taken.", file,
                    join.sources));
  if (const auto missing = missing_metrics(join); !missing.empty())
    notes.push_back(fmt::format("Metrics that {} lacks: {}.", file, fmt::join(missing, ", ")));
  if (!profile.lacking.empty()) {
    std::vector<std::string> lacking;
    for (const auto& [metric, n] : profile.lacking)
      lacking.push_back(fmt::format("{} of {}", metric, launches(n)));
    notes.push_back(
        fmt::format("{} lacks {}: no counter of these launches is used, but those of another launch of the "
                    "same kernel, if there is one.",
                    file, fmt::join(lacking, ", ")));
  }
  if (profile.impossible != 0)
    notes.push_back(fmt::format(
        "Left out of {}, as they cannot be: {} that {} negative, above 1e18, or a cluster of more than "
        "16 blocks.",
        file, profile.impossible == 1 ? "1 value" : fmt::format("{} values", profile.impossible),
        profile.impossible == 1 ? "is" : "are"));
  if (profile.unusable != 0)
    notes.push_back(fmt::format("{} of {} without a grid, a block or a metric that is used are left out.",
                                launches(profile.unusable), file));
  if (!profile.unknown_units.empty()) {
    std::vector<std::string> units;
    for (const std::string& unit : profile.unknown_units) units.push_back(unit);
    notes.push_back(fmt::format("Values of {} in unknown units are left out: {}.", file, list_names(units)));
  }
  if (join.duration_ratio && std::abs(*join.duration_ratio - 1) > kSameDuration)
    notes.push_back(
        fmt::format("Launches took {:.2f} times as long under Nsight Compute as recorded (median), by "
                    "its clocks and cold caches: times stay the recorded ones.",
                    *join.duration_ratio));
  return notes;
}

}  // namespace corun
