#include "sim/command/gpus.h"

#include <fmt/format.h>

#include <iostream>
#include <nlohmann/json.hpp>

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
    to["compute_capability"] = fmt::format("{}.{}", gpu.compute_capability_major, gpu.compute_capability_minor);
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

}  // namespace

CLI::App* add_gpus(CLI::App& app, GpusArguments& a) {
  CLI::App* command = app.add_subcommand("gpus", "list the GPU descriptions");
  command->add_flag("--json", a.json, "print them as JSON");
  return command;
}

int list_gpus(const GpusArguments& a) {
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
