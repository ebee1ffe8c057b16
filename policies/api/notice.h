// Facts that reach the host, past tense.  All notices of one instant are folded into the Snapshot before the
// policy is asked once.  A launch that they tell the end of still has its view there, with its kernel.
#pragma once

#include <cstdint>
#include <variant>

#include "traces/model/ids.h"
#include "traces/model/time.h"

namespace corun {

struct RequestArrived {
  ClientId client;
  std::uint64_t request = 0;
};
/// The client's host code has called the launch; it waits for a Launch decision.
struct LaunchReady {
  LaunchId launch;
};
/// The last block has started: from here on a change of its size has no effect.  Told of launches that take
/// their blocks from a counter, which a host can see: persistent, stoppable and padded ones.
struct LastBlockStarted {
  LaunchId launch;
};
struct KernelFinished {
  LaunchId launch;
};
/// The launch is off the GPU and pending again; `blocks_done` of its blocks are done.
struct Preempted {
  LaunchId launch;
  std::uint64_t blocks_done = 0;
};
struct CopyFinished {
  LaunchId launch;
};
/// The answer to a Query: blocks done at `as_of`, which is earlier than the notice by what the read costs.
/// The launch may have ended meanwhile, and another have its slot.
struct ProgressReported {
  LaunchId launch;
  std::uint64_t blocks_done = 0;
  Time as_of{};
};
/// The client's host code has called an allocation; it waits for Allocate.
struct AllocationReady {
  LaunchId allocation;
};
/// A Checkpoint or Restore is complete.
struct BufferMoved {
  BufferId buffer;
};
/// A copy of the client waits for a buffer that is not on the device.
struct BufferWanted {
  BufferId buffer;
};
struct RequestFinished {
  ClientId client;
  std::uint64_t request = 0;
};
/// The client's process has failed or was killed: nothing that it has on the GPU will be told of.
struct ClientLost {
  ClientId client;
};
/// The time asked for by WakeAt has come.
struct WokeUp {};

using Notice = std::variant<RequestArrived, LaunchReady, LastBlockStarted, KernelFinished, CopyFinished,
                            ProgressReported, RequestFinished, WokeUp, Preempted, AllocationReady,
                            BufferMoved, BufferWanted, ClientLost>;

}  // namespace corun
