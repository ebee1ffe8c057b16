// summary.json of results.
#include <cmath>
#include <nlohmann/json.hpp>
#include <ostream>

#include "traces/timeline/report.h"

namespace corun {
namespace {

nlohmann::ordered_json json_of(const PartsMs& p) {
  return {{"queue", p.queue},       {"host", p.host},         {"held", p.held},
          {"launching", p.launching}, {"waiting", p.waiting},   {"off_turn", p.off_turn},
          {"copying", p.copying},   {"preempted", p.preempted}, {"running", p.running}};
}

nlohmann::ordered_json json_of(const RunningPartsMs& p) {
  return {{"alone", p.alone}, {"places", p.places}, {"issue", p.issue}, {"pipes", p.pipes},
          {"l2", p.l2},       {"dram", p.dram},     {"clock", p.clock}};
}

nlohmann::ordered_json json_of(const Interval& i) {
  return std::isnan(i.low) ? nlohmann::ordered_json() : nlohmann::ordered_json{i.low, i.high};
}

nlohmann::ordered_json json_of(const ClientIntervals& i) {
  return {{"mean_ms", json_of(i.mean_ms)}, {"p50_ms", json_of(i.p50_ms)}, {"p95_ms", json_of(i.p95_ms)},
          {"p99_ms", json_of(i.p99_ms)},   {"throughput_per_s", json_of(i.throughput_per_s)}, {"known", i.known}};
}

nlohmann::ordered_json json_of(const ServedResult& s) {
  nlohmann::ordered_json to = {{"sequences", s.sequences},
                               {"finished", s.finished},
                               {"unfinished", s.unfinished},
                               {"waiting", s.waiting},
                               {"good", s.good},
                               {"late", s.late},
                               {"pending", s.pending},
                               {"first_token_infinite", s.first_token.endless},
                               {"end_to_end_infinite", s.end_to_end.endless},
                               {"first_token_mean_ms", s.first_token_mean_ms},
                               {"first_token_p50_ms", s.first_token_p50_ms},
                               {"first_token_p99_ms", s.first_token_p99_ms},
                               {"per_token_mean_ms", s.per_token_mean_ms},
                               {"per_token_p50_ms", s.per_token_p50_ms},
                               {"per_token_p99_ms", s.per_token_p99_ms},
                               {"between_tokens_mean_ms", s.between_tokens_mean_ms},
                               {"between_tokens_p50_ms", s.between_tokens_p50_ms},
                               {"between_tokens_p99_ms", s.between_tokens_p99_ms},
                               {"end_to_end_mean_ms", s.end_to_end_mean_ms},
                               {"end_to_end_p50_ms", s.end_to_end_p50_ms},
                               {"end_to_end_p99_ms", s.end_to_end_p99_ms},
                               {"sequences_per_s", s.sequences_per_s},
                               {"tokens_per_s", s.tokens_per_s},
                               {"goodput_per_s", s.goodput_per_s},
                               {"uncaptured_tokens", s.uncaptured_tokens},
                               {"uncaptured_prompts", s.uncaptured_prompts}};
  if (s.prompt_tokens != 0) to["prompt_tokens"] = s.prompt_tokens, to["cached_tokens"] = s.cached_tokens;
  if (s.first_token_limit_ms) to["first_token_limit_ms"] = *s.first_token_limit_ms;
  if (s.per_token_limit_ms) to["per_token_limit_ms"] = *s.per_token_limit_ms;
  if (s.end_to_end_limit_ms) to["end_to_end_limit_ms"] = *s.end_to_end_limit_ms;
  return to;
}

nlohmann::ordered_json json_of(const ClientResult& c) {
  nlohmann::ordered_json to = {
      {"name", c.name},
      {"class", c.service_class == ServiceClass::real_time ? "real_time" : "best_effort"},
      {"finished", c.finished},
      {"dropped", c.dropped},
      {"unfinished", c.unfinished},
      {"throughput_per_s", c.throughput_per_s},
      {"mean_ms", c.mean_ms},
      {"p50_ms", c.p50_ms},
      {"p95_ms", c.p95_ms},
      {"p99_ms", c.p99_ms},
      {"max_ms", c.max_ms},
      {"deadline_misses", c.deadline_misses},
      {"alone_mean_ms", c.alone_mean_ms},
      {"alone_p50_ms", c.alone_p50_ms},
      {"alone_p95_ms", c.alone_p95_ms},
      {"alone_p99_ms", c.alone_p99_ms},
      {"alone_throughput_per_s", c.alone_throughput_per_s},
      {"slowdown", c.slowdown},
      {"progress", c.progress}};
  to["latency_parts_ms"] = json_of(c.parts);
  to["alone_latency_parts_ms"] = json_of(c.alone_parts);
  if (c.running_parts) to["running_parts_ms"] = json_of(*c.running_parts);
  if (c.served) to["served"] = json_of(*c.served);
  if (c.intervals) to["intervals"] = json_of(*c.intervals);
  if (!c.failed.empty()) to["failed"] = c.failed;
  if (!c.replica_of.empty()) to["replica_of"] = c.replica_of;
  if (c.replicas != 0) to["replicas"] = c.replicas;
  return to;
}

nlohmann::ordered_json json_of(const Spread& s) {
  return {{"mean_us", s.mean_us}, {"p50_us", s.p50_us}, {"p99_us", s.p99_us}, {"max_us", s.max_us}};
}

/// Appends the keys to `document`, which may hold others.
void put(const RunResult& r, nlohmann::ordered_json& document) {
  document["trace"] = r.trace;
  document["gpu"] = r.gpu;
  if (!r.gpu_basis.empty()) document["gpu_basis"] = r.gpu_basis;
  document["policy"] = r.policy;
  document["seed"] = r.seed;
  document["window"] = r.window;
  document["arrivals"] = r.arrivals;
  document["alone"] = r.alone;
  document["duration_ns"] = to_ns(r.duration);
  document["makespan_ns"] = to_ns(r.makespan);
  document["stp"] = r.stp;
  if (r.stp_interval) document["stp_interval"] = json_of(*r.stp_interval);
  document["antt"] = r.antt;
  document["fairness"] = r.fairness;
  document["jain"] = r.jain;
  document["sm_busy"] = r.sm_busy;
  document["occupancy"] = r.occupancy;
  document["blocks"] = r.blocks;
  if (r.preemption.count != 0)
    document["preemption"] = {{"count", r.preemption.count},
                              {"launches", r.preemption.launches},
                              {"redone_blocks", r.preemption.redone_blocks},
                              {"latency", json_of(r.preemption.latency)},
                              {"real_time_start_delay", json_of(r.preemption.start_delay)}};
  document["clients"] = nlohmann::ordered_json::array();
  for (const ClientResult& c : r.clients) document["clients"].push_back(json_of(c));
  for (const ClientResult& server : r.servers) document["servers"].push_back(json_of(server));
  if (r.memory_peak != 0)
    document["memory"] = {
        {"peak_bytes", r.memory_peak}, {"checkpoints", r.checkpoints}, {"moved_bytes", r.moved_bytes}};
  document["notes"] = texts_of(r);
}

/// Bytes that are not UTF-8 (a kernel's name in a note) are replaced, not refused.
void write(const nlohmann::ordered_json& document, std::ostream& out) {
  out << document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << '\n';
}

}  // namespace

void write_summary(const RunResult& result, std::ostream& out) {
  nlohmann::ordered_json document{{"version", 1}};
  put(result, document);
  write(document, out);
}

void write_summary(std::span<const RunResult> results, std::ostream& out, std::span<const NotRun> not_run) {
  nlohmann::ordered_json document{{"version", 1}, {"results", nlohmann::ordered_json::array()}};
  for (const RunResult& r : results) {
    nlohmann::ordered_json entry = nlohmann::ordered_json::object();
    put(r, entry);
    document["results"].push_back(std::move(entry));
  }
  for (const NotRun& n : not_run) document["not_run"].push_back({{"policy", n.policy}, {"reason", n.reason}});
  write(document, out);
}

}  // namespace corun
