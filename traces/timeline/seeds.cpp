#include "traces/timeline/seeds.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <limits>
#include <numeric>

#include "traces/model/statistics.h"
#include "traces/timeline/report.h"

namespace corun {
namespace {

constexpr std::array kRunNumbers{&RunResult::stp, &RunResult::antt, &RunResult::fairness, &RunResult::jain, &RunResult::sm_busy, &RunResult::occupancy};
constexpr std::array kClientCounts{&ClientResult::finished, &ClientResult::dropped, &ClientResult::unfinished, &ClientResult::deadline_misses};
constexpr std::array kClientNumbers{
    &ClientResult::throughput_per_s, &ClientResult::mean_ms, &ClientResult::alone_mean_ms, &ClientResult::alone_throughput_per_s,
    &ClientResult::slowdown, &ClientResult::progress};
constexpr std::array kSamples{&ClientResult::latencies, &ClientResult::alone_latencies};
constexpr std::array kServedSamples{&ServedResult::first_token, &ServedResult::per_token, &ServedResult::between_tokens, &ServedResult::end_to_end};
constexpr std::array kParts{&PartsMs::queue, &PartsMs::host, &PartsMs::held, &PartsMs::launching, &PartsMs::waiting,
                            &PartsMs::off_turn, &PartsMs::copying, &PartsMs::preempted, &PartsMs::running};
constexpr std::array kRunning{&RunningPartsMs::alone, &RunningPartsMs::places, &RunningPartsMs::issue, &RunningPartsMs::pipes,
                              &RunningPartsMs::l2, &RunningPartsMs::dram, &RunningPartsMs::clock};
constexpr std::array kServedCounts{&ServedResult::sequences, &ServedResult::finished, &ServedResult::unfinished, &ServedResult::waiting, &ServedResult::good,
                                   &ServedResult::late, &ServedResult::pending};
constexpr std::array kServedNumbers{&ServedResult::first_token_mean_ms, &ServedResult::per_token_mean_ms, &ServedResult::between_tokens_mean_ms,
                                    &ServedResult::end_to_end_mean_ms,  &ServedResult::sequences_per_s,   &ServedResult::tokens_per_s,
                                    &ServedResult::goodput_per_s};
constexpr std::array kIntervals{std::pair(&ClientIntervals::mean_ms, &ClientResult::mean_ms), std::pair(&ClientIntervals::p50_ms, &ClientResult::p50_ms),
                                std::pair(&ClientIntervals::p95_ms, &ClientResult::p95_ms), std::pair(&ClientIntervals::p99_ms, &ClientResult::p99_ms),
                                std::pair(&ClientIntervals::throughput_per_s, &ClientResult::throughput_per_s)};
constexpr std::array kPreempted{&PreemptionResult::count, &PreemptionResult::launches, &PreemptionResult::redone_blocks};
constexpr std::array kSpread{&Spread::mean_us, &Spread::p50_us, &Spread::p99_us, &Spread::max_us};

template <class Struct, std::size_t N, class Of>
void average(Struct& to, const std::array<double Struct::*, N>& numbers, std::span<const RunResult> runs, Of of) {
  for (double Struct::*number : numbers) to.*number = estimate(runs, [&](const RunResult& r) { return of(r).*number; }).mean;
}
template <class Struct, std::size_t N, class Of>
void add_up(Struct& to, const std::array<std::uint64_t Struct::*, N>& counts, std::span<const RunResult> runs, Of of) {
  for (std::uint64_t Struct::*count : counts)
    to.*count = std::accumulate(runs.begin(), runs.end(), std::uint64_t{0}, [&](std::uint64_t sum, const RunResult& r) { return sum + of(r).*count; });
}
template <class Struct, std::size_t N, class Of>
void pool(Struct& to, const std::array<Sample Struct::*, N>& samples, std::span<const RunResult> runs, Of of) {
  for (Sample Struct::*sample : samples)
    for (const RunResult& r : runs.subspan(1)) (to.*sample).add(of(r).*sample);
}
template <class Of>
void average(Interval& to, std::span<const RunResult> runs, Of of) {
  average(to, std::array{&Interval::low, &Interval::high}, runs, of);
}

void average(ClientResult& to, std::vector<ClientResult> RunResult::*of, std::size_t i, std::span<const RunResult> runs) {
  const auto client = [&](const RunResult& r) -> const ClientResult& { return (r.*of)[i]; };
  average(to, kClientNumbers, runs, client);
  add_up(to, kClientCounts, runs, client);
  pool(to, kSamples, runs, client);
  average(to.parts, kParts, runs, [&](const RunResult& r) -> const PartsMs& { return client(r).parts; });
  average(to.alone_parts, kParts, runs, [&](const RunResult& r) -> const PartsMs& { return client(r).alone_parts; });
  const auto all_have = [&](auto member) { return std::ranges::all_of(runs, [&](const RunResult& r) { return (client(r).*member).has_value(); }); };
  if (!all_have(&ClientResult::running_parts)) to.running_parts.reset();
  if (to.running_parts) average(*to.running_parts, kRunning, runs, [&](const RunResult& r) -> const RunningPartsMs& { return *client(r).running_parts; });
  if (to.served) {
    const auto served = [&](const RunResult& r) -> const ServedResult& { return *client(r).served; };
    average(*to.served, kServedNumbers, runs, served);
    add_up(*to.served, kServedCounts, runs, served);
    pool(*to.served, kServedSamples, runs, served);
  }
  fill_quantiles(to);
  if (!all_have(&ClientResult::intervals)) to.intervals.reset();
  if (to.intervals)
    for (const auto& [interval, number] : kIntervals) {  // as wide as in the mean
      const auto times = [&](double Interval::*end) {
        return estimate(runs, [&](const RunResult& r) { return (*client(r).intervals).*interval.*end / (client(r).*number); }).mean;
      };
      (*to.intervals).*interval = {to.*number * times(&Interval::low), to.*number * times(&Interval::high)};
    }
  for (const RunResult& r : runs)
    if (to.failed.empty()) to.failed = client(r).failed;
}

}  // namespace

bool is_random(const Trace& trace) {
  return std::ranges::any_of(trace.clients, [](const Client& client) { return std::holds_alternative<Poisson>(client.arrivals) || client.host_stalls; });
}

std::vector<std::uint64_t> usual_seeds(const Trace& trace) {
  constexpr std::uint64_t kSeeds = 5;  // the tutorial's table stays below two seconds
  std::vector<std::uint64_t> seeds{trace.run.seed};
  while (is_random(trace) && seeds.size() < kSeeds) seeds.push_back(seeds.back() + 1);
  return seeds;
}

double Estimate::half_width() const {
  if (runs < 2) return std::numeric_limits<double>::infinity();
  const boost::math::students_t t(static_cast<double>(runs - 1));
  return boost::math::quantile(t, 0.975) * deviation / std::sqrt(static_cast<double>(runs));
}

Estimate estimate(std::span<const double> values) {
  Estimate e{.runs = values.size(), .mean = mean({values.begin(), values.end()}), .deviation = 0, .least = 0, .most = 0};
  if (values.empty()) return e;
  std::tie(e.least, e.most) = std::pair(std::ranges::min(values), std::ranges::max(values));
  if (e.least == e.most) e.mean = e.least;  // without what rounding adds
  double squares = 0;
  for (const double v : values) squares += (v - e.mean) * (v - e.mean);
  if (values.size() > 1) e.deviation = std::sqrt(squares / static_cast<double>(values.size() - 1));
  return e;
}

Estimate estimate(std::span<const RunResult> runs, const std::function<double(const RunResult&)>& number) {
  std::vector<double> values;
  for (const RunResult& r : runs)
    if (const double value = number(r); !std::isnan(value)) values.push_back(value);
  return estimate(values);
}

RunResult over_seeds(std::span<const RunResult> runs) {
  RunResult to = runs.front();
  if (runs.size() == 1) return to;
  to.seeds = runs.size();
  const auto whole = [](const RunResult& r) -> const RunResult& { return r; };
  average(to, kRunNumbers, runs, whole);
  add_up(to, std::array{&RunResult::blocks, &RunResult::events}, runs, whole);
  for (const auto of : {&RunResult::clients, &RunResult::servers})
    for (std::size_t i = 0; i < (to.*of).size(); ++i) average((to.*of)[i], of, i, runs);
  if (to.stp_interval && std::ranges::all_of(runs, [](const RunResult& r) { return r.stp_interval.has_value(); }))
    average(*to.stp_interval, runs, [](const RunResult& r) -> const Interval& { return *r.stp_interval; });
  add_up(to.preemption, kPreempted, runs, [](const RunResult& r) -> const PreemptionResult& { return r.preemption; });
  for (Spread PreemptionResult::*of : {&PreemptionResult::latency, &PreemptionResult::start_delay})
    average(to.preemption.*of, kSpread, runs, [&](const RunResult& r) -> const Spread& { return r.preemption.*of; });
  to.wall_s = 0;
  for (const RunResult& r : runs) {
    to.makespan = std::max(to.makespan, r.makespan);
    to.memory_peak = std::max(to.memory_peak, r.memory_peak);
    to.wall_s += r.wall_s;
    for (const Note& note : r.notes)
      if (std::ranges::find(to.notes, note) == to.notes.end()) add_note(to, note.kind, note.text);
  }
  add_up(to, std::array{&RunResult::checkpoints, &RunResult::moved_bytes}, std::span<const RunResult>(runs), whole);
  return to;
}

std::vector<NamedEstimate> estimates(std::span<const RunResult> runs, Figure figure) {
  if (figure == Figure::stp) return {{"STP", estimate(runs, [](const RunResult& r) { return r.stp; })}};
  std::vector<NamedEstimate> all;
  for (const auto of : {&RunResult::clients, &RunResult::servers})
    for (std::size_t i = 0; i < (runs.front().*of).size(); ++i)
      all.push_back({(runs.front().*of)[i].name + (figure == Figure::p99 ? " p99" : " mean"),
                     estimate(runs, [&](const RunResult& r) { return figure == Figure::p99 ? (r.*of)[i].p99_ms : (r.*of)[i].mean_ms; })});
  return all;
}

std::string format_seeds(std::span<const std::vector<RunResult>> by_policy) {
  std::vector<std::vector<std::string>> rows{{fmt::format("over {} seeds", by_policy.front().size()), "", "mean ± deviation", "least … most"}};
  for (const std::vector<RunResult>& runs : by_policy)
    for (const Figure figure : {Figure::stp, Figure::p99})
      for (const NamedEstimate& e : estimates(runs, figure)) {
        const Estimate& of = e.estimate;
        const auto digits = [&](double value) { return figure == Figure::stp ? fmt::format("{:.3f}", value) : fmt::format("{:.4g}", value); };
        rows.push_back({figure == Figure::stp ? runs.front().policy : "", e.name, fmt::format("{} ± {}", digits(of.mean), digits(of.deviation)),
                        fmt::format("{} … {}", digits(of.least), digits(of.most))});
      }
  return format_table(rows);
}

}  // namespace corun
