// The device memory that a program holds after each of its ops, in the order of the file: what is allocated twice, and what
// is freed or used without being there, is refused.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "traces/json/parse.h"
#include "traces/json/spelling.h"
#include "traces/json/trace_file.h"

namespace corun::reading {

class ProgramBuffers {
 public:
  explicit ProgramBuffers(const TraceFile& file) : file_(file) {}

  std::uint32_t allocate(const std::string& name, const std::string& place) {
    const auto [known, is_new] = index_.try_emplace(name, static_cast<std::uint32_t>(names_.size()));
    if (is_new) names_.push_back(name);
    if (!held_.insert(name).second)
      fail(file_, place, fmt::format("{} is allocated already", in_quotes(name)),
           "free it first, or give this allocation a name of its own");
    return known->second;
  }
  std::uint32_t free(const std::string& name, const std::string& place) {
    const std::uint32_t buffer = held(name, place);
    held_.erase(name);
    return buffer;
  }
  std::vector<std::uint32_t> used(const json& list, const std::string& place) const {
    std::vector<std::uint32_t> all;
    for (std::size_t i = 0; i < list.size(); ++i)
      all.push_back(held(list[i].get<std::string>(), fmt::format("{}/{}", place, i)));
    return all;
  }
  std::vector<std::string> names() const { return names_; }

 private:
  std::uint32_t held(const std::string& name, const std::string& place) const {
    if (held_.contains(name)) return index_.find(name)->second;
    const std::vector<std::string> names(held_.begin(), held_.end());
    fail(file_, place, fmt::format("{} is not allocated here{}", in_quotes(name), did_you_mean(name, names)),
         names.empty() ? "allocate it in an earlier op"
                       : fmt::format("use one of {}, or allocate it in an earlier op", list_names(names)));
  }

  const TraceFile& file_;
  Names index_;
  std::set<std::string> held_;
  std::vector<std::string> names_;
};

}  // namespace corun::reading
