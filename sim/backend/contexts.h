// The contexts of the GPU: each with its host channels and its compute engine, and whose turn it is.  Clients
// share one, or each process has its own; under MPS they share one and keep channels of their own.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "policies/api/policy.h"
#include "sim/stages/compute_engine.h"
#include "sim/stages/host.h"
#include "sim/stages/time_slicer.h"
#include "traces/model/expects.h"
#include "traces/model/gpu.h"
#include "traces/model/trace.h"
#include "traces/timeline/timeline.h"

namespace corun::sim {

struct Context {
  std::unique_ptr<Host> host;
  std::unique_ptr<ComputeEngine> engine;
  std::vector<Time> looked_at;  // by channel: when the latest event for it is due
  Time paused_at{};
  Time turn_began{};
};

/// Where a client's stream is, and whether its launches are read ahead.
struct StreamPlace {
  std::uint32_t context, stream;
  bool ahead;  // one call for a request and no copy in it: the front end reads them ahead
};

class GpuContexts {
 public:
  /// The references must outlive it.
  GpuContexts(const Trace& trace, const Gpu& gpu, const Requirements& needed, Timeline& timeline,
           EngineOptions options);

  std::size_t size() const { return all_.size(); }
  Context& operator[](std::uint32_t context) { return all_[context]; }
  const Context& operator[](std::uint32_t context) const { return all_[context]; }
  auto begin() { return all_.begin(); }
  auto end() { return all_.end(); }
  auto begin() const { return all_.begin(); }
  auto end() const { return all_.end(); }

  const StreamPlace& place(ClientId client, StreamId stream) const {
    CORUN_EXPECTS_SLOW(client.value < places_.size() && stream.value < places_[client.value].size());
    return places_[client.value][stream.value];
  }
  std::size_t streams_of(std::size_t client) const {
    CORUN_EXPECTS(client < places_.size());
    return places_[client].size();
  }

  /// The one that has the SMs, none during a switch.
  std::optional<std::uint32_t> active() const { return slicer_.active(); }
  std::uint32_t current() const { return slicer_.current(); }
  /// When turns are to be looked at next.
  Time next_time(Time now) const { return slicer_.next_time(now); }
  /// While others wait, a context that has read all it was given reads no more in this turn.  True: the
  /// current one reads on, so that its channels may go on.
  bool reads_on(Time now);
  /// The current one loses the SMs, if its turn is over or it has nothing to do.
  void switch_if_due(Time now);
  /// The switch is over.  True: the current one has the SMs from now on.
  bool begin_turn_if_due(Time now);

  /// Writes what is still under way to the timeline.
  void close(Time now);

 private:
  bool has_work(std::uint32_t context, Time now) const;
  bool others_have_work(Time now) const;

  const Gpu& gpu_;
  Timeline& timeline_;
  std::vector<Context> all_;
  std::vector<std::vector<StreamPlace>> places_;  // by client, stream
  TimeSlicer slicer_;
};

}  // namespace corun::sim
