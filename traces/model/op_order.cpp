#include "traces/model/op_order.h"

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/depth_first_search.hpp>
#include <optional>
#include <set>

namespace corun {
namespace {

using Graph =
    boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS>;  // edge: op -> what it waits for
using Vertex = boost::graph_traits<Graph>::vertex_descriptor;

/// Another request: nothing of it follows what stands before in the program.
bool begins_part(const Program& program, std::size_t op) {
  return std::binary_search(program.parts.begin(), program.parts.end(), OpId{static_cast<std::uint32_t>(op)});
}

Graph dependencies(const Program& program) {
  Graph graph(program.ops.size());
  std::vector<std::optional<Vertex>> last_in_stream(program.streams.size());
  std::vector<Vertex> since_sync;
  std::optional<Vertex> last_sync;
  for (Vertex op = 0; op < program.ops.size(); ++op) {
    const Op& o = program.ops[op];
    if (begins_part(program, op)) {
      last_in_stream.assign(program.streams.size(), std::nullopt);
      since_sync.clear();
      last_sync.reset();
    }
    if (is_host_call(o)) {
      for (Vertex earlier : since_sync) add_edge(op, earlier, graph);
      since_sync.clear();
      if (last_sync) add_edge(op, *last_sync, graph);
      last_sync = op;
      continue;
    }
    auto& last = last_in_stream[o.stream.value];
    if (last) add_edge(op, *last, graph);
    if (last_sync) add_edge(op, *last_sync, graph);
    last = op;
    since_sync.push_back(op);
    for (OpId after : o.after) add_edge(op, after.value, graph);
  }
  return graph;
}

struct FoundCycle {};

/// Keeps the path of the search, so that a back edge shows the whole cycle.
class CycleFinder : public boost::default_dfs_visitor {
 public:
  CycleFinder(std::vector<Vertex>& path, std::vector<OpId>& cycle) : path_(path), cycle_(cycle) {}
  void discover_vertex(Vertex v, const Graph&) { path_.push_back(v); }
  void finish_vertex(Vertex, const Graph&) { path_.pop_back(); }
  void back_edge(const Graph::edge_descriptor& edge, const Graph& graph) {
    for (auto v = std::find(path_.begin(), path_.end(), target(edge, graph)); v != path_.end(); ++v)
      cycle_.push_back(OpId{static_cast<std::uint32_t>(*v)});
    throw FoundCycle{};
  }

 private:
  std::vector<Vertex>& path_;
  std::vector<OpId>& cycle_;
};

}  // namespace

OpOrder::Lists::Lists(const std::vector<std::vector<OpId>>& by_op) {
  begins_.push_back(0);
  for (const std::vector<OpId>& ops : by_op) {
    all_.insert(all_.end(), ops.begin(), ops.end());
    begins_.push_back(static_cast<std::uint32_t>(all_.size()));
  }
}

OpOrder::OpOrder(const Program& program) {
  std::vector<std::vector<OpId>> follows(program.ops.size()), predecessors = follows, successors = follows;
  std::vector<std::optional<OpId>> last_in_stream(program.streams.size());
  for (std::uint32_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    if (begins_part(program, i)) last_in_stream.assign(program.streams.size(), std::nullopt);
    if (is_host_call(op)) continue;
    for (OpId other :
         std::set<OpId>(op.after.begin(), op.after.end()))  // an earlier one of its stream it follows anyway
      if (!is_host_call(program.ops[other.value]) &&  // what the host waits for has ended before the next call
          (program.ops[other.value].stream != op.stream || other.value >= i))
        follows[i].push_back(other);
    predecessors[i] = follows[i];
    auto& before = last_in_stream[op.stream.value];
    if (before) predecessors[i].push_back(*before);
    before = OpId{i};
    for (OpId other : predecessors[i]) successors[other.value].push_back(OpId{i});
  }
  follows_ = Lists(follows), predecessors_ = Lists(predecessors), successors_ = Lists(successors);
  const Graph graph = dependencies(program);
  std::vector<Vertex> path;
  try {
    boost::depth_first_search(graph, boost::visitor(CycleFinder(path, cycle_)));
  } catch (const FoundCycle&) {  // the search has no other way to stop early
    return;
  }
  std::vector<std::uint32_t> waits_for(program.ops.size());
  Graph dependents(program.ops.size());
  for (auto [edge, last] = edges(graph); edge != last; ++edge) {
    add_edge(target(*edge, graph), source(*edge, graph), dependents);
    ++waits_for[source(*edge, graph)];
  }
  std::set<Vertex> ready;
  for (Vertex op = 0; op < waits_for.size(); ++op)
    if (waits_for[op] == 0) ready.insert(op);
  while (!ready.empty()) {
    const Vertex op = ready.extract(ready.begin()).value();
    issue_order_.push_back(OpId{static_cast<std::uint32_t>(op)});
    for (auto [next, last] = adjacent_vertices(op, dependents); next != last; ++next)
      if (--waits_for[*next] == 0) ready.insert(*next);
  }
}

}  // namespace corun
