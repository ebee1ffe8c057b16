#include "sim/advise/promise.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "traces/json/spelling.h"
#include "traces/model/error.h"

namespace corun::sim {
namespace {

struct MetricName {
  const char* name;
  Metric metric;
  const char* unit;
  bool of_server;
};
constexpr MetricName kMetrics[] = {
    {"p99", Metric::p99, "ms", false},          {"p95", Metric::p95, "ms", false},   {"p50", Metric::p50, "ms", false},
    {"mean", Metric::mean, "ms", false},        {"max", Metric::max, "ms", false},   {"throughput", Metric::throughput, "/s", false},
    {"ttft", Metric::ttft, "ms", true},         {"tbt", Metric::tbt, "ms", true},    {"e2e", Metric::e2e, "ms", true},
    {"goodput", Metric::goodput, "/s", true},   {"tokens", Metric::tokens, "tokens/s", true}};

const MetricName& name_of(Metric metric) {
  return *std::find_if(std::begin(kMetrics), std::end(kMetrics), [&](const MetricName& m) { return m.metric == metric; });
}

struct Named {
  std::size_t client;
  Metric metric;
};

/// "cam:p99"
Named parse_named(const std::string& text, const char* option, const Trace& trace) {
  const std::size_t colon = text.rfind(':');
  std::vector<std::string> names;
  for (const Client& client : trace.clients) names.push_back(client.name);
  if (colon == std::string::npos)
    throw InputError("", option, fmt::format("{} names no client and metric", in_quotes(text)),
                     fmt::format("write {}:{}", names.front(), trace.clients.front().serving ? "ttft" : "p99"));
  const std::string name = text.substr(0, colon), metric = text.substr(colon + 1);
  const auto client = std::find(names.begin(), names.end(), name);
  if (client == names.end())
    throw InputError("", option, fmt::format("there is no client {}{}", in_quotes(name), did_you_mean(name, names)),
                     fmt::format("use one of {}", list_names(names)));
  const auto number = static_cast<std::size_t>(client - names.begin());
  const bool server = trace.clients[number].serving.has_value();
  std::vector<std::string> has;
  const MetricName* known = nullptr;
  for (const MetricName& m : kMetrics) {
    if (m.of_server == server) has.emplace_back(m.name);
    if (metric == m.name) known = &m;
  }
  const std::string remedy = fmt::format("use one of {}", list_names(has));
  if (known == nullptr)
    throw InputError("", option, fmt::format("unknown metric {}{}", in_quotes(metric), did_you_mean(metric, has)), remedy);
  if (known->of_server != server)
    throw InputError("", option,
                     server ? fmt::format("{} serves sequences, and has no {}: each of its requests is a step", name, metric)
                            : fmt::format("{} is no server of sequences, and has no {}", name, metric),
                     remedy);
  return {number, known->metric};
}

/// The interval of a value that errs as `like` does.
Interval scaled(double value, double like, const Interval& of_like) {
  return {value * of_like.low / like, value * of_like.high / like};
}

}  // namespace

bool is_rate(Metric metric) {
  return metric == Metric::throughput || metric == Metric::goodput || metric == Metric::tokens;
}

const char* unit_of(Metric metric) { return name_of(metric).unit; }

double value_of(const ClientResult& c, Metric metric) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  switch (metric) {
    case Metric::mean: return c.mean_ms;
    case Metric::p50: return c.p50_ms;
    case Metric::p95: return c.p95_ms;
    case Metric::p99: return c.p99_ms;
    case Metric::max: return c.max_ms;
    case Metric::throughput: return c.throughput_per_s;
    case Metric::ttft: return c.served ? c.served->first_token_p99_ms : kNone;
    case Metric::tbt: return c.served ? c.served->per_token_p99_ms : kNone;
    case Metric::e2e: return c.served ? c.served->end_to_end_p99_ms : kNone;
    case Metric::goodput: return c.served ? c.served->goodput_per_s : kNone;
    case Metric::tokens: return c.served ? c.served->tokens_per_s : kNone;
  }
  return kNone;
}

