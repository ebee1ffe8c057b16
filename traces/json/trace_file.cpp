#include "traces/json/trace_file.h"

#include <fmt/format.h>

#include <utility>

#include "traces/json/spelling.h"
#include "traces/model/error.h"

namespace corun::reading {
namespace {

std::vector<std::string> spellings(const Names& names) {
  std::vector<std::string> all;
  for (const auto& [name, index] : names) all.push_back(name);
  return all;
}

}  // namespace

void fail(const TraceFile& file, std::string place, std::string problem, std::string remedy) {
  throw InputError(file.name, std::move(place), std::move(problem), std::move(remedy));
}

void fail_unknown(const TraceFile& file, std::string place, const char* what, const std::string& name,
                  const Names& known) {
  const std::vector<std::string> names = spellings(known);
  fail(file, std::move(place),
       fmt::format("unknown {} {}{}", what, in_quotes(name), did_you_mean(name, names)),
       names.empty() ? fmt::format("define a {} of that name", what)
                     : fmt::format("use one of {}, or define a {} of that name", list_names(names), what));
}

const json* find(const json& object, const char* key) {
  const auto member = object.find(key);
  return member == object.end() ? nullptr : &*member;
}

const json& members(const json& object, const char* key) {
  static const json none = json::array();
  const json* list = find(object, key);
  return list == nullptr ? none : *list;
}

Time time(const json& ns) {
  return ns.is_number_integer() ? Time{ns.get<std::int64_t>() * 1000} : from_ns(ns.get<double>());
}

Time time(const json& object, const char* key, Time otherwise) {
  const json* ns = find(object, key);
  return ns == nullptr ? otherwise : time(*ns);
}

std::optional<Time> optional_time(const json& object, const char* key) {
  const json* ns = find(object, key);
  return ns == nullptr ? std::nullopt : std::optional(time(*ns));
}

std::optional<double> optional_number(const json& object, const char* key) {
  const json* number = find(object, key);
  return number == nullptr ? std::nullopt : std::optional(number->get<double>());
}

}  // namespace corun::reading
