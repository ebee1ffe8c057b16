#include "traces/json/gpu_document.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <optional>
#include <sstream>

#include "traces/embedded.h"
#include "traces/json/input_file.h"
#include "traces/json/parse.h"
#include "traces/json/spelling.h"
#include "traces/json/trace_json.h"
#include "traces/model/error.h"

namespace corun {
namespace {

using nlohmann::json;
namespace files = std::filesystem;

/// "NVIDIA Tesla V100-SXM2-16GB" and "tesla v100 sxm2 16gb" are V100SXM216GB.
std::string product_key(const std::string& name) {
  std::vector<std::string> words(1);
  for (const char c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      words.back() += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    else
      words.emplace_back();
  std::string key;
  for (const std::string& word : words)
    if (word != "NVIDIA" && word != "TESLA" && word != "GEFORCE" && word != "AMD") key += word;
  return key;
}

struct Product {
  std::string name;                  // of the description
  std::vector<std::string> printed;  // names of the card
};

const std::vector<Product>& products() {
  static const auto* all = [] {
    auto* found = new std::vector<Product>;
    for (const EmbeddedFile& file : embedded_gpus()) {
      const json document = json::parse(file.text);
      Product product{std::string(file.name), {document.value("product", "")}};
      if (const auto also = document.find("also_called"); also != document.end())
        for (const json& each : *also) product.printed.push_back(each.get<std::string>());
      found->push_back(std::move(product));
    }
    return found;
  }();
  return *all;
}

[[noreturn]] void fail_unknown(const std::string& file, const std::string& place, const std::string& name) {
  std::vector<std::string> known = gpu_names(), all = known;
  for (const Product& product : products())
    for (const std::string& printed : product.printed)
      if (!printed.empty()) all.push_back(printed);
  throw InputError(file, place,
                   fmt::format("no such file, and no GPU is called {}{}", in_quotes(name),
                               did_you_mean(name, all)),
                   fmt::format("use one of {}, what nvidia-smi calls the card, or the path of a description",
                               list_names(known, 40)));
}

/// Null where there is none.
const json* value_of(const json& document, const char* group, const char* key) {
  const json* at = &document;
  for (const char* step : {group, key, "value"}) {
    const auto found = at->is_object() ? at->find(step) : at->end();
    if (!at->is_object() || found == at->end()) return nullptr;
    at = &*found;
  }
  return at;
}

std::optional<double> number_at(const json& document, const char* group, const char* key) {
  const json* value = value_of(document, group, key);
  if (value == nullptr || !value->is_number() || value->get<double>() <= 0) return std::nullopt;
  return value->get<double>();
}

std::string text_at(const json& document, const char* key, const char* otherwise = "") {
  const auto found = document.find(key);
  return found != document.end() && found->is_string() ? found->get<std::string>() : otherwise;
}

/// By what a value that is carried over to another card grows.
enum class Grows : std::uint8_t {
  not_at_all,
  with_clock,
  against_clock,
  with_sms_and_clock,
  with_dram,
  with_l2
};

Grows growth_of(const std::string& group, const std::string& key) {
  const auto among = [&](std::initializer_list<const char*> keys) {
    return std::ranges::any_of(keys, [&](const char* each) { return key == each; });
  };
  if (group == "latencies" && key == "dispatch_interval_ns") return Grows::against_clock;
  if (group != "contention") return Grows::not_at_all;
  if (among({"sm_read_bytes_per_second", "sm_write_bytes_per_second", "sm_sector_bytes_per_second"}))
    return Grows::with_clock;
  if (among({"l2_read_bytes_per_second", "l2_write_bytes_per_second"})) return Grows::with_sms_and_clock;
  if (among({"dram_read_bytes_per_second", "dram_write_bytes_per_second"})) return Grows::with_dram;
  const bool is_cache = among({"l2_own_bytes", "l2_shared_bytes", "l2_first_loss_bytes", "l2_dirty_bytes"});
  return is_cache ? Grows::with_l2 : Grows::not_at_all;
}

struct Ratio {
  double value;
  std::string by;  // in words
};

/// None where a value that it needs is missing or the same.
std::optional<Ratio> ratio_of(Grows grows, const json& parent, const json& child) {
  const auto between = [&](const char* group, const char* key) -> std::optional<Ratio> {
    const auto from = number_at(parent, group, key);
    const auto to = value_of(child, group, key) == nullptr ? from : number_at(child, group, key);
    if (!from || !to) return std::nullopt;
    return Ratio{*to / *from, fmt::format("{} {:.6g} against {:.6g}", key, *to, *from)};
  };
  std::optional<Ratio> ratio;
  switch (grows) {
    case Grows::not_at_all: break;
    case Grows::with_clock: ratio = between("chip", "clock_hz"); break;
    case Grows::against_clock:
      ratio = between("chip", "clock_hz");
      if (ratio) ratio->value = 1 / ratio->value;
      break;
    case Grows::with_sms_and_clock:
      if (const auto sms = between("chip", "sms"), clock = between("chip", "clock_hz"); sms && clock)
        ratio = Ratio{sms->value * clock->value, sms->by + " times " + clock->by};
      break;
    case Grows::with_dram: ratio = between("memory", "dram_bytes_per_second"); break;
    case Grows::with_l2: ratio = between("memory", "l2_bytes"); break;
  }
  return ratio && ratio->value != 1 ? ratio : std::nullopt;
}

/// Down to four digits: no bandwidth of a part may exceed the whole's.
double rounded_down(double value) {
  const double unit = std::pow(10, std::floor(std::log10(value)) - 3);
  return unit >= 1 ? std::floor(value / unit) * unit : std::floor(value / unit) / std::round(1 / unit);
}

bool same_architecture(const json& parent, const json& child) {
  const auto same = [&](const char* group, const char* key) {
    const json* to = value_of(child, group, key);
    const json* from = value_of(parent, group, key);
    return to == nullptr || (from != nullptr && *to == *from);
  };
  const std::string of_parent = text_at(parent, "architecture");
  return same("chip", "compute_capability_major") && same("chip", "compute_capability_minor") &&
         text_at(child, "architecture", of_parent.c_str()) == of_parent;
}

/// What documents say of all cards of an architecture, or of the driver.
bool is_of_the_architecture(const std::string& group, const std::string& key) {
  return group == "sm" || (group == "scheduling" && key != "copy_engines") ||
         (group == "chip" && (key == "sms_per_tpc" || key.starts_with("compute_capability")));
}

/// Lists by SM or TPC say nothing of a card with other SMs; nor do watts of a card with another limit.
bool is_left_out(const std::string& group, const std::string& key, const json& parent, const json& child) {
  if (key == "placement_order" || key == "gpc_of_tpc") {
    const json* sms = value_of(child, "chip", "sms");
    const json* tpc = value_of(child, "chip", "sms_per_tpc");
    return (sms != nullptr && *sms != *value_of(parent, "chip", "sms")) ||
           (tpc != nullptr && *tpc != *value_of(parent, "chip", "sms_per_tpc"));
  }
  return group == "power" && !child.contains("power");
}

json inherit(json child, const json& parent) {
  json whole = child;
  whole.erase("extends");
  if (!whole.contains("architecture")) whole["architecture"] = parent.at("architecture");
  if (!whole.contains("product")) whole["product"] = text_at(child, "name", "?");
  for (const auto& [group, leaves] : parent.items()) {
    if (!leaves.is_object() || (whole.contains(group) && !whole.at(group).is_object())) continue;
    for (const auto& [key, leaf] : leaves.items()) {
      if (whole.contains(group) && whole.at(group).contains(key)) continue;
      if (is_left_out(group, key, parent, child)) continue;
      whole[group][key] = inherited_leaf(group, key, parent, child);
    }
  }
  return whole;
}

/// `chain`: the files that led here by `extends`.
GpuDocument load(const std::string& name_or_path, const files::path& beside, std::vector<std::string> chain,
                 const std::string& place) {
  const std::string from = chain.empty() ? "" : chain.back();
  GpuDocument document;
  files::path folder;
  std::string built_in;
  const files::path path = beside / name_or_path;
  for (const EmbeddedFile& file : embedded_gpus())
    if (file.name == name_or_path) built_in = name_or_path;
  if (built_in.empty() && !input_exists(path)) built_in = find_gpu(name_or_path);
  if (!built_in.empty()) {
    const auto all = embedded_gpus();
    const auto file = std::ranges::find(all, built_in, &EmbeddedFile::name);
    std::istringstream text{std::string(file->text)};
    document.file = built_in;
    document.json = parse_json(text, built_in);
  } else {
    if (!input_exists(path)) fail_unknown(chain.empty() ? path.string() : from, place, name_or_path);
    document.file = path.lexically_normal().string(), folder = path.parent_path();
    document.json = parse_json(*open_input(path), document.file);
  }
  if (std::ranges::find(chain, document.file) != chain.end())
    throw InputError(from, place,
                     fmt::format("the description extends itself: {} -> {}", fmt::join(chain, " -> "),
                                 document.file),
                     "extend a description that stands by itself");
  document.given = document.json;
  const auto extends = document.json.is_object() ? document.json.find("extends") : document.json.end();
  if (!document.json.is_object() || extends == document.json.end() || !extends->is_string()) return document;
  chain.push_back(document.file);
  const GpuDocument parent = load(extends->get<std::string>(), folder, chain, "/extends");
  check_gpu_document(parent);
  document.json = inherit(std::move(document.json), parent.json);
  return document;
}

}  // namespace

GpuDocument gpu_document(const std::string& name_or_path, const files::path& beside) {
  return load(name_or_path, beside, {}, "");
}

std::vector<std::string> carried_by(const std::string& group, const std::string& key) {
  switch (growth_of(group, key)) {
    case Grows::not_at_all: break;
    case Grows::with_clock:
    case Grows::against_clock: return {"/chip/clock_hz"};
    case Grows::with_sms_and_clock: return {"/chip/sms", "/chip/clock_hz"};
    case Grows::with_dram: return {"/memory/dram_bytes_per_second"};
    case Grows::with_l2: return {"/memory/l2_bytes"};
  }
  return {};
}

std::string find_gpu(const std::string& name) {
  for (const EmbeddedFile& file : embedded_gpus())
    if (file.name == name) return name;
  const std::string key = product_key(name);
  if (key.empty()) return "";
  for (const Product& product : products())
    if (product_key(product.name) == key ||
        std::ranges::any_of(product.printed, [&](const auto& each) { return product_key(each) == key; }))
      return product.name;
  return "";
}

json inherited_leaf(const std::string& group, const std::string& key, const json& parent, const json& child) {
  json leaf = parent.at(group).at(key);
  const std::string basis = leaf.at("basis").get<std::string>(), name = text_at(parent, "name");
  const bool of_both = is_of_the_architecture(group, key) && same_architecture(parent, child);
  if (basis == "published" && of_both) return leaf;
  if (!leaf.contains("of") || basis != "assumed") leaf["of"] = name;
  leaf["basis"] = "assumed";
  const std::string source = leaf.at("source").get<std::string>();
  const std::optional<Ratio> ratio = ratio_of(growth_of(group, key), parent, child);
  if (!ratio) {
    leaf["source"] = fmt::format("inherited from {}: {}", name, source);
    return leaf;
  }
  const bool is_whole = leaf.at("value").is_number_integer();
  const double was = leaf.at("value").get<double>(), value = rounded_down(was * ratio->value);
  if (is_whole && std::abs(value) < 0x1p53)  // else the schema says what is wrong with it
    leaf["value"] = static_cast<std::int64_t>(value);
  else
    leaf["value"] = value;
  leaf["source"] =
      fmt::format("inherited from {}, {:.6g} carried over by {}: {}", name, was, ratio->by, source);
  return leaf;
}

}  // namespace corun
