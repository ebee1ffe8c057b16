#include "hw/shim/graphs.h"

#include "hw/shim/driver.h"

namespace corun::live {

Graphs& graphs() {
  return os::of_process<Graphs>();
}

void Graphs::captured(CUgraph graph, const Tpcs& tpcs) {
  const std::scoped_lock lock(mutex_);
  of_graph_[graph] = tpcs;
}

void Graphs::made(CUgraphExec made, CUgraph from) {
  static const auto nodes_of = driver<CUresult (*)(CUgraph, CUgraphNode*, std::size_t*)>("cuGraphGetNodes");
  std::size_t nodes = 1;
  if (nodes_of == nullptr || nodes_of(from, nullptr, &nodes) != CUDA_SUCCESS) nodes = 1;
  const std::scoped_lock lock(mutex_);
  const auto at = of_graph_.find(from);
  of_made_[made] = {at != of_graph_.end() ? at->second : kAllTpcs, static_cast<unsigned>(nodes)};
}

void Graphs::destroyed(CUgraph graph) {
  const std::scoped_lock lock(mutex_);
  of_graph_.erase(graph);
}
void Graphs::destroyed(CUgraphExec graph) {
  const std::scoped_lock lock(mutex_);
  of_made_.erase(graph);
}

bool Graphs::runs_on(CUgraphExec graph, const Tpcs& tpcs) {
  const std::scoped_lock lock(mutex_);
  const auto at = of_made_.find(graph);
  return (at != of_made_.end() ? at->second.tpcs : kAllTpcs) == tpcs;
}

unsigned Graphs::nodes(CUgraphExec graph) {
  const std::scoped_lock lock(mutex_);
  const auto at = of_made_.find(graph);
  return at != of_made_.end() ? at->second.nodes : 1;
}

}  // namespace corun::live
