#include "traces/json/mig_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "traces/embedded.h"
#include "traces/json/parse.h"
#include "traces/json/schema.h"

namespace corun {
namespace {

MigGeometry read(const nlohmann::json& document) {
  MigGeometry geometry;
  document.at("memory_slices").get_to(geometry.memory_slices);
  for (const auto& [name, values] : document.at("profiles").items()) {
    MigProfile& p = geometry.profiles.emplace_back();
    p.name = name;
    values.at("sms").get_to(p.sms);
    values.at("memory_slices").get_to(p.memory_slices);
    values.at("memory_bytes").get_to(p.memory_bytes);
    values.at("copy_engines").get_to(p.copy_engines);
    values.at("places").get_to(p.places);
  }
  std::ranges::stable_sort(geometry.profiles, [](const MigProfile& a, const MigProfile& b) {
    return std::pair(a.sms, a.memory_slices) < std::pair(b.sms, b.memory_slices);
  });
  return geometry;
}

}  // namespace

std::optional<MigGeometry> mig_geometry(const Gpu& gpu) {
  for (const EmbeddedFile& file : embedded_mig()) {
    std::istringstream text{std::string(file.text)};
    const std::string name = "mig/" + std::string(file.name);
    const nlohmann::json document = parse_json(text, name);
    check_schema(document, "mig", name);
    const auto& gpus = document.at("gpus");
    if (std::ranges::any_of(gpus, [&](const auto& g) { return g == gpu.name || g == gpu.product; }))
      return read(document);
  }
  return std::nullopt;
}

std::vector<std::string> gpus_with_mig() {
  std::vector<std::string> names;
  for (const EmbeddedFile& file : embedded_mig())
    names.push_back(nlohmann::json::parse(file.text).at("gpus").at(0));
  return names;
}

}  // namespace corun
