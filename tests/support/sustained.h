// Times alone of networks that lower the clock: what was measured in a row for 0.2 s is over before the dips of a
// sustained load begin, which the limit in a description includes.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "traces/json/input_file.h"
#include "traces/json/parse.h"

namespace corun {

/// ms of a request in the last 0.9 s of 1.2 s in a row, of networks whose clock fell below 1,900 MHz there:
/// clocks.json.gz in `folder`.
inline std::map<std::string, double> sustained_ms(const std::string& folder) {
  const std::string file = folder + "/clocks.json.gz";
  const nlohmann::json clocks = parse_json(*open_input(file), file);
  std::map<std::string, double> found;
  for (const auto& [name, run] : clocks["runs"].items()) {
    if (run["samples"].back()[1] >= 1900) continue;
    double sum = 0;
    std::size_t requests = 0;
    for (auto ms = run["ms"].rbegin(); ms != run["ms"].rend() && sum < 900; ++ms, ++requests)
      sum += ms->get<double>();
    found[name] = sum / static_cast<double>(requests);
  }
  return found;
}

}  // namespace corun
