// The numbers of a run, from its request records and those of each client alone.
//
// NTT, NP, STP and ANTT as Eyerman and Eeckhout (IEEE Micro 28(3), 2008) define them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "traces/model/time.h"
#include "traces/model/trace.h"
#include "traces/timeline/timeline.h"

namespace corun {

/// LatencyParts as means, in ms; NaN if no request counts.
struct PartsMs {
  double queue = 0, host = 0, held = 0, launching = 0, waiting = 0, off_turn = 0, copying = 0, preempted = 0,
         running = 0;
};

/// What one client got in the window that counts.
struct ClientResult {
  std::string name;
  ServiceClass service_class = ServiceClass::best_effort;
  std::uint64_t finished = 0, dropped = 0, unfinished = 0;
  double throughput_per_s = 0;
  double mean_ms = 0, p50_ms = 0, p95_ms = 0, p99_ms = 0,
         max_ms = 0;                  // intended arrival to end, NaN if none finished
  std::uint64_t deadline_misses = 0;  // finished late, dropped, or overdue at the end of the run
  double alone_mean_ms = 0, alone_throughput_per_s = 0;
  double slowdown = 0;  // NTT: mean latency over mean latency alone under the same arrivals
  double progress = 0;  // NP: work done in the window over work done alone in the same window
  PartsMs parts, alone_parts;  // mean, of the requests whose latencies count
  std::string failed;   // why its program ended early; empty: it did not
};

struct Spread {
  double mean_us = 0, p50_us = 0, p99_us = 0, max_us = 0;
};
/// Launches taken off the GPU, and what it meant for real-time requests.
struct PreemptionResult {
  std::uint64_t count = 0;          // of instants at which launches were ordered off
  std::uint64_t launches = 0;       // ordered off
  std::uint64_t redone_blocks = 0;  // started and run again
  Spread latency;                   // from the order until all of them are off
  Spread start_delay;               // of real-time requests: arrival to first block
};

struct RunResult {
  std::string trace, gpu, policy;
  std::string gpu_basis;  // in words: what the values of the GPU's description rest on
  std::uint64_t seed = 0;
  std::string
      window;         // in words: which span of the run counts, and whether STP is steady-state or fixed-work
  std::string alone;  // in words: how "alone" was got
  Time duration{};    // length of the window
  Time makespan{};    // last end of any request
  double stp = 0, antt = 0;
  double fairness = 0;   // min over max of progress
  double jain = 0;       // of progress
  double sm_busy = 0;    // mean share of SMs with a resident block over the window
  double occupancy = 0;  // mean share of warp places in use over the window
  PreemptionResult preemption;
  std::vector<ClientResult> clients;
  std::vector<std::string> notes;  // assumptions and warnings, printed with the result
  double wall_s = 0;               // time the simulation took; never in files that must be the same bytes
  std::uint64_t blocks = 0, events = 0;
  std::uint64_t memory_peak = 0;  // bytes of device memory, most at once; 0: the trace says nothing of memory
  std::uint64_t checkpoints = 0, moved_bytes = 0;  // to the host; there and back
};

/// The span that counts.  With RunControl::duration: [warm_up, duration).  Without: [0, the instant at which
/// the last client finished its first request), or, when every client sends one request only, the whole run
/// (fixed work).
struct Window {
  Time begin{}, end{};
  bool fixed_work = false;
};
Window window_of(const Trace& trace, std::span<const RequestRecord> together);

/// `alone[i]`: the requests of client i, alone under the same arrivals, up to the end of the window at least.
/// Quantiles are order statistics (rank ceil(q n)), no interpolation.
///
/// A request's latency counts if it arrived and finished in the window; its work counts by the share of its
/// time that lies in the window.  A number that cannot be given is NaN and left out of the sums over clients;
/// a client that finished no request that counts has an infinite slowdown.  policy, sm_busy, occupancy,
/// wall_s, blocks and events are left for the caller to fill in.
RunResult measure(const Trace& trace, Window window, std::span<const RequestRecord> together,
                  std::span<const std::vector<RequestRecord>> alone);

}  // namespace corun
