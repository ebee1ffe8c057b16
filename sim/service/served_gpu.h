// The GPU as programs under `sim serve` reach it, before the simulated one.
//
// A best-effort launch is with the driver when it is granted, behind a wait of its stream on the GPU.  So it begins sooner after
// its grant than another launch after its call, also where a request has begun since, but later after what is before it in its stream.
//
// The attempts that a persistent launch has left find nothing to do when its blocks are done.  Only then is its end known, and
// does what is behind it in its stream begin.
#pragma once

#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "policies/api/backend.h"
#include "sim/service/served_launches.h"
#include "traces/model/trace.h"

namespace corun::sim {

class ServedGpu final : public Backend {
 public:
  /// An attempt that finds nothing to do takes so long (experiments/h100/ptx).
  static constexpr Time kEmptyAttempt = std::chrono::microseconds(15);
  /// The launch that is about to go reaches the GPU then, and its stream has a wait before it.
  using LetReach = std::function<void(const LaunchView&, Time at, Time wait)>;

  /// `waits`: whether a grant and a wait on the GPU take time, as they do; tests of the rest have none.
  ServedGpu(Backend& gpu, const Trace& trace, const ServedLaunches& launches, LetReach let_reach, bool waits = true);

  const Topology& topology() const override { return gpu_.topology(); }
  Time now() const override { return gpu_.now(); }
  void start() override { gpu_.start(); }
  void close() override { gpu_.close(); }
  void wait(Time until, std::vector<Notice>& notices) override;
  Outcome apply(const Decision& decision, const LaunchView& launch, std::span<const LaunchId> follows) override;
  bool takes_graphs() const override { return gpu_.takes_graphs(); }
  Outcome graph(const decide::Launch& decision, const LaunchView& graph, std::span<const GraphNode> nodes) override;
  bool node_ended(LaunchId node) const override { return gpu_.node_ended(node); }
  void freed(BufferId buffer) override { gpu_.freed(buffer); }
  Outcome copy(const LaunchView& copy, std::span<const LaunchId> follows) override { return gpu_.copy(copy, follows); }

 private:
  struct Late {  // its blocks are done
    LaunchId launch;
    Time ends;
  };
  struct Reaches {
    Time at, wait;
  };
  Reaches reaches(const LaunchView& l);
  const Late* late(LaunchId id) const;

  Backend& gpu_;
  const Trace& trace_;
  const ServedLaunches& launches_;
  LetReach let_reach_;
  Time sooner_, wait_;
  std::map<std::pair<ClientId, StreamId>, LaunchId> last_;  // of each stream of those whose launches are queued ahead
  std::vector<Late> late_;
};

}  // namespace corun::sim
