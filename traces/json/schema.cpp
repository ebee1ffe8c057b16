// The schema decides what is valid (through valijson); where it says no, the walk below finds words for it.
#include "traces/json/schema.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <locale>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <regex>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validation_results.hpp>
#include <valijson/validator.hpp>
#include <vector>

#include "traces/json/spelling.h"
#include "traces/json/trace_json.h"
#include "traces/model/error.h"

namespace corun {
namespace {

using nlohmann::json;
using Pointer = json::json_pointer;
using Adapter = valijson::adapters::NlohmannJsonAdapter;

class CompiledSchema {
 public:
  explicit CompiledSchema(std::string_view text) : document_(json::parse(text)) {
    valijson::SchemaParser parser;
    parser.populateSchema(Adapter(document_), schema_);
  }
  const json& document() const { return document_; }
  bool allows(const json& value) const {
    return valijson::Validator().validate(schema_, Adapter(value), nullptr);
  }
  valijson::ValidationResults violations(const json& value) const {
    valijson::ValidationResults found;
    valijson::Validator().validate(schema_, Adapter(value), &found);
    return found;
  }

 private:
  json document_;
  valijson::Schema schema_;
};

/// A regular expression, which the validator makes anew in each check, writes what it meets first into a table
/// of the locale, without a lock.  Once all is there, threads only read it.
bool fill_tables_of_locale() {
  const auto& characters = std::use_facet<std::ctype<char>>(std::locale());
  for (int c = 1; c <= std::numeric_limits<unsigned char>::max(); ++c)
    characters.narrow(static_cast<char>(c), '\0');
  return true;
}

/// Made when it is first asked for.
const CompiledSchema& compiled(std::string_view name) {
  [[maybe_unused]] static const bool filled = fill_tables_of_locale();
  static std::mutex mutex;
  static auto* all = new std::map<std::string, CompiledSchema, std::less<>>;
  const std::scoped_lock lock(mutex);
  const auto found = all->find(name);
  return found != all->end() ? found->second
                             : all->try_emplace(std::string(name), schema(name)).first->second;
}

std::string number(const json& value) {
  return value.is_number_float() ? fmt::format("{}", value.get<double>()) : value.dump();
}

std::string shown(const json& value) {
  if (value.is_string()) return "\"" + printable(value.get_ref<const std::string&>()) + "\"";
  if (value.is_object()) return value.empty() ? "an empty object" : "an object";
  if (value.is_array()) return value.empty() ? "an empty array" : fmt::format("an array of {}", value.size());
  if (value.is_number_float() && std::trunc(value.get<double>()) == value.get<double>())
    return fmt::format("{} (written with a fraction or exponent, or beyond 64 bits)", number(value));
  if (value.is_number()) return number(value);
  return value.dump();
}

/// Finds violations, `most` at most, by the keywords that the built-in schemas use.
class Explanation {
 public:
  Explanation(const json& root, std::size_t most) : root_(root), most_(most) {}

  std::vector<Violation> of(const json& document) {
    find(document, root_, Pointer());
    return std::move(found_);
  }

 private:
  void find(const json& value, const json& given_rule, const Pointer& place) {
    if (found_.size() >= most_) return;
    const json& rule = resolve(given_rule);
    if (const auto branches = rule.find("oneOf"); branches != rule.end()) {
      json objects = json::array();
      for (const json& branch : *branches) {
        const std::vector<std::string> types = types_of(resolve(branch));
        if (types.front() == "object")
          objects.push_back(branch);
        else if (has_a_type(value, types))
          return find(value, branch, place);
      }
      return in_branches(value, objects, place);
    }
    if (const json* fixed = get(rule, "const"); fixed != nullptr && value != *fixed)
      return add(place, fmt::format("expected {}, got {}", fixed->dump(), shown(value)));
    if (const json* choices = get(rule, "enum"); choices != nullptr && !contains(*choices, value))
      return add(place, not_among(value, strings(*choices)));
    if (!has_a_type(value, types_of(rule))) return expected(value, rule, place);
    if (value.is_number()) in_number(value, rule, place);
    if (value.is_string()) in_string(value, rule, place);
    if (value.is_array()) in_array(value, rule, place);
    if (value.is_object()) in_object(value, rule, place);
    if (const json* condition = get(rule, "if")) {
      const bool holds = std::ranges::all_of(condition->at("required"), [&](const json& key) {
        return value.is_object() && value.contains(key.get_ref<const std::string&>());
      });
      if (const json* then = get(rule, holds ? "then" : "else")) find(value, *then, place);
    }
  }

