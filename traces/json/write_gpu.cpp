#include "traces/json/write_gpu.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "traces/embedded.h"
#include "traces/json/print.h"
#include "traces/model/error.h"

namespace corun {
namespace {

using nlohmann::ordered_json;

ordered_json built_in(const std::string& name) {
  for (const EmbeddedFile& file : embedded_gpus())
    if (file.name == name) return ordered_json::parse(file.text);
  throw InputError("", "", fmt::format("no GPU is called '{}'", name), "`sim gpus` lists the names");
}

/// Counts as integers, which the schema wants some to be.
ordered_json number(double value) {
  if (std::floor(value) == value && std::abs(value) < 9e15) return static_cast<std::int64_t>(value);
  return value;
}

}  // namespace

std::vector<double> described_value(const std::string& name, const std::string& group,
                                    const std::string& key) {
  const ordered_json document = built_in(name);
  if (!document.contains(group) || !document[group].contains(key)) return {};
  const ordered_json& value = document[group][key]["value"];
  if (value.is_number()) return {value.get<double>()};
  return value.is_array() ? value.get<std::vector<double>>() : std::vector<double>{};
}

std::vector<std::string> write_gpu(const MeasuredGpu& gpu, std::ostream& out) {
  ordered_json document = built_in(gpu.like);
  document.erase("$schema");  // a path in the repository
  document["name"] = gpu.name;
  document["product"] = gpu.product;
  document["architecture"] = gpu.architecture;
  document["about"] = gpu.about;
  for (const MeasuredValue& v : gpu.values) {
    ordered_json leaf;
    if (v.is_list) {
      leaf["value"] = ordered_json::array();
      for (const double value : v.values) leaf["value"].push_back(number(value));
    } else {
      leaf["value"] = number(v.values.front());
    }
    leaf["source"] = gpu.measured + ": " + v.source;
    document[v.group][v.key] = leaf;
  }
  // Lists by SM or TPC say nothing of a card with other SMs.
  ordered_json& chip = document["chip"];
  const auto measured = [&](const std::string& group, const std::string& key) {
    return std::any_of(gpu.values.begin(), gpu.values.end(), [&](const MeasuredValue& v) {
      return v.group == group && v.key == key;
    });
  };
  for (const char* by_sm : {"placement_order", "gpc_of_tpc"})
    if (chip.contains(by_sm) && !measured("chip", by_sm)) chip.erase(by_sm);
  std::vector<std::string> inherited;
  for (auto& [group, leaves] : document.items()) {
    if (!leaves.is_object()) continue;
    for (auto& [key, leaf] : leaves.items()) {
      if (measured(group, key)) continue;
      inherited.push_back(group + "/" + key);
      leaf["source"] = fmt::format("inherited from {}: {}", gpu.like, leaf["source"].get<std::string>());
    }
  }
  print_json(document, out);
  return inherited;
}

}  // namespace corun
