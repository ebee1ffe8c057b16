// The numbers of a run, from its request records and those of each client alone.
//
// NTT, NP, STP and ANTT as Eyerman and Eeckhout (IEEE Micro 28(3), 2008) define them.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "traces/model/time.h"
#include "traces/model/trace.h"
#include "traces/timeline/sample.h"
#include "traces/timeline/timeline.h"

namespace corun {

/// LatencyParts as means, in ms; NaN if no request counts.
struct PartsMs {
  double queue = 0, host = 0, held = 0, launching = 0, waiting = 0, off_turn = 0, copying = 0, preempted = 0,
         running = 0;
};

/// RunningParts, the same.
struct RunningPartsMs {
  double alone = 0, places = 0, issue = 0, pipes = 0, l2 = 0, dram = 0, clock = 0;
};

/// Nine of ten measured values lie between these; NaN where none is given.
struct Interval {
  double low = std::numeric_limits<double>::quiet_NaN(), high = std::numeric_limits<double>::quiet_NaN();
};
/// Of the numbers of a client.  The throughput has one where requests follow each other.
struct ClientIntervals {
  Interval mean_ms, p50_ms, p95_ms, p99_ms, throughput_per_s;
  std::string known;  // in words: what of its kernels the numbers rest on
};

/// Latencies and rates of a server's sequences, as `vllm bench serve` prints them.  All count that came in the window, whatever
/// became of them, so that their number is that of any policy; rates count what the window saw, whenever it came.
/// Each of `sequences` is good, late or pending.  Times are in ms; a quantile is infinite where it is one of a
/// sequence that has not got there, a mean then counts the time so far, and is at least that; NaN of none.
struct ServedResult {
  std::uint64_t sequences = 0;             // came in the window
  std::uint64_t finished = 0, unfinished = 0, waiting = 0;  // of them; waiting: no first token, of the unfinished
  std::uint64_t good = 0;     // finished, within all limits that there are
  std::uint64_t late = 0;     // broke one; also those that can no longer keep it
  std::uint64_t pending = 0;  // under way, and may keep all
  Sample first_token, per_token, between_tokens, end_to_end;  // endless: not in time, and not yet there
  double first_token_mean_ms = 0, first_token_p50_ms = 0, first_token_p99_ms = 0;  // TTFT, from the arrival
  double per_token_mean_ms = 0, per_token_p50_ms = 0, per_token_p99_ms = 0;        // TPOT, a sequence's mean gap
  double between_tokens_mean_ms = 0, between_tokens_p50_ms = 0, between_tokens_p99_ms = 0;  // ITL, over all gaps
  double end_to_end_mean_ms = 0, end_to_end_p50_ms = 0, end_to_end_p99_ms = 0;     // E2EL, from the arrival
  double sequences_per_s = 0, tokens_per_s = 0, goodput_per_s = 0;  // ended, generated, ended within all limits
  std::uint64_t prompt_tokens = 0, cached_tokens = 0;  // of sequences that were begun, of a server with a prefix cache
  double uncaptured_tokens = 0;   // of the tokens by decodes: the share by those outside of all captured sizes; NaN of none
  double uncaptured_prompts = 0;  // of the sequences: the share whose prompt exceeds all captured; NaN of none
  std::optional<double> first_token_limit_ms, per_token_limit_ms, end_to_end_limit_ms;
  bool has_limits() const { return first_token_limit_ms || per_token_limit_ms || end_to_end_limit_ms; }
};

/// The result of one client in the window that counts, or of all replicas of a server as one.
struct ClientResult {
  std::string name;
  std::string replica_of;      // a server; empty: of none
  std::uint32_t replicas = 0;  // that it is all of; 0: it is a client
  ServiceClass service_class = ServiceClass::best_effort;
  std::uint64_t finished = 0, dropped = 0, unfinished = 0;
  double throughput_per_s = 0;
  double mean_ms = 0;                 // intended arrival to end, of those that finished; NaN if none did
  Sample latencies, alone_latencies;                      // of those that arrived in the window
  double p50_ms = 0, p95_ms = 0, p99_ms = 0, max_ms = 0;  // of all that arrived: infinite if so many were dropped; NaN of none
  std::uint64_t deadline_misses = 0;  // finished late, dropped, or overdue at the end of the run; of a server its late sequences
  double alone_mean_ms = 0, alone_p50_ms = 0, alone_p95_ms = 0, alone_p99_ms = 0, alone_throughput_per_s = 0;
  double slowdown = 0;  // NTT: mean latency over mean latency alone under the same arrivals, the dropped ones too (docs/metrics.md)
  double progress = 0;  // NP: work done in the window over work done alone in the same window
  PartsMs parts, alone_parts;  // mean, of the requests whose latencies count
  std::optional<RunningPartsMs> running_parts{};  // of `parts.running`, where they were asked for
  std::string failed;   // why its program ended early; empty: it did not
  std::optional<ServedResult> served{};
  std::optional<ClientIntervals> intervals{};  // where the simulator knows them
};

/// The quantiles, from the samples.
void fill_quantiles(ClientResult& client);
void fill_quantiles(ServedResult& served);

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

/// Subjects of notes.  A result lists its notes in this order.
enum class NoteKind : std::uint8_t {
  measured,     // on which GPU
  carried,      // times of another card
  parts,        // programs that were recorded on a part of the GPU
  card,
  contention,
  counters,     // that contradict themselves
  sizes,        // steps of a server outside of those that were captured
  interrupted,
  unverified,   // a policy
  deadlock,
  trace,        // what its import assumed
  unfinished,   // clients
  host,
  instances,
  moved,        // buffers, and whether they came back
  verified      // results of kernels
};
struct Note {
  NoteKind kind;
  std::string text;
  bool operator==(const Note&) const = default;
};

struct RunResult {
  std::string trace, gpu, policy;
  std::string gpu_basis;  // in words: what the values of the GPU's description rest on
  std::uint64_t seed = 0, seeds = 1;  // more than one: so many runs together (seeds.h), the first of which had `seed`
  std::string
      window;         // in words: which span of the run counts, and whether STP is steady-state or fixed-work
  std::string arrivals;  // in words: each client's
  std::string alone;  // in words: how "alone" was got
  Time duration{};    // length of the window
  Time makespan{};    // last end of any request
  double stp = 0, antt = 0;
  std::optional<Interval> stp_interval{};
  double fairness = 0;   // min over max of progress
  double jain = 0;       // of progress
  double sm_busy = 0;    // mean share of SMs with a resident block over the window
  double occupancy = 0;  // mean share of warp places in use over the window
  PreemptionResult preemption;
  std::vector<ClientResult> clients;
  std::vector<ClientResult> servers{};  // that have replicas: all requests of these; their throughput is the sum, also alone
  std::vector<Note> notes;         // assumptions and warnings, ordered by kind
  double wall_s = 0;               // time the simulation took; never in files that must be the same bytes
  /// What a policy's decisions took that looks ahead; `us` are measured, and never in such files either.
  struct LookedAhead {
    std::uint64_t decisions = 0, forecasts = 0, events = 0;  // decisions: those with forecasts; events: simulated ones
    double mean_us = 0, p99_us = 0, max_us = 0;              // of such a decision
  } looked_ahead{};
  std::uint64_t blocks = 0, events = 0;
  std::uint64_t memory_peak = 0;  // bytes of device memory, most at once; 0: the trace says nothing of memory
  std::uint64_t checkpoints = 0, moved_bytes = 0;  // to the host; there and back
};

/// Texts of a result's notes, in their order.
std::vector<std::string> texts_of(const RunResult& result);
/// "every 20 ms, the newest replaces who waits"
std::string arrivals_in_words(const Client& client);
/// Inserts the note after others of its kind.
void add_note(RunResult& result, NoteKind kind, std::string text);

/// The span that counts.  With RunControl::duration: [warm_up, duration).  Without: [0, the instant at which
/// the last client finished its first request), or, when every client sends one request only, the whole run
/// (fixed work).
struct Window {
  Time begin{}, end{};
  bool fixed_work = false;
};
Window window_of(const Trace& trace, std::span<const RequestRecord> together);

/// `alone[i]`: the requests of client i, alone under the same arrivals, up to the end of the window at least.
/// Quantiles are order statistics (rank ceil(q n)), no interpolation, of all requests that arrived in the window: a dropped one
/// never ended, and one under way at its end counts where it is older than the quantile.
///
/// A request's latency counts in the mean if it arrived and finished in the window; its work counts by the share of its
/// time that lies in the window.  A number that cannot be given is NaN and left out of the sums over clients;
/// a client that finished no request that counts has an infinite slowdown.  policy, sm_busy, occupancy,
/// wall_s, blocks and events are left for the caller to fill in.
RunResult measure(const Trace& trace, Window window, std::span<const RequestRecord> together,
                  std::span<const std::vector<RequestRecord>> alone);

}  // namespace corun
