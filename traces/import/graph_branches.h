// What the launches of one CUDA graph waited for, as far as a recording shows it: a profiler tells streams and times of a graph's
// nodes, and not which node waits for which.
//
// Leaves out: what two nodes that happened to run one after the other do not need of each other.  They are taken to.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "traces/model/time.h"

namespace corun {

struct GraphNode {
  std::uint32_t stream = 0;
  Time start{}, end{};
};

/// By node, those of other streams that it comes after: of each other stream the last one that had ended when the node started,
/// if that ended later than what the node comes after in its own stream.  Beside each other run only nodes that did in the
/// recording.  `nodes`: in the order of their starts.
std::vector<std::vector<std::uint32_t>> order_of_branches(std::span<const GraphNode> nodes);

}  // namespace corun
