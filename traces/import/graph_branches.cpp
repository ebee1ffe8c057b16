#include "traces/import/graph_branches.h"

#include <map>

namespace corun {

std::vector<std::vector<std::uint32_t>> order_of_branches(std::span<const GraphNode> nodes) {
  std::vector<std::vector<std::uint32_t>> after(nodes.size());
  std::map<std::uint32_t, std::vector<std::uint32_t>> so_far;  // by stream
  for (std::uint32_t i = 0; i < nodes.size(); ++i) {
    const auto& own = so_far[nodes[i].stream];
    const Time since = own.empty() ? Time::min() : nodes[own.back()].end;
    for (const auto& [stream, others] : so_far) {
      if (stream == nodes[i].stream) continue;
      auto last = others.rbegin();
      while (last != others.rend() && nodes[*last].end > nodes[i].start) ++last;
      if (last != others.rend() && nodes[*last].end > since) after[i].push_back(*last);
    }
    so_far[nodes[i].stream].push_back(i);
  }
  return after;
}

}  // namespace corun
