// What a policy sees of programs under `sim serve`, and what its decisions mean there (hw/live/books.h).  It stands between the
// session and the policy, which is the same object as anywhere.
//
// A graph is one launch: ready with its first kernel, launched as a whole, and over when its last kernel has ended.  Known of it are
// the number of its kernels and what it took the last times, from its grant to its end, beside others too.  Its first kernel's
// stream, operation and masks stand for all.
//
// A request begins with its first launch and ends when its host has what it waits for; so one of the trace in which the host waits
// meanwhile is several.  What the host does between two requests is time in which the client is not busy, also in a closed loop;
// nobody knows of requests that wait.
//
// Only launches that are persistent (PersistentLaunches) can be stopped on the GPU and have a size.
//
// A host stays in its call until the launch is granted, but a best-effort program's that the policy may stop, which runs ahead.
//
// Leaves out: that of other kernels, too, a service knows only what they took; copies behind a graph's last kernel; that a
// best-effort program's streams are shown as one; that a program which launches nothing for 100 us has ended a request.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "policies/api/last_times.h"
#include "policies/api/policy.h"
#include "sim/service/persistent_launches.h"
#include "traces/model/trace.h"

namespace corun::sim {

/// Whether the launch is part of a graph, which one call hands over.
bool in_graph(const Trace& trace, const LaunchView& launch);

/// What a snapshot points to.
struct Showing {
  std::vector<LaunchView> launches;
  std::vector<LaunchId> running, pending, allocating;
  std::vector<ClientView> clients;
  std::vector<StreamView> streams;
  std::vector<std::vector<LaunchId>> of_stream;
};

class ServiceView final : public Policy {
 public:
  /// `persistent`: null: there are none.
  ServiceView(Policy& policy, const Trace& trace, PersistentLaunches* persistent = nullptr);

  std::string_view name() const override { return policy_.name(); }
  Requirements requirements() const override;
  void look_ahead(Forecast& forecast) override { policy_.look_ahead(forecast); }
  void start(const Topology& topology, std::span<const ClientView> clients) override { policy_.start(topology, clients); }
  void decide(const Snapshot& now, std::vector<Decision>& decisions) override;

 private:
  /// A launch or an allocation as the policy knows it, by slot of its LaunchId.
  struct Entry {
    LaunchId id;
    LaunchView first;             // its only launch, or a graph's first, as it was when it was called
    bool graph = false, used = false, seen = false, came_back = false;
    std::vector<LaunchId> parts;  // launches that have been called and not ended, in order
    std::uint32_t left = 1;       // kernels that have not ended
    std::optional<decide::Launch> granted;
    Time since{};  // when it was
  };
  struct ClientState {
    bool busy = false;
    Time since{};
    std::uint32_t unfinished = 0;  // launches, as the policy knows them
    std::vector<bool> waits_behind;  // by operation: the host waits for it before it launches what is behind
    OpId called{};                   // the last launch
    std::vector<Time> ended_at;  // by stream
  };
  using GraphOfClient = std::pair<std::uint32_t, std::uint32_t>;               // client, number of the graph
  using GraphLaunch = std::tuple<std::uint32_t, std::uint64_t, std::uint32_t>;  // client, its request, number of the graph

  GraphLaunch key(const LaunchView& l) const { return {l.client.value, l.request, l.operation->graph}; }
  Entry* of(LaunchId real);
  Entry* known(LaunchId shown);
  Entry& new_entry(const LaunchView& l);
  void retire(Entry& e);
  void ready(const LaunchView& l, Time now);
  void ended(LaunchId real, Time now);
  void taken_back(const Preempted& p);
  void tell(const Notice& notice, const Snapshot& now);
  void go_on(const Snapshot& now, std::vector<Decision>& decisions);
  void forget_lost(const Snapshot& now);
  std::uint32_t kernels(const Entry& graph) const { return graphs_.at({graph.first.client.value, graph.first.operation->graph}).grid.x; }
  void show(Entry& e, const Snapshot& now, std::vector<LaunchId>& list);
  Snapshot shown(const Snapshot& now);
  bool has_attempts(const Entry& e) const { return persistent_ != nullptr && !e.graph && persistent_->left(e.first.id) != 0; }
  void carry_out(const Decision& decision, const Snapshot& now, std::vector<Decision>& decisions);

  Policy& policy_;
  const Trace& trace_;
  PersistentLaunches* persistent_;
  std::map<GraphOfClient, Kernel> graphs_;  // what the policy sees of each
  std::map<GraphOfClient, LastTimes> took_;
  std::vector<Entry> entries_;
  std::vector<std::uint32_t> free_, retired_;  // slots; retired: named by notices of this instant
  std::uint32_t next_serial_ = 0;
  std::unordered_map<std::uint64_t, std::uint32_t> slot_of_;  // by serial of the session
  std::map<GraphLaunch, std::uint32_t> slot_of_graph_;
  std::vector<LaunchId> granted_graphs_;
  std::vector<ClientState> clients_;
  bool ask_ = false;

  std::vector<Notice> notices_;
  Showing show_;  // until the next decision
  std::vector<Decision> chosen_;
};

}  // namespace corun::sim
