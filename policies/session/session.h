// The loop of a run: asks the backend for notices, folds them, asks the policy once an instant, and carries
// its decisions to the backend.  It enforces what holds in every world: a stream's order, events recorded
// before they are waited for, capabilities that are there before a policy starts.
//
// Two loops are beside it: that of a client alone (play_requests in sim/run/alone.cpp), which alone_test
// keeps equal, and that of `sim serve` (policies/service/books.h), of programs that are not played.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "policies/api/backend.h"
#include "policies/api/policy.h"
#include "policies/session/device_memory.h"
#include "policies/session/graphs.h"
#include "policies/session/launch_list.h"
#include "policies/session/pending_launches.h"
#include "policies/session/workload.h"
#include "traces/model/trace.h"
#include "traces/timeline/timeline.h"

namespace corun {

/// Solo times of a kernel as a persistent kernel, by number of CTAs; asked for once per kernel, when first
/// launched.
using ProfileSource = std::function<Profile(KernelId)>;

struct SessionOutcome {
  Time end{};  // Backend::now()
  std::uint64_t decisions = 0, refusals = 0;
  bool stopped = false;  // it ended before its time because the caller wished so
  std::string stuck;     // not empty: the run could not go on, and why
  std::string deadlock;  // not empty: it could not for want of device memory: who holds and who waits
  std::vector<std::string> failed;  // by client: why its program ended early; empty: it did not
  std::uint64_t memory_peak = 0, checkpoints = 0, moved_bytes = 0;  // of device memory
};

class Session {
 public:
  /// Trace, policy, backend and timeline must outlive it.  Starts the policy.  Throws InputError if the
  /// backend lacks what the policy requires, or the policy does not fit the clients.
  Session(const Trace& trace, Policy& policy, Backend& backend, Timeline& timeline, ProfileSource profiles);
  /// With the clients of `begins`, a workload of the same trace and GPU that has done nothing yet.
  Session(const Trace& trace, Policy& policy, Backend& backend, Timeline& timeline, ProfileSource profiles,
          Workload begins);

  /// Checks the books of device memory after every decision.
  void audit(bool on) { audit_ = on; }

  /// A launch that is on the GPU at a snapshot, and when it can have reached it.
  struct Resumed {
    LaunchId launch;
    Time reached{};
  };
  /// In the order of launching.
  static std::vector<Resumed> on_gpu(const Snapshot& at, const Trace& trace, const Gpu& gpu);
  /// Before run(), on a backend that has done nothing: goes on from a snapshot of the same trace, as far as it
  /// tells.  What is on the GPU is handed over anew in the past, to a backend that knows when each launch reaches
  /// the GPU; what it then does until the snapshot, the backend finds out (resume.cpp).  `stop` of run() is asked
  /// at each instant. The trace has a duration, so that no end of a request ends the run (kNever: nor any time).
  /// What launches of `at` point to must outlive this.
  void resume(const Snapshot& at, std::span<const Resumed> on_gpu);

  /// Now and then (about once in a thousand instants and graph nodes) `progress` is told the time, and `stop` is asked whether the
  /// run shall end here.  What they, policy, backend and sinks throw comes through.  To be called once.
  SessionOutcome run(const std::function<void(Time)>& progress = {}, const std::function<bool()>& stop = {});

 private:
  struct StreamState {
    std::deque<LaunchId> unsubmitted;
    std::uint32_t stopping = 0;  // launches that are to come off the GPU
  };
  struct RequestState {
    std::vector<LaunchId> launch_of_op;
    std::vector<bool> called, ended;  // by op
  };
  struct ClientState {
    std::vector<StreamState> streams;
    std::vector<RequestState> requests;  // in flight, by their number modulo how many may be
    bool copies = false, memory = false;  // its program has any; it holds buffers
    LaunchId called{};                    // by its last call
    std::optional<LaunchId> held{};       // for want of room in a channel its host stays in that call
    RequestState& request(std::uint64_t number) { return requests[number % requests.size()]; }
    const RequestState& request(std::uint64_t number) const { return requests[number % requests.size()]; }
  };

