// What a run and its workers, one process each, tell each other.
#pragma once

#include <cstdint>

#include "traces/model/ids.h"
#include "traces/model/time.h"

namespace corun::hw {

enum class Kind : std::uint32_t {
  // to a worker
  setup,     // JSON: its trace, what it needs of the GPU's description, options
  start,     // the clock
  launch,    // Submitted, the launches that it follows, the buffers that it uses
  copy,      // the same
  allocate,  // Allocated
  freed,     // BufferId
  close,     // to end its work, check results, and tell
  quit,
  count_sms,  // that its process sees, and end: instead of a setup
  // from a worker
  ready,      // uint32: the SMs, where it was to count them
  started,   // Time: of the host's clock, at its own time 0
  finished,  // LaunchId
  kernel,    // KernelRecord in its own time and numbers of clients
  copied,    // CopyRecord, likewise
  closed,    // JSON: blocks, what was verified, what was wrong
  failed,    // JSON: what went wrong; it ends
};

struct Submitted {
  LaunchId launch;
  ClientId client;  // the worker's number of it
  StreamId stream;
  OpId op;
  KernelId kernel;
  std::uint64_t request = 0;
  std::int32_t priority = 0;
  std::uint32_t follows = 0, uses = 0;  // how many LaunchIds and BufferIds come behind
};

struct Allocated {
  ClientId client;
  BufferId buffer;
  std::uint64_t bytes = 0;
  OpId op;
  bool first = false;  // of the client, without an op
};

}  // namespace corun::hw
