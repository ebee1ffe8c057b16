// Latencies, slowdown and progress of each client in the window that counts, and what they add up to.
#include "traces/timeline/metrics.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <ranges>
#include <variant>

#include "traces/model/statistics.h"

namespace corun {
namespace {

constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();

double ratio(double numerator, double denominator) {
  return denominator > 0 ? numerator / denominator : kUndefined;
}

bool has_started(const RequestRecord& r) { return !r.dropped && r.started != kNever; }
bool has_finished(const RequestRecord& r) { return !r.dropped && r.finished != kNever; }

Time last_end(std::span<const RequestRecord> requests) {
  Time last{};
  for (const RequestRecord& r : requests)
    if (has_finished(r)) last = std::max(last, r.finished);
  return last;
}

/// Latest instant that the records know of.
Time last_known(std::span<const RequestRecord> requests) {
  Time last = last_end(requests);
  for (const RequestRecord& r : requests) {
    last = std::max(last, r.arrival);
    if (has_started(r)) last = std::max(last, r.started);
  }
  return last;
}

bool sends_one_request(const Client& client) {
  if (std::holds_alternative<Once>(client.arrivals)) return true;
  const auto* times = std::get_if<ExplicitTimes>(&client.arrivals);
  return times != nullptr && times->times.size() == 1;
}

bool finished_in(const RequestRecord& r, const Window& w) {
  return has_finished(r) && r.finished >= w.begin && r.finished <= w.end;
}

/// What one client's requests amount to in a window.
struct Tally {
  std::uint64_t finished = 0, dropped = 0, unfinished = 0, deadline_misses = 0;
  Sample latencies;             // of those that arrived in the window; a dropped one never ends
  Time replaced{};              // sum over the dropped: from the arrival to the end of the request served instead
  double work_ps = 0;
  LatencyParts parts;  // sums over `latencies`

  /// Mean over all requests that arrived in the window: a dropped one counts until what was served instead ends, one that is under
  /// way with its age, where no other took as long.
  double turnaround_ms() const {
    const auto& [ended, so_far, endless] = latencies;
    if (ended.empty()) return kUndefined;
    Time sum = std::accumulate(ended.begin(), ended.end(), replaced);
    const auto overdue = std::ranges::upper_bound(so_far, ended.back());
    sum = std::accumulate(overdue, so_far.end(), sum);
    return to_ms(sum) / static_cast<double>(ended.size() + endless + static_cast<std::size_t>(so_far.end() - overdue));
  }