  void add(const Pointer& place, std::string problem) {
    if (found_.size() < most_) found_.push_back({place.to_string(), std::move(problem)});
  }

  static const json* get(const json& rule, const char* key) {
    const auto found = rule.find(key);
    return found == rule.end() ? nullptr : &*found;
  }

  const json& resolve(const json& rule) const {
    const json* reference = get(rule, "$ref");
    return reference == nullptr ? rule : root_.at(Pointer(reference->get<std::string>().substr(1)));
  }

  static bool contains(const json& list, const json& value) {
    return std::find(list.begin(), list.end(), value) != list.end();
  }

  static std::vector<std::string> strings(const json& list) {
    std::vector<std::string> all;
    for (const json& each : list) all.push_back(each.get<std::string>());
    return all;
  }

  static std::vector<std::string> keys(const json& object) {
    std::vector<std::string> all;
    for (const auto& [key, value] : object.items()) all.push_back(key);
    return all;
  }

  /// One or several that a value may have; {""}: any.
  static std::vector<std::string> types_of(const json& rule) {
    const json* types = get(rule, "type");
    if (types == nullptr) return {""};
    return types->is_array() ? strings(*types) : std::vector{types->get<std::string>()};
  }

  static bool has_a_type(const json& value, const std::vector<std::string>& types) {
    return std::ranges::any_of(types, [&](const std::string& type) { return has_type(value, type); });
  }

  static bool has_type(const json& value, const std::string& type) {
    if (type == "object") return value.is_object();
    if (type == "array") return value.is_array();
    if (type == "string") return value.is_string();
    if (type == "boolean") return value.is_boolean();
    if (type == "integer") return value.is_number_integer();
    if (type == "number") return value.is_number();
    if (type == "null") return value.is_null();
    return true;
  }

  static std::string not_among(const json& value, const std::vector<std::string>& choices) {
    const std::string hint =
        value.is_string() ? did_you_mean(value.get_ref<const std::string&>(), choices) : "";
    return fmt::format("expected one of {}, got {}{}", list_names(choices), shown(value), hint);
  }

  static std::string bounds(const json& rule) {
    std::string text;
    const auto add = [&](const char* key, const char* sign) {
      if (const json* bound = get(rule, key))
        text += fmt::format("{} {} {}", text.empty() ? "" : " and", sign, number(*bound));
    };
    add("minimum", ">=");
    add("exclusiveMinimum", ">");
    add("maximum", "<=");
    add("exclusiveMaximum", "<");
    return text;
  }

  void expected(const json& value, const json& rule, const Pointer& place) {
    const std::vector<std::string> types = types_of(rule);
    const std::string& type = types.front();
    const char* article = type == "integer" || type == "object" || type == "array" ? "an" : "a";
    std::string got = shown(value);
    if (type == "number" && value.is_number()) got = number(value);
    add(place, fmt::format("expected {} {}{}, got {}{}", article, fmt::join(types, " or "), bounds(rule), got,
                           value.is_number() ? unit_of(place) : ""));
  }

  /// " Hz", as the key of a described value says; empty: it says none.
  static const char* unit_of(const Pointer& place) {
    const std::string key = place.empty() ? "" : place.back() == "value" ? place.parent_pointer().to_string() : "";
    if (key.ends_with("_hz")) return " Hz";
    if (key.ends_with("_bytes_per_second")) return " bytes a second";
    if (key.ends_with("_bytes")) return " bytes";
    return key.ends_with("_ns") ? " ns" : "";
  }

  void in_number(const json& value, const json& rule, const Pointer& place) {
    const double number = value.get<double>();
    const auto bound = [&](const char* key, double otherwise) { return rule.value(key, otherwise); };
    if (number < bound("minimum", number) || number > bound("maximum", number) ||
        number <= bound("exclusiveMinimum", -HUGE_VAL) || number >= bound("exclusiveMaximum", HUGE_VAL))
      expected(value, rule, place);
  }