  void call(const HostCall& call, Time now);
  LaunchView& new_view(const HostCall& call, Time now);
  LaunchId new_id();
  void call_graph(const HostCall& call, Time now);
  Outcome launch_graph(const decide::Launch& launch, const LaunchView& graph);
  void retire(LaunchView& l);
  void hold_to_requirements(const Decision& decision) const;
  void allocate(const HostCall& call, Time now);
  void fail(ClientId client, std::string reason);
  void request_ended(ClientId client, std::uint64_t request);
  void withdraw(std::span<const BufferId> asked);
  void drop(LaunchId id);
  bool use(LaunchView& launch, std::vector<BufferId> buffers);
  bool waits_for_memory(LaunchView& copy);
  Outcome grant(const decide::Allocate& allocate, Time now);
  template <class Move>
  Outcome move(const Move& move);
  void gauge_memory(Time now);
  void give_back();
  bool memory_deadlock();
  void fold(Time now);
  void end(LaunchId id, Time now);
  void ask(Time now);
  Outcome apply(const Decision& decision, Time now);
  Outcome submit(const decide::LaunchPadded& padded, Time now);
  Outcome preempt_launch(const decide::Preempt& preempt);
  const char* not_launchable(LaunchId id) const;
  void submitted(LaunchView& launch, Time now);
  void hold_caller(const LaunchView& launch, const Outcome& outcome);
  void let_caller_go(const LaunchView& launch, Time now);
  void take_back(const Preempted& preempted);
  void lose(ClientId client);
  void submit_copies(ClientId client, Time now);
  std::vector<LaunchId> unfinished_follows(const LaunchView& launch) const;
  bool follows_submitted(const LaunchView& launch) const;
  bool is_graph(LaunchId id) const { return launches_[id.slot].nodes != 0; }
  StreamState& stream_of(const LaunchView& l) { return clients_[l.client.value].streams[l.stream.value]; }
  LaunchView& view(LaunchId id) { return launches_[id.slot]; }
  bool over(Time now) const;
  void hand_over_again(const Snapshot& at, std::span<const Resumed> on_gpu);
  std::string why_stuck() const;

  const Trace& trace_;
  Policy& policy_;
  Backend& backend_;
  Timeline& timeline_;
  ProfileSource profile_source_;
  Requirements requires_;
  Workload workload_;
  DeviceMemory memory_;

  std::vector<ClientState> clients_;
  std::vector<ClientView> client_views_;
  std::vector<LaunchView> launches_;  // by slot
  std::vector<std::uint32_t> free_slots_,
      retired_;  // retired: ended at this instant, still named by its notices
  std::uint32_t next_serial_ = 0;
  PendingLaunches pending_;
  std::vector<LaunchId> allocating_;
  LaunchList running_;
  /// A whole graph.  Its nodes have slots without a view; the first node's is the graph's.
  struct GraphLaunch {
    const Graph* graph = nullptr;
    std::vector<GraphNode> nodes{};
    std::vector<std::vector<LaunchId>> follows{};  // what `nodes` points to
  };
  Graphs graphs_;
  std::vector<GraphLaunch> graph_launches_;  // by slot
  std::vector<LaunchId> whole_;              // by slot: the launch that it is a node of; else itself
  std::vector<std::vector<BufferId>> uses_;  // by slot
  std::vector<bool> copy_waits_;             // by slot: it waits for a buffer to be on the device
  std::vector<Profile> profiles_;
  std::vector<Notice> notices_;  // of this instant
  std::vector<Decision> decisions_;
  Time wake_at_ = kNever;
  std::uint64_t since_asked_ = 0;  // instants and nodes since `stop` was asked
  std::size_t gauged_pending_ = 0;  // as last recorded
  std::uint64_t gauged_memory_ = 0;
  SessionOutcome outcome_;
  bool audit_ = false;
  bool resumed_ = false;
};

}  // namespace corun