  PartsMs mean_parts() const {
    const auto mean = [&](Time sum) {
      return latencies.ended.empty() ? kUndefined : to_ms(sum) / static_cast<double>(latencies.ended.size());
    };
    return {mean(parts.queue),    mean(parts.host),    mean(parts.held),      mean(parts.launching), mean(parts.waiting),
            mean(parts.off_turn), mean(parts.copying), mean(parts.preempted), mean(parts.running)};
  }
  RunningPartsMs mean_running_parts() const {
    const RunningParts& p = parts.of_running;
    const auto mean = [&](Time sum) {
      return latencies.ended.empty() ? kUndefined : to_ms(sum) / static_cast<double>(latencies.ended.size());
    };
    return {mean(p.alone), mean(p.places), mean(p.issue), mean(p.pipes), mean(p.l2), mean(p.dram), mean(p.clock)};
  }
};

/// Work of the request that falls into the window, taking its rate as constant.
double work_in(const RequestRecord& r, const Window& w) {
  if (!has_started(r)) return 0;
  const Time end = has_finished(r) ? r.finished : std::max(w.end, r.started);
  const double work = static_cast<double>(r.work_done.count());
  if (r.started >= w.begin && end <= w.end) return work;
  const Time inside = std::min(end, w.end) - std::max(r.started, w.begin);
  if (inside <= Time{}) return 0;
  return work * (static_cast<double>(inside.count()) / static_cast<double>((end - r.started).count()));
}

void add(LatencyParts& to, const LatencyParts& one) {
  to.queue += one.queue, to.host += one.host, to.held += one.held, to.launching += one.launching;
  to.waiting += one.waiting, to.off_turn += one.off_turn, to.copying += one.copying;
  to.preempted += one.preempted, to.running += one.running;
  to.of_running += one.of_running;
}

void count(Tally& t, const RequestRecord& r, const Window& w, std::optional<Time> deadline, Time served_instead) {
  if (r.arrival > w.end) return;
  t.work_ps += work_in(r, w);
  const bool arrived_inside = r.arrival >= w.begin;
  bool missed = false;
  if (r.dropped) {
    if (!arrived_inside) return;
    ++t.dropped, ++t.latencies.endless;
    t.replaced += std::min(served_instead, w.end) - r.arrival;
    missed = true;
  } else if (finished_in(r, w)) {
    ++t.finished;
    if (arrived_inside) {
      t.latencies.ended.push_back(r.finished - r.arrival);
      add(t.parts, r.parts);
    }
    missed = deadline && r.finished - r.arrival > *deadline;
  } else if (r.finished > w.end) {
    ++t.unfinished;
    if (arrived_inside) t.latencies.so_far.push_back(w.end - r.arrival);
    missed = deadline && w.end - r.arrival > *deadline;
  }
  if (missed && deadline && arrived_inside) ++t.deadline_misses;
}

/// Counts each of one client's requests once.
Tally tally(std::vector<const RequestRecord*> requests, const Window& w, std::optional<Time> deadline) {
  Tally t;
  std::ranges::stable_sort(requests, {}, &RequestRecord::request);
  Time next_end = kNever;
  for (const RequestRecord* r : requests | std::views::reverse) {
    if (!r->dropped) next_end = r->finished;
    count(t, *r, w, deadline, next_end);
  }
  t.latencies.sort();
  return t;
}

/// The requests of both.
void merge(Tally& to, const Tally& from) {
  to.finished += from.finished, to.dropped += from.dropped, to.unfinished += from.unfinished;
  to.deadline_misses += from.deadline_misses;
  to.latencies.add(from.latencies);
  to.replaced += from.replaced;
  to.work_ps += from.work_ps;
  add(to.parts, from.parts);
}

double per_second(std::uint64_t count, Time length) {
  return length > Time{} ? static_cast<double>(count) / to_seconds(length) : 0;
}

ClientResult client_result(const Client& client, const Window& w, const Tally& together, const Tally& alone) {
  const Time length = w.end - w.begin;
  ClientResult result;
  result.name = client.name;
  result.service_class = client.service_class;
  result.finished = together.finished;
  result.dropped = together.dropped;
  result.unfinished = together.unfinished;
  result.throughput_per_s = per_second(together.finished, length);
  result.latencies = together.latencies;
  result.alone_latencies = alone.latencies;
  result.mean_ms = mean_ms(together.latencies.ended);
  result.deadline_misses = together.deadline_misses;
  result.alone_mean_ms = mean_ms(alone.latencies.ended);
  fill_quantiles(result);
  result.parts = together.mean_parts();
  result.alone_parts = alone.mean_parts();
  result.alone_throughput_per_s = per_second(alone.finished, length);

  const bool sent_any = together.finished + together.dropped + together.unfinished > 0;
  result.slowdown = ratio(together.turnaround_ms(), alone.turnaround_ms());
  if (together.latencies.ended.empty() && sent_any) result.slowdown = std::numeric_limits<double>::infinity();
  if (w.fixed_work) {
    result.progress =
        together.latencies.ended.empty() && sent_any ? 0 : ratio(alone.turnaround_ms(), together.turnaround_ms());
  } else {
    result.progress = ratio(together.work_ps, alone.work_ps);
  }
  return result;
}

/// Fills in what is said of all clients together.  A client for which a number is undefined does not count in
/// it.
void summarise(RunResult& result) {
  double slowdowns = 0, progress = 0, squares = 0;
  double least = std::numeric_limits<double>::infinity(), most = 0;
  int with_slowdown = 0, with_progress = 0;
  for (const ClientResult& c : result.clients) {
    if (!std::isnan(c.slowdown)) {
      slowdowns += c.slowdown;
      ++with_slowdown;
    }
    if (!std::isnan(c.progress)) {
      progress += c.progress;
      squares += c.progress * c.progress;
      least = std::min(least, c.progress);
      most = std::max(most, c.progress);
      ++with_progress;
    }
  }
  result.stp = with_progress > 0 ? progress : kUndefined;
  result.antt = ratio(slowdowns, with_slowdown);
  result.fairness = ratio(least, most);
  result.jain = ratio(progress * progress, with_progress * squares);
}

/// Clients that have the same are named together, three at most.
std::string arrivals_in_words(const Trace& trace) {
  constexpr std::size_t kNamed = 3;
  std::vector<std::pair<std::string, std::vector<std::string>>> alike;
  for (const Client& client : trace.clients) {
    if (client.replica && client.replica->number != 0) continue;
    const bool dealt = client.replica && (client.serving || !std::holds_alternative<ClosedLoop>(client.arrivals));
    const std::string words = arrivals_in_words(client) + (dealt ? ", dealt in turn" : client.replica ? ", each replica" : "");
    auto at = std::ranges::find(alike, words, [](const auto& one) { return one.first; });
    if (at == alike.end()) at = alike.insert(at, {words, {}});
    at->second.push_back(client.replica ? client.replica->of : client.name);
  }
  std::string text;
  for (auto& [words, names] : alike) {
    if (names.size() > kNamed) {
      const std::string more = fmt::format("+{}", names.size() - kNamed);
      names.resize(kNamed);
      names.push_back(more);
    }
    text += fmt::format("{}{} {}", text.empty() ? "" : "; ", fmt::join(names, ", "), words);
  }
  return text;
}

std::string in_words(const Trace& trace, const Window& w) {
  if (w.fixed_work)
    return fmt::format(
        "the whole run, {:.6g} ms; fixed work, one request a client (running the shorter first raises STP)",
        to_ms(w.end));
  if (!trace.run.duration)
    return fmt::format("{:.6g} ms, until the last client finished its first request; steady state",
                       to_ms(w.end));
  return fmt::format("{:.6g} ms to {:.6g} ms; steady state", to_ms(w.begin), to_ms(w.end));
}

}  // namespace

void fill_quantiles(ClientResult& c) {
  c.p50_ms = c.latencies.quantile_ms(50), c.p95_ms = c.latencies.quantile_ms(95), c.p99_ms = c.latencies.quantile_ms(99);
  c.max_ms = c.latencies.quantile_ms(100);
  c.alone_p50_ms = c.alone_latencies.quantile_ms(50), c.alone_p95_ms = c.alone_latencies.quantile_ms(95);
  c.alone_p99_ms = c.alone_latencies.quantile_ms(99);
  if (c.served) fill_quantiles(*c.served);
}

void fill_quantiles(ServedResult& s) {
  s.first_token_p50_ms = s.first_token.quantile_ms(50), s.first_token_p99_ms = s.first_token.quantile_ms(99);
  s.per_token_p50_ms = s.per_token.quantile_ms(50), s.per_token_p99_ms = s.per_token.quantile_ms(99);
  s.between_tokens_p50_ms = s.between_tokens.quantile_ms(50), s.between_tokens_p99_ms = s.between_tokens.quantile_ms(99);
  s.end_to_end_p50_ms = s.end_to_end.quantile_ms(50), s.end_to_end_p99_ms = s.end_to_end.quantile_ms(99);
}

Window window_of(const Trace& trace, std::span<const RequestRecord> together) {
  if (trace.run.duration) return {trace.run.warm_up, std::max(*trace.run.duration, trace.run.warm_up), false};

  std::vector<std::uint64_t> sent(trace.clients.size());
  std::vector<Time> first_end(trace.clients.size(), kNever);
  for (const RequestRecord& r : together) {
    ++sent[r.client.value];
    if (has_finished(r)) first_end[r.client.value] = std::min(first_end[r.client.value], r.finished);
  }
  Window window;
  window.fixed_work = !trace.clients.empty() && std::ranges::all_of(trace.clients, sends_one_request) &&
                      std::ranges::all_of(sent, [](std::uint64_t n) { return n <= 1; });
  for (std::size_t i = 0; i < sent.size(); ++i)
    if (sent[i] > 0) window.end = std::max(window.end, first_end[i]);
  if (window.end == kNever) window.end = last_known(together);
  return window;
}

std::vector<std::string> texts_of(const RunResult& result) {
  std::vector<std::string> texts;
  for (const Note& note : result.notes) texts.push_back(note.text);
  return texts;
}

void add_note(RunResult& result, NoteKind kind, std::string text) {
  result.notes.insert(std::ranges::upper_bound(result.notes, kind, {}, &Note::kind), {kind, std::move(text)});
}

std::string arrivals_in_words(const Client& client) {
  if (client.serving) return fmt::format("{} sequences as recorded, queued", client.serving->sequences.size());
  const auto open = [&](std::string when) {
    return when + (client.stale == Stale::queue ? ", queued" : ", the newest replaces who waits");
  };
  if (const auto* loop = std::get_if<ClosedLoop>(&client.arrivals)) {
    const std::string at_once = loop->in_flight > 1 ? fmt::format("{} at once", loop->in_flight) : "one after the other";
    return loop->think_time == Time{} ? at_once : fmt::format("{}, {:.4g} ms between", at_once, to_ms(loop->think_time));
  }
  if (const auto* periodic = std::get_if<Periodic>(&client.arrivals)) return open(fmt::format("every {:.4g} ms", to_ms(periodic->period)));
  if (const auto* poisson = std::get_if<Poisson>(&client.arrivals)) return open(fmt::format("Poisson, {:.4g} /s", poisson->rate_per_s));
  if (const auto* recorded = std::get_if<ExplicitTimes>(&client.arrivals)) return open(fmt::format("{} recorded times", recorded->times.size()));
  return "once";
}

RunResult measure(const Trace& trace, Window window, std::span<const RequestRecord> together,
                  std::span<const std::vector<RequestRecord>> alone) {
  RunResult result;
  result.trace = trace.name;
  result.gpu = trace.gpu;
  result.seed = trace.run.seed;
  result.window = in_words(trace, window);
  result.alone = "each client by itself under the same arrivals";
  result.arrivals = arrivals_in_words(trace);
  result.duration = window.end - window.begin;
  result.makespan = last_end(together);
  for (const std::string& note : trace.carried) add_note(result, NoteKind::carried, note);
  for (const std::string& note : trace.notes) add_note(result, NoteKind::trace, note);

  std::vector<std::vector<const RequestRecord*>> shared(trace.clients.size());
  for (const RequestRecord& r : together) shared[r.client.value].push_back(&r);

  const bool by_resource =
      std::ranges::any_of(together, [](const RequestRecord& r) { return r.parts.of_running.sum() > Time{}; });
  struct Replicas {
    Tally together, alone;
    const Client* first;
  };
  std::vector<std::pair<std::string, Replicas>> servers;
  std::size_t without_end = 0;
  for (std::size_t i = 0; i < trace.clients.size(); ++i) {
    const Client& client = trace.clients[i];
    std::vector<const RequestRecord*> solo;
    if (i < alone.size())
      for (const RequestRecord& r : alone[i]) solo.push_back(&r);
    const Tally beside = tally(std::move(shared[i]), window, client.deadline), by_itself = tally(std::move(solo), window, client.deadline);
    result.clients.push_back(client_result(client, window, beside, by_itself));
    if (client.replica) {
      auto at = std::ranges::find(servers, client.replica->of, [](const auto& one) { return one.first; });
      if (at == servers.end()) at = servers.insert(at, {client.replica->of, {{}, {}, &client}});
      merge(at->second.together, beside), merge(at->second.alone, by_itself);
      result.clients.back().replica_of = client.replica->of;
    }
    if (by_resource) result.clients.back().running_parts = beside.mean_running_parts();
    if (std::isinf(result.clients.back().slowdown)) ++without_end;
  }
  if (without_end > 0)
    add_note(result, NoteKind::unfinished,
             fmt::format("{} of {} clients finished no request in the window: their slowdown is infinite",
                         without_end, trace.clients.size()));
  for (const auto& [name, of] : servers) {
    result.servers.push_back(client_result(*of.first, window, of.together, of.alone));
    result.servers.back().name = name;
    result.servers.back().replicas = of.first->replica->among;
  }
  summarise(result);
  return result;
}

}  // namespace corun
