#include "sim/command/gpus.h"

#include <fmt/format.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "sim/model/other_card.h"
#include "traces/json/gpu_document.h"
#include "traces/json/print.h"
#include "traces/json/trace_json.h"

namespace corun::sim {
namespace {

nlohmann::ordered_json json_of(const std::string& name, const Gpu& gpu) {
  const nlohmann::json given = gpu_document(name, {}).given;
  nlohmann::ordered_json to = {{"name", name}, {"product", gpu.product}};
  to["also_called"] = given.value("also_called", nlohmann::json::array());
  if (given.contains("extends")) to["extends"] = given.at("extends");
  to["architecture"] = gpu.architecture;
  if (gpu.compute_capability_major != 0)
    to["compute_capability"] =
        fmt::format("{}.{}", gpu.compute_capability_major, gpu.compute_capability_minor);
  to["sms"] = gpu.sms;
  to["warp_size"] = gpu.sm.warp_size;
  to["clock_hz"] = gpu.clock_hz;
  to["memory_bytes"] = gpu.memory_bytes;
  to["l2_bytes"] = gpu.l2_bytes;
  to["dram_bytes_per_second"] = gpu.dram_bytes_per_second;
  to["task_slots"] = gpu.task_slots;
  to["values"] = {{"published", gpu.basis.published},
                  {"calibrated", gpu.basis.calibrated},
                  {"assumed", gpu.basis.assumed},
                  {"assumed_of", gpu.basis.assumed_of}};
  return to;
}

/// "132", or how many there are.
std::string shown(const nlohmann::json& value) {
  if (value.is_array()) return fmt::format("{} numbers", value.size());
  if (value.is_string()) return value.get<std::string>();
  return fmt::format("{:.5g}", value.get<double>());
}

struct Difference {
  std::string place;
  nlohmann::json a, b;  // leaves; null: absent
};

std::vector<Difference> differences(const nlohmann::json& a, const nlohmann::json& b) {
  std::vector<Difference> found;
  const auto leaf = [](const nlohmann::json& of, const std::string& group, const std::string& key) {
    return of.contains(group) && of.at(group).contains(key) ? of.at(group).at(key) : nlohmann::json();
  };
  const nlohmann::ordered_json rules = nlohmann::ordered_json::parse(schema("gpu"));
  for (const auto& [group, rule] : rules.at("properties").items()) {
    if (rule.value("type", "") != "object") continue;
    for (const auto& [key, leaf_rule] : rule.at("properties").items()) {
      const nlohmann::json in_a = leaf(a, group, key), in_b = leaf(b, group, key);
      if (in_a.is_null() && in_b.is_null()) continue;
      if (in_a.is_null() || in_b.is_null() || in_a.at("value") != in_b.at("value"))
        found.push_back({group + "/" + key, in_a, in_b});
    }
  }
  return found;
}

std::string half(const nlohmann::json& leaf) {
  if (leaf.is_null()) return "-";
  return fmt::format("{} {}", shown(leaf.at("value")), leaf.at("basis").get<std::string>());
}

int compare_two(const GpusArguments& arguments) {
  const Gpu a = read_gpu(arguments.compare[0]), b = read_gpu(arguments.compare[1]);
  const std::vector<Difference> found = differences(gpu_document(arguments.compare[0], {}).json,
                                                    gpu_document(arguments.compare[1], {}).json);
  const CardRatios r = ratios_of(a, b);
  if (arguments.json) {
    nlohmann::ordered_json to = {{"version", 1}, {"gpus", {a.name, b.name}}};
    to["time_ratio"] = {{"dram_bound", r.dram}, {"sm_bound", r.sms}, {"few_blocks", r.clock}};
    to["differences"] = nlohmann::ordered_json::array();
    for (const Difference& d : found)
      to["differences"].push_back({{"value", d.place}, {a.name, d.a}, {b.name, d.b}});
    print_json(to, std::cout);
    return 0;
  }
  for (const Gpu* gpu : {&a, &b}) fmt::print("{}: {}; {}\n", gpu->name, gpu->product, in_words(gpu->basis));
  fmt::print("\nA kernel that takes 1 ms on {} takes on {}, by the rule of `sim compare --gpus`:\n", a.name,
             b.name);
  fmt::print("  {:.2f} ms  if it uses all of DRAM's bandwidth\n", r.dram);
  fmt::print("  {:.2f} ms  if its blocks keep all SMs busy\n", r.sms);
  fmt::print("  {:.2f} ms  if its blocks are fewer than the SMs\n", r.clock);
  fmt::print("L2 holds {:.2f} times as much, device memory {:.2f}; an SM {:.2f} times as many threads,\n"
             "and {:.2f} times as much shared memory.\n",
             double(b.l2_bytes) / double(a.l2_bytes), double(b.memory_bytes) / double(a.memory_bytes),
             double(b.sm.max_threads) / a.sm.max_threads,
             double(b.sm.shared_memory_bytes) / a.sm.shared_memory_bytes);
  fmt::print("\n{:<42}{:>24}{:>24}\n", found.empty() ? "no value differs" : "what differs", a.name, b.name);
  for (const Difference& d : found) fmt::print("{:<42}{:>24}{:>24}\n", d.place, half(d.a), half(d.b));
  return 0;
}

}  // namespace

CLI::App* add_gpus(CLI::App& app, GpusArguments& a) {
  CLI::App* command = app.add_subcommand("gpus", "list the GPU descriptions");
  command->add_flag("--json", a.json, "print them as JSON");
  CLI::App* two =
      command->add_subcommand("compare", "what differs between two, and what it means for a kernel");
  two->add_option("gpus", a.compare, "names or paths of descriptions")->required()->expected(2);
  two->add_flag("--json", a.json, "print it as JSON");
  return command;
}

int show_gpus(const GpusArguments& a) {
  if (!a.compare.empty()) return compare_two(a);
  nlohmann::ordered_json all = {{"version", 1}, {"gpus", nlohmann::ordered_json::array()}};
  for (const std::string& name : gpu_names()) {
    const Gpu gpu = read_gpu(name);
    if (a.json)
      all["gpus"].push_back(json_of(name, gpu));
    else
      fmt::print("{:<14}{}, {} SMs, {} task slots; {}\n", name, gpu.product, gpu.sms, gpu.task_slots,
                 in_words(gpu.basis));
  }
  if (a.json) print_json(all, std::cout);
  return 0;
}

}  // namespace corun::sim
