// The clients' host side: requests arrive, one is served at a time (in a closed loop several may be in
// flight), and its operations are called in order with the recorded host gaps.  The same code plays the clients before the simulator and before a GPU.
//
// Leaves out: host threads competing for the driver's lock.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "policies/api/notice.h"
#include "policies/api/snapshot.h"
#include "policies/session/arrivals.h"
#include "policies/session/cores.h"
#include "policies/session/host_clock.h"
#include "policies/session/server.h"
#include "traces/model/gpu.h"
#include "traces/model/op_order.h"
#include "traces/model/trace.h"
#include "traces/timeline/timeline.h"

namespace corun {

/// A host call that happens now.
struct HostCall {
  enum class Kind : std::uint8_t {
    operation,
    first_memory,   // the allocation of Client::memory_bytes
    end_of_request  // all its operations have ended
  } kind = Kind::operation;
  ClientId client;
  OpId op;
  std::uint64_t request = 0;
  std::span<const OpId> graph{};  // not empty: all of these, by one call
};

class Workload {
 public:
  /// All three must outlive it.
  Workload(const Trace& trace, const Gpu& gpu, Timeline& timeline);
  /// Of the same trace and GPU, as it begins; writes to `timeline`.
  Workload(const Workload& begins, Timeline& timeline);

  /// As of a snapshot: what it tells of a client that has done nothing yet here. `serving`: its requests that have
  /// operations under way, oldest first, and how many.
  void resume(const ClientView& client, std::span<const std::pair<std::uint64_t, std::uint32_t>> serving, Time now);

  /// The next instant at which a client does something by itself; kNever when all wait for the GPU or are
  /// done.
  Time next_event() const { return next_event_; }

  /// Lets every client act up to `now`: appends the requests that arrived and the calls made, in a fixed
  /// order.  Allocations stop the client until allocated().
  void advance(Time now, std::vector<RequestArrived>& arrived, std::vector<HostCall>& calls);

  /// From now on a graph is one call, where it has a kernel, and its kernels one priority and one mask.
  void call_graphs_whole();

  /// What one call handed over for the client's request has ended; `solo` is the work it was worth.  Tells whether that
  /// was the request's last one.
  bool finished(ClientId client, std::uint64_t request, Time now, Time solo);

  /// A call whose operations have not all ended has done `solo` of its work.
  void worked(ClientId client, std::uint64_t request, Time solo);
  /// Ends the run: writes what is unfinished to the timeline.
  void close();

  /// The client has the memory that it asked for last, and its host goes on.
  void allocated(ClientId client, Time now);
  /// From now on its host stays in the call of a launch until decided() is told of it.
  void wait_for_decisions(ClientId client) { clients_[client.value].waits_for_decisions = true; }
  void decided(ClientId client, Time now);
  /// The same for the call that its host has just made.
  void stay_in_call(ClientId client);
  /// Its program ends here: no further call, no further request.
  void fail(ClientId client);

  /// Failed ones aside.
  bool every_client_finished_once() const;

  /// Requests that have arrived and are not served: a closed loop's next one has not while its client thinks.
  std::uint64_t waiting(ClientId client, Time now) const {
    const auto& queue = clients_[client.value].queue;
    if (queue.empty()) return 0;
    const auto next = std::ranges::upper_bound(queue, now, {}, &Waiting::arrival);
    return static_cast<std::uint64_t>(next - queue.begin());
  }
  bool busy(ClientId client) const { return !clients_[client.value].serving.empty(); }
  /// What a policy is shown of the client.
  void show(ClientView& client, Time now) const;
  /// Alone on the whole GPU, of a launch of the request whose calls are being made.
  Time solo_time(ClientId client, OpId op) const;
  const OpOrder& order(ClientId client) const {
    return (*orders_)[trace_.clients[client.value].program.value];
  }

 private:
  struct Waiting {
    std::uint64_t request;
    Time arrival;
  };
  struct Serving {
    RequestRecord record;
    std::uint32_t outstanding = 0;  // calls made whose operations have not ended
  };
  struct Noted {
    Time at;  // when the host goes on and sees it
    std::uint64_t request;
  };
  struct State {
    ArrivalProcess arrivals;
    HostClock host{};
    std::optional<Server> server{};
    std::uint32_t in_flight = 1;
    std::size_t calls = 0;  // end of a request's: of all, but where several are in flight not a sync at its end
    std::deque<Waiting> queue{};
    std::deque<Serving> serving{};  // the last is the one whose calls are being made
    std::deque<Noted> unnoted{};    // of those, which have ended while the host stood still
    std::size_t next_op = 0, first_op = 0;  // of that, index into the issue order
    Time host_free{};             // when the host thread can go on; kNever: it waits for the GPU
    Time returned{};              // when its last call did
    std::uint64_t next_request = 0;
    std::uint64_t finished = 0;
    bool waits_for_decisions = false;
    bool called_by_itself = false;  // its last call was of one operation
    std::optional<bool> in_call{};  // its host is in that of a launch or copy; whether it is of nothing else
    bool waits_for_memory = false, has_first_memory = false, failed = false;
    std::vector<std::uint32_t> graph_end{};  // by place in the issue order: where the graph ends that begins there, 0: it is taken apart; empty: all are
  };

  bool alike(ClientId client, std::span<const OpId> launches) const;
  Time next_event(ClientId id) const;
  bool step(ClientId id, Time now, std::vector<RequestArrived>& arrived, std::vector<HostCall>& calls);
  void arrive(ClientId id, Time intended);
  void await_step(State& c, Time from);
  void serve_next(ClientId id, Time now);
  bool all_called(ClientId id) const;
  Time serves_next_at(ClientId id) const;  // kNever: not before something else happens
  std::size_t serving_of(ClientId id, std::uint64_t request) const;
  void finish(ClientId id, std::size_t serving, Time now);
  void prepare_next_call(ClientId id, Time now, Time from);
  Time goes_on_at(ClientId id, Time from) const;
  void work_until(ClientId id, Time now);
  bool may_go_on(ClientId id, Time now);
  void rest(ClientId id);
  Issue issue(ClientId id) const;
  HandedOver handed_over(ClientId id, OpId op) const;

  const Trace& trace_;
  const Gpu& gpu_;
  Timeline& timeline_;
  std::shared_ptr<const std::vector<OpOrder>> orders_;  // by ProgramId
  std::vector<State> clients_;
  Cores cores_;
  Time next_event_ = kNever;
};

}  // namespace corun
