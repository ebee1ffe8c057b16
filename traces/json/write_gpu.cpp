#include "traces/json/write_gpu.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "traces/json/gpu_document.h"
#include "traces/json/print.h"
#include "traces/json/trace_json.h"

namespace corun {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

/// Groups and values as the schema lists them.
ordered_json in_order(const json& document) {
  const ordered_json rules = ordered_json::parse(schema("gpu"));
  ordered_json whole;
  for (const auto& [name, rule] : rules.at("properties").items()) {
    if (!document.contains(name)) continue;
    if (!document.at(name).is_object()) {
      whole[name] = document.at(name);
      continue;
    }
    for (const auto& [key, leaf_rule] : rule.at("properties").items())
      if (document.at(name).contains(key)) {
        const json& leaf = document.at(name).at(key);
        for (const char* part : {"value", "source", "basis", "of"})
          if (leaf.contains(part)) whole[name][key][part] = leaf.at(part);
      }
  }
  return whole;
}

/// Counts as integers, which the schema wants some to be.
json number(double value) {
  if (std::floor(value) == value && std::abs(value) < 9e15) return static_cast<std::int64_t>(value);
  return value;
}

}  // namespace

std::vector<double> described_value(const std::string& name, const std::string& group,
                                    const std::string& key) {
  const json document = gpu_document(name, {}).json;
  if (!document.contains(group) || !document[group].contains(key)) return {};
  const json& value = document[group][key]["value"];
  if (value.is_number()) return {value.get<double>()};
  return value.is_array() ? value.get<std::vector<double>>() : std::vector<double>{};
}

std::string refused_value(const MeasuredValue& v) {
  static const json rules = json::parse(schema("gpu"));
  const json::json_pointer place("/properties/" + v.group + "/properties/" + v.key + "/properties/value");
  if (!rules.contains(place)) return "no description holds it";
  const json& whole = rules.at(place);
  const json& rule = v.is_list ? whole.at("items") : whole;
  const auto bound = [&](const char* inclusive, const char* exclusive, double none) {
    return rule.value(inclusive, rule.value(exclusive, none));
  };
  const double least = bound("minimum", "exclusiveMinimum", std::numeric_limits<double>::lowest());
  const double most = bound("maximum", "exclusiveMaximum", std::numeric_limits<double>::max());
  for (const double value : v.values) {
    const bool at_bound = (value == least && rule.contains("exclusiveMinimum")) ||
                          (value == most && rule.contains("exclusiveMaximum"));
    if (at_bound || !(value >= least && value <= most))
      return fmt::format("{:.5g} is out of range: a description holds {:.5g} to {:.5g}", value, least, most);
    if (rule.value("type", "") == "integer" && value != std::floor(value))
      return fmt::format("{:.5g} is no whole number", value);
  }
  return "";
}

std::vector<std::string> write_gpu(const MeasuredGpu& gpu, std::ostream& out) {
  const json parent = gpu_document(gpu.like, {}).json;
  json document = {{"corun_gpu", 1},
                   {"name", gpu.name},
                   {"product", gpu.product},
                   {"architecture", gpu.architecture},
                   {"about", gpu.about}};
  for (const MeasuredValue& v : gpu.values) {
    json leaf = {{"source", gpu.measured + ": " + v.source}, {"basis", "calibrated"}};
    if (v.is_list) {
      leaf["value"] = json::array();
      for (const double value : v.values) leaf["value"].push_back(number(value));
    } else {
      leaf["value"] = number(v.values.front());
    }
    document[v.group][v.key] = leaf;
  }
  const json measured = document;
  std::vector<std::string> inherited;
  for (const auto& [group, leaves] : parent.items()) {
    if (!leaves.is_object()) continue;
    for (const auto& [key, leaf] : leaves.items()) {
      // Lists by SM or TPC say nothing of a card with other SMs.
      const bool by_sm = key == "placement_order" || key == "gpc_of_tpc";
      if (by_sm || document[group].contains(key)) continue;
      inherited.push_back(group + "/" + key);
      document[group][key] = inherited_leaf(group, key, parent, measured);
    }
  }
  print_json(in_order(document), out);
  return inherited;
}

}  // namespace corun
