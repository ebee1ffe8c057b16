// Does a counter error of 10 % move a kernel's solo times by about as much?  Profilers are off by so much from
// run to run, and from release to release.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "sim/model/kernel_model.h"
#include "traces/json/input_file.h"
#include "traces/json/trace_json.h"

namespace corun::sim {
namespace {

constexpr std::size_t kKernels = 200;
constexpr double kMost = 0.15;
constexpr std::array kParts{8u, 16u, 32u, 66u, 99u, 132u};

/// A known gap: of the counters of these kernels, moved up and down, how many in a thousand move a time by more than
/// kMost.  Two explanations of a solo time that are far apart are then as likely, and the middle goes from one to the other.
constexpr double kBeyond = 20;
constexpr double kBeyondSpread = 3;  // by compilers' arithmetic

struct Counted {
  std::string label;
  Kernel kernel;
};

/// Kernels with counters that are committed, each with its solo time on the whole GPU alone.
std::vector<Counted> counted_kernels() {
  std::vector<Counted> all;
  const auto file = [](const char* path) { return nlohmann::json::parse(*open_input(path)); };
  const auto product = [](const nlohmann::json& size) { return Dim3{size[0], size[1], size[2]}; };
  const auto with_shape = [&](const nlohmann::json& from) {
    Kernel k;
    k.name = from["name"];
    k.grid = product(from["grid"]), k.block = product(from["block"]);
    k.registers_per_thread = from["registers_per_thread"];
    k.dynamic_shared_memory_bytes = from["shared_memory_bytes"];
    const nlohmann::json& ncu = from["ncu"];
    const auto number = [&](const char* key) { return ncu.contains(key) ? std::optional(ncu[key].get<double>()) : std::nullopt; };
    Counters& c = k.counters;
    c.dram_read_bytes = number("dram_read_bytes"), c.dram_write_bytes = number("dram_write_bytes");
    c.l2_bytes = number("l2_bytes"), c.l1_bytes = number("l1_bytes");
    c.warp_instructions = number("warp_instructions"), c.tensor_instructions = number("tensor_instructions");
    c.issue_active_pct = number("issue_active_pct"), c.warps_active_pct = number("warps_active_pct");
    c.duration_ns = number("ncu_duration_ns");
    if (ncu.contains("l1_data_pct")) c.pipes_pct["l1_data"] = ncu["l1_data_pct"];
    return k;
  };
  for (const char* path : {"experiments/reference/h200-corun.json.gz", "experiments/h200/corun_heldout/corun.json"})
  {
    const nlohmann::json document = file(path);
    for (const auto& [label, from] : document["kernels"].items()) {
      Kernel k = with_shape(from);
      k.solo_time = from_ns(from["solo_ms"].get<double>() * 1e6 / from["launches"].get<double>());
      all.push_back({label, std::move(k)});
    }
  }
  const nlohmann::json parts = file("experiments/h200/parts/kernels-1.json.gz");
  for (const auto& [label, operation] : parts["operations"].items()) {
    if (operation["set_aside"]) continue;
    for (const nlohmann::json& from : operation["kernels"]) {
      if (!from.contains("ncu") || !from["us_by_sms"].contains("132")) continue;
      Kernel k = with_shape(from);
      k.solo_time = from_ns(from["us_by_sms"]["132"].get<double>() * 1e3);
      all.push_back({label, std::move(k)});
    }
  }
  // Networks have many kernels that are nearly the same.
  std::vector<Counted> networks;
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator("experiments/h200/networks/traces"))
    if (const std::string name = entry.path().filename().string(); std::ranges::count(name, '.') == 2) paths.push_back(entry.path());
  std::ranges::sort(paths);
  for (const auto& path : paths)
    for (Kernel& k : read_trace(path).kernels)
      if (k.solo_time && k.counters.warp_instructions && k.counters.l2_bytes) {
        k.solo_time_by_sms.clear();
        networks.push_back({path.stem().stem().string(), std::move(k)});
      }
  const std::size_t sample = kKernels - std::min(kKernels, all.size());
  for (std::size_t i = 0; i < sample; ++i) all.push_back(networks[i * networks.size() / sample]);
  return all;
}

std::vector<double> times(const Kernel& k) {
  static const Gpu gpu = read_gpu("h200");
  const KernelModel model(k, *k.solo_time, gpu);
  std::vector<double> times;
  for (const std::uint32_t sms : kParts) times.push_back(static_cast<double>(model.solo_time(sms).count()));
  return times;
}

using CounterOf = std::function<double*(Kernel&)>;
std::map<std::string, CounterOf> counters_of(const Kernel& k) {
  std::map<std::string, CounterOf> found;
  const auto add = [&](const char* name, std::optional<double> Counters::*counter) {
    if ((k.counters.*counter).value_or(0) > 0) found[name] = [counter](Kernel& of) { return &*(of.counters.*counter); };
  };
  add("dram_read_bytes", &Counters::dram_read_bytes), add("dram_write_bytes", &Counters::dram_write_bytes);
  add("l2_bytes", &Counters::l2_bytes), add("l1_bytes", &Counters::l1_bytes);
  add("warp_instructions", &Counters::warp_instructions), add("tensor_instructions", &Counters::tensor_instructions);
  add("issue_active_pct", &Counters::issue_active_pct), add("warps_active_pct", &Counters::warps_active_pct);
  add("duration_ns", &Counters::duration_ns);
  for (const auto& [pipe, busy] : k.counters.pipes_pct)
    found[pipe] = [pipe = pipe](Kernel& of) { return &of.counters.pipes_pct[pipe]; };
  return found;
}

TEST(CountersDecideSmoothly, ATenthMoreOrLessOfOneMovesFewTimesOnPartsByMoreThanFifteenPercent) {
  std::map<std::string, double> moved;  // percent
  const std::vector<Counted> kernels = counted_kernels();
  ASSERT_EQ(kernels.size(), kKernels);
  for (const auto& [label, kernel] : kernels) {
    const std::vector<double> usual = times(kernel);
    for (const auto& [name, counter] : counters_of(kernel))
      for (const double by : {0.9, 1.1}) {
        Kernel k = kernel;
        *counter(k) *= by;
        const std::vector<double> now = times(k);
        double most = 0;
        for (std::size_t i = 0; i < now.size(); ++i) most = std::max(most, std::abs(now[i] / usual[i] - 1));
        double& seen = moved[label + " " + name + (by < 1 ? " -" : " +")];
        seen = std::max(seen, 100 * most);
      }
  }
  const auto beyond = std::ranges::count_if(moved, [](const auto& one) { return one.second > 100 * kMost; });
  EXPECT_NEAR(1e3 * static_cast<double>(beyond) / static_cast<double>(moved.size()), kBeyond, kBeyondSpread)
      << beyond << " of " << moved.size() << ": a gap that is another now, or none";
}

}  // namespace
}  // namespace corun::sim
