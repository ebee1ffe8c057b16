// Promises of clients, and the goal: metrics by name, with their values in a result.
//
// Leaves out: promises of several clients together, but for the system throughput as a goal.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "traces/model/trace.h"
#include "traces/timeline/metrics.h"

namespace corun::sim {

/// Latencies and rate of requests.  For a server, whose requests are steps, of its sequences: `ttft` p99 of the time to the first
/// token; `tbt` p99 of a sequence's mean time between tokens, as in a client's tbt=; `e2e` p99 of the time to its last token;
/// `goodput` sequences within the client's limits; `tokens` generated.
enum class Metric : std::uint8_t { mean, p50, p95, p99, max, throughput, ttft, tbt, e2e, goodput, tokens };
/// A rate is reached; else a latency is not exceeded.
bool is_rate(Metric metric);
/// "ms", "/s" or "tokens/s".
const char* unit_of(Metric metric);

/// In that unit; of a server NaN where no sequence of the window ended.
double value_of(const ClientResult& client, Metric metric);
/// Nine of ten measured values lie in it; NaN where none is given.  A server's times err as its steps do.
Interval interval_of(const ClientResult& client, Metric metric);

/// A latency in ms that is not exceeded, or a rate in 1/s that is reached, by a client.
struct Slo {
  std::size_t client;
  Metric metric;
  double limit;
  std::string text;  // as the user wrote it
};

/// "cam:p99=20ms", "batch:throughput=30", "llm:ttft=200ms".  Throws InputError, also for a metric that the client cannot have.
Slo parse_slo(const std::string& text, const Trace& trace);
/// Each client's deadline as a promise of its p99, and a server's limits.
std::vector<Slo> slos_of(const Trace& trace);
/// Written promises, and the clients' own where none is written of the same client and metric.  Throws InputError.
std::vector<Slo> promised(const std::vector<std::string>& written, const Trace& trace);

/// "stp", or "llm:throughput" and the like; a latency is made small.
struct Goal {
  std::optional<std::size_t> client;  // none: the system throughput of all
  Metric metric = Metric::throughput;
  std::string text = "stp";
};
Goal parse_goal(const std::string& text, const Trace& trace);
/// In its unit, or the STP.
double goal_value(const Goal& goal, const RunResult& result);
/// The same, larger where it is better: a latency is negative; minus infinity where there is none.
double merit_of(const Goal& goal, const RunResult& result);

/// Throws InputError where the run has nothing to judge the promise or goal by, as no request came in its window.
void expect_judged(const std::string& text, Metric metric, const ClientResult& client);

}  // namespace corun::sim
