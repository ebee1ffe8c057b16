// A Snapshot as `sim serve` has it: a graph is one launch.  Known of it are the number of its nodes and what
// it took the last times, from its grant to its end, beside others too (hw/live/books.h).
//
// Leaves out: that of other kernels, too, a service knows only what they took.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "policies/api/last_times.h"
#include "policies/api/snapshot.h"
#include "traces/model/trace.h"

namespace corun::sim {

class GraphsAsOne {
 public:
  explicit GraphsAsOne(const Trace& trace) : trace_(trace) {
    for (std::uint32_t c = 0; c < trace.clients.size(); ++c)
      for (const Op& op : program(c).ops)
        if (std::holds_alternative<Launch>(op.what)) ++kernels_[{c, op.graph}].grid.x;
    for (auto& [graph, kernel] : kernels_) {
      kernel.name = "graph";
      kernel.block = {1, 1, 1};
      --kernel.grid.x;  // a Dim3 is 1 from the start
    }
  }

  void went(const LaunchView& l, Time now) {
    if (l.kernel == nullptr || !in_graph(l)) return;
    going_.try_emplace(one(l), Going{now, 0});
    of_launch_.insert_or_assign(l.id.serial, one(l));
  }
  void ended(LaunchId id, Time now) {
    const auto of = of_launch_.find(id.serial);
    if (of == of_launch_.end()) return;
    const One graph = of->second;
    of_launch_.erase(of);
    Going& going = going_.at(graph);
    const std::pair<std::uint32_t, std::uint32_t> number{std::get<0>(graph), std::get<2>(graph)};
    if (++going.ended < kernels_.at(number).grid.x) return;
    took_[number].add(now - going.since);
    going_.erase(graph);
  }

  /// Until the next is asked for.
  Snapshot show(const Snapshot& now) {
    launches_.assign(now.launches.begin(), now.launches.end());
    shown_.clear();
    const auto of_all = [&](std::span<const LaunchId> ids, std::vector<LaunchId>& to) {
      to.clear();
      for (const LaunchId id : ids)
        if (first_of(now.launch(id)) == id) to.push_back(id);
    };
    of_all(now.running, running_);
    of_all(now.pending, pending_);
    streams_.assign(now.streams.begin(), now.streams.end());
    of_stream_.resize(streams_.size());
    for (std::size_t i = 0; i < streams_.size(); ++i) {
      of_all(streams_[i].pending, of_stream_[i]);
      streams_[i].pending = of_stream_[i];
    }
    Snapshot shown = now;
    shown.launches = launches_, shown.running = running_, shown.pending = pending_, shown.streams = streams_;
    return shown;
  }

 private:
  using One =
      std::tuple<std::uint32_t, std::uint64_t, std::uint32_t>;  // client, its request, number of the graph
  struct Going {
    Time since{};
    std::uint32_t ended = 0;
  };

  const Program& program(std::uint32_t client) const {
    return trace_.programs[trace_.clients[client].program.value];
  }
  bool in_graph(const LaunchView& l) const {
    return l.operation != nullptr && handed_over(trace_.clients[l.client.value], program(l.client.value),
                                                 l.op) != HandedOver::by_itself;
  }
  One one(const LaunchView& l) const { return {l.client.value, l.request, l.operation->graph}; }

  /// The launch that stands for its graph: itself, where it is in none.
  LaunchId first_of(const LaunchView& l) {
    if (l.kernel == nullptr || !in_graph(l)) return l.id;
    const auto [first, is_new] = shown_.try_emplace(one(l), l.id);
    if (!is_new) return first->second;
    LaunchView& graph = launches_[l.id.slot];
    const std::pair<std::uint32_t, std::uint32_t> number{l.client.value, l.operation->graph};
    const auto took = took_.find(number);
    graph.kernel = &kernels_.at(number);
    graph.solo_time = took == took_.end() ? Time{} : took->second.usual();
    if (const auto going = going_.find(one(l)); going != going_.end())
      graph.submitted_at = going->second.since;
    return l.id;
  }

  const Trace& trace_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Kernel> kernels_;  // by client and number
  std::map<std::pair<std::uint32_t, std::uint32_t>, LastTimes> took_;
  std::map<One, Going> going_;
  std::unordered_map<std::uint64_t, One> of_launch_;  // by serial
  std::map<One, LaunchId> shown_;
  std::vector<LaunchView> launches_;
  std::vector<LaunchId> running_, pending_;
  std::vector<StreamView> streams_;
  std::vector<std::vector<LaunchId>> of_stream_;
};

}  // namespace corun::sim
