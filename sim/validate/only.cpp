#include "sim/validate/only.h"

#include <fmt/format.h>

#include <algorithm>

#include "traces/json/spelling.h"
#include "traces/model/error.h"

namespace corun::sim {

void sort_only(const std::string& file, const std::vector<std::string>& only, const std::vector<Names>& kinds) {
  for (const std::string& name : only) {
    bool found = false;
    std::vector<std::string> all;
    for (const Names& kind : kinds) {
      for (const std::string& each : kind.known)
        if (std::ranges::find(all, each) == all.end()) all.push_back(each);
      if (found || std::ranges::find(kind.known, name) == kind.known.end()) continue;
      kind.wanted->push_back(name);
      found = true;
    }
    if (!found)
      throw InputError(file, "--only", fmt::format("nothing here is called {}{}", in_quotes(name), did_you_mean(name, all)),
                       all.empty() ? "there is nothing to choose from" : fmt::format("name some of {}", list_names(all, 40)));
  }
}

}  // namespace corun::sim
