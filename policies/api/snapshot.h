// What a real host can see at one instant: a const view of arrivals, launches, reported progress, profiles,
// time.  Times are ps since the start of the run.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "policies/api/notice.h"
#include "traces/model/kernel.h"
#include "traces/model/trace.h"

namespace corun {

/// draining: its last block has started; stopping: asked to come off the GPU.
enum class LaunchState : std::uint8_t { pending, submitted, draining, stopping, finished };

/// A launch, which is a kernel or a graph that the host hands over by one call, from that call to its end.  A copy may be kept.
/// Its pointers are valid until the decide() returns that is told of its end: a service forgets kernels of programs that leave.
struct LaunchView {
  LaunchId id;
  ClientId client;
  StreamId stream;
  OpId op;
  std::uint64_t request = 0;
  KernelId kernel_id;
  const Kernel* kernel = nullptr;    // null: an allocation, or a copy, which only Snapshot::running shows
  const Op* operation = nullptr;     // null: the allocation of Client::memory_bytes
  /// Kernels and copies of a graph; 0: the launch is no graph.  The `kernel` of a graph has a block for each of its kernels and no
  /// other content; stream and operation are those of its first kernel.  A graph has no size and runs to its end.
  std::uint32_t nodes = 0;
  std::span<const BufferId> uses{};  // device memory; of an allocation: the buffer asked for
  std::uint64_t bytes = 0;           // of an allocation
  Time solo_time{};                  // of this launch alone on the whole GPU; 0: not known
  LaunchState state = LaunchState::pending;
  std::uint32_t waits_for = 0;  // unfinished operations that it follows directly (stream order, events)
  Time ready_at{};              // the host's call
  Time submitted_at{};          // the last Launch
  Time unblocked_at{};            // when the last operation that it follows was known to have ended
  std::int32_t priority = 0;      // as decided, as is what follows
  std::optional<TpcMask> tpc_mask{};
  std::uint32_t ctas = 0;         // granted by Launch or Resize; 0: a plain launch
  std::uint64_t blocks_done = 0;  // as last reported; of a preempted launch: for good
  Time reported_at{};             // ProgressReported::as_of
  bool stoppable = true;  // where the policy may stop launches: an order to leave the GPU is not just answered by its end
  bool sizable = true;    // whether it can run as a persistent kernel of a given size; else it goes plainly, whatever size is decided
};

struct ClientView {
  ClientId id;
  const Client* client = nullptr;      // as long as the run
  std::uint64_t requests_waiting = 0;  // arrived, none of their operations issued
  bool busy = false;                   // a request is being served
  Time arrived_at{};                   // that one, or of several the first; as intended
  Time waits_since{};                  // the first of those that wait, as intended
  /// The request whose operations are being called, or the last that was: of the program's issue order it has
  /// [first_call, calls), and the host goes on with next_call a recorded gap after `returned_at`.
  std::uint64_t request = 0;
  std::size_t first_call = 0, next_call = 0, calls = 0;
  Time returned_at{};  // kNever: it is still in its last call
};

/// One stream of a client.
struct StreamView {
  ClientId client;
  StreamId stream;
  std::uint32_t running = 0;             // kernels launched, not finished
  Time ended_at{};                       // when its last end of a kernel or copy was known
  std::span<const LaunchId> pending{};  // kernels not yet launched, in the stream's order
};

/// An allocation in device memory, from the call to its release.  asked: it waits for Allocate; to_host and
/// to_device: under way, and taking device memory.
struct BufferView {
  enum class Place : std::uint8_t { asked, device, to_host, host, to_device };
  BufferId id;
  ClientId client;
  std::uint64_t bytes = 0;
  Place place = Place::asked;
  bool free = true;               // the slot holds no buffer
  std::uint32_t in_use = 0;       // launches and copies on the GPU that use it
  std::uint32_t copies_wait = 0;  // copies that wait for it to be on the device
  std::uint64_t uses = 0;         // launches so far
  Time last_used{};               // a launch or copy went to the GPU; at first, the call
};

/// Solo time of a kernel as a persistent kernel of `ctas` CTAs; fewest first.
struct ProfilePoint {
  std::uint32_t ctas = 0;
  Time time{};
  std::uint32_t sms = 0, ctas_per_sm = 0;  // how they spread; the last CTAs may be missing
};
using Profile = std::vector<ProfilePoint>;

/// It and its spans are valid during Policy::decide only: what is decided changes what they show.
/// KeptSnapshot lasts longer.
struct Snapshot {
  Time now{};
  std::span<const Notice> notices;         // what happened since the policy was last asked
  std::span<const ClientView> clients;     // by ClientId
  std::span<const LaunchView> launches;    // by LaunchId::slot; finished ones are free slots
  std::span<const LaunchId> pending;       // ready, not yet launched; in order of readiness
  std::span<const LaunchId> running;       // launched, not finished, copies too; in order of launching
  std::span<const Profile> profiles;       // by KernelId; empty unless needed, and a launch was called
  std::span<const LaunchId> allocating{};  // allocations that wait for Allocate; in order of readiness
  std::span<const BufferView> buffers{};   // by BufferId
  std::uint64_t memory_used = 0;           // bytes of device memory
  std::span<const StreamView> streams{};   // of all clients, by ClientId, then StreamId

  /// Of one that may have ended earlier the `id` is to be compared: its slot may have another.
  const LaunchView& launch(LaunchId id) const { return launches[id.slot]; }
  const Client& client_of(const LaunchView& l) const { return *clients[l.client.value].client; }
  const Client& client_of(const StreamView& s) const { return *clients[s.client.value].client; }

  /// The first `most(stream)` pending launches of each stream, in order of readiness: what a policy looks at
  /// that launches a few at a time, where a thousand of a graph may wait.
  template <class Most>
  std::vector<LaunchId> first_pending(Most&& most) const {
    std::vector<LaunchId> first;
    for (const StreamView& s : streams) {
      const std::size_t n = std::min<std::size_t>(s.pending.size(), most(s));
      first.insert(first.end(), s.pending.begin(), s.pending.begin() + static_cast<std::ptrdiff_t>(n));
    }
    std::sort(first.begin(), first.end(), [](LaunchId a, LaunchId b) { return a.serial < b.serial; });
    return first;
  }
};

}  // namespace corun