  void in_string(const json& value, const json& rule, const Pointer& place) {
    const auto& text = value.get_ref<const std::string&>();
    if (text.size() < rule.value("minLength", std::size_t{0}))
      return add(place, text.empty() ? "expected a text, got an empty one"
                                           : fmt::format("expected a text of {} characters or more, got {}",
                                                         rule["minLength"].get<std::size_t>(), shown(value)));
    // Before the pattern: std::regex takes stack by the character.
    if (const std::size_t most = rule.value("maxLength", text.size()); text.size() > most)
      return add(place, fmt::format("expected a text of at most {} characters, got {}", most, text.size()));
    if (const json* pattern = get(rule, "pattern");
        pattern != nullptr && !std::regex_search(text, std::regex(pattern->get<std::string>()))) {
      const json* examples = get(rule, "examples");
      return add(
          place, fmt::format("expected something like {}, got {}",
                             examples == nullptr ? pattern->dump() : examples->front().dump(), shown(value)));
    }
  }

  void in_array(const json& value, const json& rule, const Pointer& place) {
    const auto least = rule.value("minItems", std::size_t{0}), most = rule.value("maxItems", value.size());
    if (value.size() < least || value.size() > most) {
      const std::string count = least == most         ? std::to_string(least)
                                : value.size() > most ? fmt::format("at most {}", most)
                                                      : fmt::format("at least {}", least);
      return add(place, fmt::format("expected an array of {}, got {}", count, shown(value)));
    }
    if (const json* items = get(rule, "items"))
      for (std::size_t i = 0; i < value.size(); ++i) {
        if (items->is_array() && i >= items->size()) break;
        find(value[i], items->is_array() ? (*items)[i] : *items, place / i);
      }
    if (rule.value("uniqueItems", false))
      for (std::size_t i = 0; i < value.size(); ++i)
        if (std::find(value.begin(), value.begin() + static_cast<std::ptrdiff_t>(i), value[i]) !=
            value.begin() + static_cast<std::ptrdiff_t>(i))
          return add(place / i, fmt::format("{} stands there twice", shown(value[i])));
  }

  void in_object(const json& value, const json& rule, const Pointer& place) {
    static const json none = json::object();
    const json* listed = get(rule, "properties");
    const json& properties = listed == nullptr ? none : *listed;
    // Unknown keys first: a misspelt key is also a missing one, and the spelling is the real cause.
    for (const auto& [key, member] : value.items())
      if (rule_of(key, rule, properties) == nullptr) {
        const std::string meant = hint(key, rule, properties);
        misspelt_[place.to_string()] += meant;
        add(place / key, fmt::format("unknown key {}{}", in_quotes(key), meant));
      }
    if (const json* required = get(rule, "required"))
      for (const json& key : *required)
        if (const std::string name = in_quotes(key.get_ref<const std::string&>());
            !value.contains(key.get_ref<const std::string&>()) && !is_misspelt(place, name))
          add(place, fmt::format("missing key {}", name));
    for (const auto& [key, member] : value.items())
      if (const json* member_rule = rule_of(key, rule, properties)) find(member, *member_rule, place / key);
  }

  /// Whether an unknown key of the object may have been meant for this one, whose absence is then no news.
  bool is_misspelt(const Pointer& place, const std::string& quoted) const {
    const auto hints = misspelt_.find(place.to_string());
    return hints != misspelt_.end() && hints->second.find("mean " + quoted) != std::string::npos;
  }

  static std::string hint(const std::string& key, const json& rule, const json& properties) {
    const std::vector<std::string> known = keys(properties);
    if (const std::string meant = did_you_mean(key, known); !meant.empty()) return meant;
    if (!known.empty()) return fmt::format("; known are {}", list_names(known, 24));
    const json* patterns = get(rule, "patternProperties");
    return patterns == nullptr ? "" : fmt::format("; keys must match {}", patterns->begin().key());
  }

