// What a user reads of a run: the table in the terminal, the comparison of policies, and summary.json.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <span>
#include <string>
#include <vector>

#include "traces/timeline/metrics.h"

namespace corun {

/// Columns of text that no line exceeds.
inline constexpr std::size_t kReportWidth = 110;

/// Which of the notes a table prints below it.
enum class Notes : std::uint8_t { first, all };

/// Columns as wide as their contents: the first is text, the others stand to the right.  The first row is the header.
std::string format_table(std::span<const std::vector<std::string>> rows);

/// One run as a table: a line per client (latencies in milliseconds from the intended arrival), then what
/// they add up to, the window, how "alone" was got, and the first notes.  Ends with a newline; "-" where a
/// number is undefined.
std::string format_report(const RunResult& result, Notes notes = Notes::first);

/// A policy that cannot run the trace, and why.
struct NotRun {
  std::string policy, reason;
};

/// Runs of one trace side by side: a line per run with what it adds up to (BE/s: requests of best-effort
/// clients finished per second), then per client p99 and mean in milliseconds alone and under each, then what did
/// not run, who could not keep up with its arrivals, and which p99 rests on few requests.
std::string format_comparison(std::span<const RunResult> results, std::span<const NotRun> not_run = {},
                              Notes notes = Notes::first);

/// Where each client's mean latency goes, in ms, a line per client and run: queue (its own earlier
/// requests), host, policy (held back), launch (until the TMU), wait (for a place on an SM), turn (another context
/// has the SMs), copy, off (kernels that were taken off the GPU), and the time that its kernels run: what that is
/// alone, and what others add.  These add up to the mean.
std::string format_parts(std::span<const RunResult> results);

/// summary.json, the same bytes for the same result: two spaces, keys in this order, numbers as the shortest
/// decimal that reads back the same, null where undefined or infinite.
///
///   version           1
///   trace, gpu, policy, seed
///   window, arrivals, alone   in words: what counts, when each client's requests come, and how "alone" was got
///   duration_ns       length of the window
///   makespan_ns       last end of any request
///   stp, stp_interval, antt, fairness, jain; an interval is [low, high] of nine of ten measured values
///   sm_busy           mean share of SMs with a resident block, 0..1
///   occupancy         mean share of warp places in use, 0..1
///   blocks            thread blocks run
///   clients[]         name, class ("real_time" or "best_effort"), finished, dropped, unfinished,
///   throughput_per_s,
///                     mean_ms, p50_ms, p95_ms, p99_ms, max_ms, deadline_misses, alone_mean_ms,
///                     alone_p50_ms, alone_p95_ms, alone_p99_ms, alone_throughput_per_s, slowdown, progress, intervals (of mean_ms, p50_ms, p95_ms, p99_ms,
///                     throughput_per_s; known: what of its kernels)
///                     of a server served: the fields of ServedResult, a limit only where there is one
///   notes[]           assumptions and warnings
void write_summary(const RunResult& result, std::ostream& out);

/// The same for several runs: version, results[] (each as above, without version), and, where there are some,
/// not_run[] (policy, reason).
void write_summary(std::span<const RunResult> results, std::ostream& out,
                   std::span<const NotRun> not_run = {});

/// Largest p99 of the real-time clients in milliseconds; NaN if there is none.
double worst_real_time_p99(const RunResult& result);

}  // namespace corun
