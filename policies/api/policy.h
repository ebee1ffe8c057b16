// The policy interface: a pure decider.  It owns no clock, stream, event queue or CUDA type, and its
// decisions depend on nothing but the Snapshots it has been shown, so that the same object drives the
// simulator and a GPU.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "policies/api/decision.h"
#include "policies/api/forecast.h"
#include "policies/api/snapshot.h"
#include "policies/api/topology.h"

namespace corun {

/// Which clients share a hardware context.  one: all of them, as under MPS or as streams of one process.
/// per_process: each process (Client::process) has its own, and the GPU gives contexts turns.
enum class Contexts : std::uint8_t { one, per_process };

/// A part of a GPU that is divided before the start, as by MIG: what runs there shares nothing with the rest.
struct Instance {
  std::string profile;               // the GPU's name for it: "3g.71gb"
  std::string policy;                // which shares it: "name:key=value"
  std::vector<std::string> clients;  // by name
};

/// What must be there before the run: else the session, or the backend, throws InputError when it is made.  A
/// backend may prepare for what is required only, and refuse other decisions.
struct Requirements {
  CapabilitySet capabilities;
  Contexts contexts = Contexts::one;
  bool profiles = false;  // Snapshot::profiles must be there
  bool memory = false;    // allocations wait for Allocate; else they are granted, or fail, by themselves
  bool deferred_memory = false;  // besides: an allocation call returns at once, and what uses it waits
  bool forecast = false;         // look_ahead() must be called
  bool kernels = false;          // graphs are to be shown kernel by kernel also where nothing else needs that
  bool whole_graphs = false;     // not even where something else does, as under a service
  /// Of MPS with one context, by client, the last for all beyond: above 0, to 100.  Empty: not MPS.
  std::vector<double> thread_percentages{};
  /// Not empty: each has a policy of its own, and this one is asked nothing.
  std::vector<Instance> instances{};
  /// By client, false for all beyond: its host stays in the call of a launch until that is decided.
  std::vector<bool> waiting_hosts{};

  /// Graphs are shown and launched kernel by kernel, where the backend can take them apart: a whole graph is not stopped, sized or
  /// padded, has no profile, and a forecast does not know it.
  bool sees_kernels() const;
};

inline bool Requirements::sees_kernels() const {
  const CapabilitySet of_graphs{Capability::order, Capability::priority, Capability::tpc_mask, Capability::time_slice,
                                Capability::memory_swap};
  return !whole_graphs && (kernels || profiles || forecast || !capabilities.without(of_graphs).empty());
}

class Policy {
 public:
  virtual ~Policy() = default;

  virtual std::string_view name() const = 0;
  virtual Requirements requirements() const = 0;

  /// Called once, before the first decide.  Throws InputError when a parameter does not fit these clients.
  /// The arguments are valid during the call, what ClientView::client points to until the run is over.
  virtual void start(const Topology&, std::span<const ClientView>) {}

  /// Called once, before start(), where the requirements say `forecast`.  It outlives the run.
  virtual void look_ahead(Forecast&) {}

  /// Appends decisions, in the order in which they are to be applied.  A pending launch that is not launched
  /// now stays pending.  Must not assume that an earlier decision was applied: the Snapshot tells, which is
  /// valid during the call.  What this throws ends the run.
  virtual void decide(const Snapshot&, std::vector<Decision>&) = 0;
};

}  // namespace corun