  /// What the value of this key must satisfy; null if there may be no such key.
  static const json* rule_of(const std::string& key, const json& rule, const json& properties) {
    static const json anything = json::object();
    if (const auto found = properties.find(key); found != properties.end()) return &*found;
    if (const json* patterns = get(rule, "patternProperties"))
      for (const auto& [pattern, pattern_rule] : patterns->items())
        if (std::regex_search(key, std::regex(pattern))) return &pattern_rule;
    const json* others = get(rule, "additionalProperties");
    if (others == nullptr) return &anything;
    if (others->is_boolean()) return others->get<bool>() ? &anything : nullptr;
    return others;
  }

  /// All branches are objects.  Either one key (`type`) has another constant in each, or each requires a key
  /// that the others do not have: that tells which branch was meant.
  void in_branches(const json& value, const json& branches, const Pointer& place) {
    if (!value.is_object()) return add(place, fmt::format("expected an object, got {}", shown(value)));
    std::string tag;
    std::vector<std::string> tag_values, tag_keys;
    for (const json& given_branch : branches) {
      const json& branch = resolve(given_branch);
      const auto& first = branch.at("required").front().get_ref<const std::string&>();
      tag_keys.push_back(first);
      if (const json* fixed = get(branch.at("properties").at(first), "const");
          fixed != nullptr && fixed->is_string()) {
        tag = first;
        tag_values.push_back(fixed->get<std::string>());
      }
    }
    if (!tag.empty()) {
      const auto given = value.find(tag);
      if (given == value.end()) {
        for (const auto& [key, member] : value.items())
          if (const auto meant = did_you_mean(key, std::vector{tag}); !meant.empty())
            return add(place / key, fmt::format("unknown key {}{}", in_quotes(key), meant));
        return add(place,
                         fmt::format("missing key {} (one of {})", in_quotes(tag), list_names(tag_values)));
      }
      for (std::size_t i = 0; i < branches.size(); ++i)
        if (*given == tag_values[i]) return find(value, branches[i], place);
      return add(place / tag, not_among(*given, tag_values));
    }
    std::vector<std::size_t> present;
    for (std::size_t i = 0; i < branches.size(); ++i)
      if (value.contains(tag_keys[i])) present.push_back(i);
    if (present.size() == 1) return find(value, branches[present[0]], place);
    if (present.empty())
      for (const auto& [key, member] : value.items())
        if (const auto meant = did_you_mean(key, tag_keys); !meant.empty())
          return add(place / key, fmt::format("unknown key {}{}", in_quotes(key), meant));
    return add(place,
                     fmt::format("expected exactly one of the keys {}; got {}", list_names(tag_keys),
                                 present.empty() ? "none" : fmt::format("{} of them", present.size())));
  }

  const json& root_;
  const std::size_t most_;
  std::vector<Violation> found_;
  std::map<std::string, std::string> misspelt_;  // by object: what its unknown keys may have meant
};

/// Only for a keyword that Explanation does not know: valijson's own words for the deepest place.
Violation deepest(const valijson::ValidationResults& results) {
  const valijson::ValidationResults::Error* deep = nullptr;
  for (const auto& error : results)
    if (deep == nullptr || error.context.size() > deep->context.size()) deep = &error;
  Pointer place;
  for (std::size_t i = 1; i < deep->context.size(); ++i) {  // "<root>", "[kernels]", "[3]", ...
    const std::string& step = deep->context[i];
    place /= step.substr(1, step.size() - 2);
  }
  return {place.to_string(), deep->description};
}

}  // namespace

std::vector<Violation> violations(const json& document, std::string_view schema_name, std::size_t most) {
  const CompiledSchema& rules = compiled(schema_name);
  if (rules.allows(document)) return {};
  std::vector<Violation> found = Explanation(rules.document(), most).of(document);
  if (found.empty()) found.push_back(deepest(rules.violations(document)));
  return found;
}

std::string how_to_see_the_schema(std::string_view name) {
  return fmt::format("`sim schema {}` prints what is allowed, key by key", name);
}

void check_schema(const json& document, std::string_view schema_name, const std::string& file) {
  const std::vector<Violation> found = violations(document, schema_name, 1);
  if (!found.empty())
    throw InputError(file, printable(found.front().place, 300), found.front().problem,
                     how_to_see_the_schema(schema_name));
}

}  // namespace corun
