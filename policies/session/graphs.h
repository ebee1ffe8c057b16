// The graphs of a trace, as a session hands them over: each is what one call of the host launches (cudaGraphLaunch), known by its
// first operation and their number.  A server's steps begin and end where its batch says, so that a graph is made when it
// is first called.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "traces/model/kernel.h"
#include "traces/model/op_order.h"
#include "traces/model/trace.h"

namespace corun {

struct Graph {
  std::span<const OpId> ops;      // in the order of the calls
  OpId leader;                    // its first kernel
  std::vector<StreamId> streams;  // the leader's first
  std::vector<OpId> before;       // operations outside that one of it follows directly, once for each that does
  std::vector<OpId> after;        // the same of those that follow it
  std::vector<OpId> events;       // operations outside whose end the GPU itself waits for
  bool has_events = false;        // one of it waits for another of another stream, or for one outside
  Kernel kernel;                  // as a policy sees it
};

class Graphs {
 public:
  /// `ops`: one or more of the program's, of which one is a launch.  Valid as long as this and the program.
  const Graph& of(ProgramId number, const Program& program, const OpOrder& order, std::span<const OpId> ops) {
    const auto [found, added] = all_.try_emplace({number.value, ops.front().value, ops.size()});
    if (added) make(program, order, ops, found->second);
    return found->second;
  }

 private:
  static void make(const Program& program, const OpOrder& order, std::span<const OpId> ops, Graph& graph) {
    graph.ops = ops;
    const std::vector<OpId> inside = [&] {
      std::vector<OpId> sorted(ops.begin(), ops.end());
      std::ranges::sort(sorted);
      return sorted;
    }();
    const auto outside = [&](std::span<const OpId> of, std::vector<OpId>& to) {
      for (const OpId op : of)
        if (!std::ranges::binary_search(inside, op)) to.push_back(op);
    };
    const auto launches = [&](OpId op) { return std::holds_alternative<Launch>(program.ops[op.value].what); };
    graph.leader = *std::ranges::find_if(ops, launches);
    graph.streams.push_back(program.ops[graph.leader.value].stream);
    for (const OpId op : ops) {
      if (const StreamId stream = program.ops[op.value].stream; std::ranges::find(graph.streams, stream) == graph.streams.end())
        graph.streams.push_back(stream);
      outside(order.predecessors(op), graph.before);
      outside(order.successors(op), graph.after);
      outside(order.follows(op), graph.events);
      graph.has_events |= !order.follows(op).empty();
    }
    graph.kernel.name = "graph";
    graph.kernel.block = {1, 1, 1};
    graph.kernel.grid = {static_cast<std::uint32_t>(std::ranges::count_if(ops, launches)), 1, 1};
  }

  std::map<std::tuple<std::uint32_t, std::uint32_t, std::size_t>, Graph> all_;
};

}  // namespace corun
