#include "policies/api/registry.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <range/v3/range/conversion.hpp>
#include <range/v3/view/map.hpp>
#include <range/v3/view/transform.hpp>

#include "traces/model/error.h"

namespace corun {
namespace {

struct Entry {
  PolicyInfo info;
  Registered::Make make;
};

std::map<std::string, Entry, std::less<>>& entries() {
  static std::map<std::string, Entry, std::less<>>
      all;  // made on first use: the order of static constructors is open
  return all;
}

/// By its name or another that it goes by.
auto find(std::string_view name) {
  const auto found = entries().find(name);
  if (found != entries().end()) return found;
  return std::ranges::find_if(entries(), [&](const auto& entry) {
    const auto& also = entry.second.info.also_called;
    return std::ranges::find(also, name) != also.end();
  });
}

/// A number, or several: of a parameter whose name is not there.
bool is_value(std::string_view text) { return !text.empty() && text.find_first_not_of("0123456789./") == std::string_view::npos; }

}  // namespace

Registered::Registered(PolicyInfo info, Make make) {
  const std::string name = info.name;
  entries().emplace(name, Entry{std::move(info), make});
}

std::vector<PolicyInfo> policies() {
  return entries() | ranges::views::values | ranges::views::transform(&Entry::info) |
         ranges::to<std::vector>();
}

std::unique_ptr<Policy> make_policy(std::string_view spec) {
  const std::size_t colon = spec.find(':');
  const std::string_view name = spec.substr(0, colon);
  const auto found = find(name);
  if (found == entries().end()) {
    if (is_value(name))
      throw InputError("", "--policy", fmt::format("there is no policy '{}'", name), fmt::format("a comma begins another policy; a value for each client stands behind a slash, as in 50/{}", name));
    throw InputError("", "--policy", fmt::format("there is no policy '{}'", name),
                     fmt::format("use one of {}; --policy=help describes them",
                                 fmt::join(entries() | ranges::views::keys, ", ")));
  }
  const std::string_view parameters =
      colon == std::string_view::npos ? std::string_view{} : spec.substr(colon + 1);
  return found->second.make(Parameters(name, found->second.info.parameters, parameters));
}

Parameters::Parameters(std::string_view policy, const std::vector<Parameter>& known, std::string_view text)
    : policy_(policy) {
  std::vector<std::string_view> given;
  for (const Parameter& p : known) {
    values_.emplace_back(p.name, p.default_value);
    if (!p.rest) continue;
    const std::string key = p.name + "=";
    for (std::size_t at = text.find(key); at != std::string_view::npos; at = text.find(key, at + 1)) {
      if (at != 0 && text[at - 1] != ':' && text[at - 1] != ',') continue;
      values_.back().second = std::string(text.substr(at + key.size()));
      text = text.substr(0, at == 0 ? 0 : at - 1);
      break;
    }
  }
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    const std::string_view one = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    const std::size_t equals = one.find('=');
    const std::string_view key = one.substr(0, equals);
    const auto found =
        std::find_if(values_.begin(), values_.end(), [&](const auto& v) { return v.first == key; });
    if (found == values_.end() || equals == std::string_view::npos) {
      if (is_value(one) && !known.empty()) {
        throw InputError("", "--policy", fmt::format("policy {}: '{}' does not say of which parameter it is", policy, one),
                         given.empty() ? fmt::format("write {0}={1}, or a value for each client with slashes, as in {0}={1}/50", known.front().name, one)
                                       : fmt::format("a value for each client is written with slashes: {}={}/{}", given.back(), this->text(given.back()), one));
      }
      const auto names = known | ranges::views::transform(&Parameter::name);
      throw InputError("", "--policy", fmt::format("policy {} has no parameter '{}'", policy, one),
                       known.empty() ? "it has no parameters"
                                     : fmt::format("write key=value with one of {}", fmt::join(names, ", ")));
    }
    if (std::ranges::find(given, key) != given.end())
      throw InputError("", "--policy", fmt::format("policy {} is given {}= twice", policy, key), "leave one of them out");
    given.push_back(key);
    const std::string_view value = one.substr(equals + 1);
    for (const Parameter& p : known)
      if (const std::string wrong = ":" + p.name + "="; value.find(wrong) != std::string_view::npos)
        throw InputError("", "--policy", fmt::format("policy {}: a colon stands before {}= in '{}'", policy, p.name, one),
                         "separate parameters by commas, as in name:key=value,key=value");
    found->second = std::string(value);
  }
}

const std::string& Parameters::text(std::string_view key) const {
  return std::find_if(values_.begin(), values_.end(), [&](const auto& v) { return v.first == key; })->second;
}

double Parameters::number(std::string_view key, double least, double most) const {
  const std::string& value = text(key);
  double number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc{} || end != value.data() + value.size() || !(number >= least && number <= most))
    refuse(key, fmt::format("a number from {} to {}", least, most));
  return number;
}

const std::string& Parameters::choice(std::string_view key, const std::vector<std::string>& choices) const {
  const std::string& value = text(key);
  if (std::find(choices.begin(), choices.end(), value) == choices.end())
    refuse(key, fmt::format("one of {}", fmt::join(choices, ", ")));
  return value;
}

void Parameters::refuse(std::string_view key, const std::string& expected) const {
  throw InputError("", "--policy", fmt::format("{}:{}={} is not {}", policy_, key, text(key), expected),
                   "--policy=help describes the parameters");
}

}  // namespace corun