Interval interval_of(const ClientResult& c, Metric metric) {
  if (!c.intervals) return {};
  switch (metric) {
    case Metric::mean: return c.intervals->mean_ms;
    case Metric::p50: return c.intervals->p50_ms;
    case Metric::p95: return c.intervals->p95_ms;
    case Metric::p99: return c.intervals->p99_ms;
    case Metric::throughput: return c.intervals->throughput_per_s;
    case Metric::ttft:
    case Metric::e2e: return scaled(value_of(c, metric), c.p99_ms, c.intervals->p99_ms);
    case Metric::tbt: return scaled(value_of(c, metric), c.mean_ms, c.intervals->mean_ms);
    case Metric::max:
    case Metric::goodput:
    case Metric::tokens: break;
  }
  return {};
}

Slo parse_slo(const std::string& text, const Trace& trace) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos)
    throw InputError("", "--slo", fmt::format("{} has no limit", in_quotes(text)), "write cam:p99=20ms");
  const Named named = parse_named(text.substr(0, equals), "--slo", trace);
  const std::string written = text.substr(equals + 1);
  double value = 0;
  const auto [end, error] = std::from_chars(written.data(), written.data() + written.size(), value);
  const std::string unit(end, written.data() + written.size());
  const bool rate = is_rate(named.metric);
  const double to_ms = unit == "ms" ? 1 : unit == "us" ? 1e-3 : unit == "s" ? 1e3 : 0;
  const double factor = rate ? (unit.empty() || unit == "/s" || unit == unit_of(named.metric) ? 1 : 0) : to_ms;
  if (error != std::errc{} || factor == 0 || !(value > 0) || !std::isfinite(value))
    throw InputError("", "--slo", fmt::format("{} is no {}", in_quotes(written), rate ? "rate" : "duration"),
                     !rate ? "write 20ms, 500us or 1s"
                           : fmt::format("write {} a second, as 30", named.metric == Metric::tokens    ? "tokens"
                                                                     : named.metric == Metric::goodput ? "sequences"
                                                                                                       : "requests"));
  return {named.client, named.metric, value * factor, text};
}

std::vector<Slo> slos_of(const Trace& trace) {
  std::vector<Slo> slos;
  for (std::size_t i = 0; i < trace.clients.size(); ++i) {
    const Client& client = trace.clients[i];
    const auto within = [&](Metric metric, const std::optional<Time>& limit) {
      if (limit)
        slos.push_back({i, metric, to_ms(*limit), fmt::format("{}:{}={:.4g}ms", client.name, name_of(metric).name, to_ms(*limit))});
    };
    if (!client.serving) {
      within(Metric::p99, client.deadline);
    } else {
      within(Metric::ttft, client.serving->first_token_slo);
      within(Metric::tbt, client.serving->between_tokens_slo);
      within(Metric::e2e, client.serving->end_to_end_slo);
    }
  }
  return slos;
}

std::vector<Slo> promised(const std::vector<std::string>& written, const Trace& trace) {
  std::vector<Slo> slos;
  for (const std::string& one : written) slos.push_back(parse_slo(one, trace));
  for (Slo& own : slos_of(trace))
    if (std::none_of(slos.begin(), slos.end(), [&](const Slo& s) { return s.client == own.client && s.metric == own.metric; }))
      slos.push_back(std::move(own));
  return slos;
}

Goal parse_goal(const std::string& text, const Trace& trace) {
  if (text == "stp") return {};
  const Named named = parse_named(text, "--maximize", trace);
  return {named.client, named.metric, text};
}

double goal_value(const Goal& goal, const RunResult& result) {
  return goal.client ? value_of(result.clients[*goal.client], goal.metric) : result.stp;
}

double merit_of(const Goal& goal, const RunResult& result) {
  const double value = goal_value(goal, result);
  if (std::isnan(value)) return -std::numeric_limits<double>::infinity();
  return !goal.client || is_rate(goal.metric) ? value : -value;
}

void expect_judged(const std::string& text, Metric metric, const ClientResult& c) {
  const auto fail = [&](const std::string& why) {
    throw InputError("", "", fmt::format("nothing in this run says whether {} is kept: {}", in_quotes(text), why),
                     "give a --duration in which there is, or leave the promise out");
  };
  if (!c.served) {
    if (c.finished + c.dropped + c.unfinished == 0) fail(fmt::format("no request of {} came in the window", c.name));
    return;
  }
  if (c.served->sequences == 0) fail(fmt::format("no sequence of {} came in the window", c.name));
  if (metric == Metric::tbt && c.served->finished != 0 && c.served->unfinished == 0 && std::isnan(c.served->per_token_p99_ms))
    fail(fmt::format("no sequence of {} has two tokens", c.name));
}

}  // namespace corun::sim
