#include "sim/advise/advise.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "policies/api/registry.h"
#include "sim/input/carry.h"
#include "sim/oracle/oracle.h"
#include "sim/run/in_parallel.h"
#include "traces/model/error.h"

namespace corun::sim {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
/// More clients have too many divisions to simulate each.
constexpr std::size_t kMostSplit = 4;

/// Of all requests, how many may be dropped before the quantile is one of these.
double may_be_dropped(Metric metric) {
  switch (metric) {
    case Metric::p50: return 0.5;
    case Metric::p95: return 0.05;
    case Metric::p99: return 0.01;
    case Metric::mean:
    case Metric::max: return 0;
    case Metric::throughput: return 1;
    default: return 0;  // of sequences
  }
}

/// Value over limit, or limit over value: at most 1 where it holds.
double use_of(const Slo& slo, const ClientResult& c) {
  if (!c.failed.empty()) return kInfinite;
  const double value = value_of(c, slo.metric);
  if (is_rate(slo.metric)) return value > 0 ? slo.limit / value : kInfinite;
  if (c.served) return std::isnan(value) ? kInfinite : value / slo.limit;
  const auto all = static_cast<double>(c.finished + c.dropped);
  if (all == 0 || std::isnan(value)) return kInfinite;
  if (static_cast<double>(c.dropped) / all > may_be_dropped(slo.metric)) return kInfinite;
  return value / slo.limit;
}

double merit_of(const Goal& goal, const RunResult& result) {
  const double value = goal_value(goal, result);
  if (std::isnan(value)) return -kInfinite;
  return !goal.client || is_rate(goal.metric) ? value : -value;
}

/// How many times as much of the promise it may use as simulated, in nine of ten cases.
double at_worst(const Slo& slo, const ClientResult& c) {
  const Metric told = slo.metric == Metric::max ? Metric::p99 : slo.metric;  // the largest errs as p99 does
  const double value = value_of(c, told);
  const Interval interval = interval_of(c, told);
  const double times = is_rate(slo.metric) ? value / interval.low : interval.high / value;
  return std::isnan(times) ? 1 : times;
}

void judge(Tried& tried, const AdviseOptions& options) {
  tried.use = tried.worst_use = 0;
  for (std::size_t i = 0; i < options.slos.size(); ++i) {
    const Slo& slo = options.slos[i];
    const ClientResult& client = tried.result.clients[slo.client];
    expect_judged(slo.text, slo.metric, client);
    const double use = use_of(slo, client);
    if (use > tried.use) tried.use = use, tried.tightest = i;
    tried.worst_use = std::max(tried.worst_use, use * at_worst(slo, client));
  }
  if (options.goal.client) expect_judged(options.goal.text, options.goal.metric, tried.result.clients[*options.goal.client]);
  tried.value = merit_of(options.goal, tried.result);
}

class Trial {
 public:
  Trial(const AdvisedCard& card, std::size_t number, const AdviseOptions& options, std::vector<Tried>& all)
      : card_(card), number_(number), options_(options), all_(all) {}

  std::vector<double> try_all(const std::vector<Setting>& settings) {
    std::vector<Tried> tried(settings.size());
    const auto tell = [&](std::size_t i, double share) {
      if (options_.progress) options_.progress(settings[i].words.c_str(), share);
    };
    in_parallel(settings.size(), options_.threads, tell,
                [&](std::size_t i) { tried[i] = try_one(settings[i]); });
    std::vector<double> merits;
    for (Tried& t : tried) {
      // What holds comes before what does not; of what does not, what misses by less.
      merits.push_back(!t.ran()     ? -kInfinite
                       : !t.holds() ? 1 / t.use
                                    : (t.holds_likely() ? 4 : 2) + std::tanh(t.value * 1e-6));
      all_.push_back(std::move(t));
    }
    return merits;
  }

  Tried try_one(const Setting& setting) {
    Tried tried;
    tried.card = number_;
    tried.setting = setting;
    try {
      const Trace trace = under(setting, card_.trace);
      tried.bases = bases_of(trace, make_policy(setting.policy)->requirements());
      tried.result =
          run(trace, card_.gpu,
              {{.policy = setting.policy, .interrupt = options_.interrupt}, options_.engine, 1, &memory_});
    } catch (const InputError& error) {
      tried.refused = error.problem();
      return tried;
    }
    judge(tried, options_);
    return tried;
  }

 private:
  const AdvisedCard& card_;
  std::size_t number_;
  const AdviseOptions& options_;
  Memory memory_;
  std::vector<Tried>& all_;
};

void try_card(const AdvisedCard& card, std::size_t number, const AdviseOptions& options, std::vector<Tried>& all) {
  Trial trial(card, number, options, all);
  std::vector<Setting> first = plain_settings(card.trace);
  const std::size_t clients = card.trace.clients.size();
  if (clients > 1)
    for (Setting& setting : percentage_settings(card.trace)) first.push_back(std::move(setting));
  for (Setting& setting : mig_settings(card.trace, card.gpu)) first.push_back(std::move(setting));
  const auto wanted = [&](SharingMode mode) {
    return options.modes.empty() || std::find(options.modes.begin(), options.modes.end(), mode) != options.modes.end();
  };
  std::erase_if(first, [&](const Setting& s) {
    const bool to_be_set_up = clients > 1 || s.mode == SharingMode::mig;
    return to_be_set_up && !wanted(s.mode);
  });
  trial.try_all(first);
  if (!wanted(SharingMode::green_contexts)) return;
  const std::uint32_t units = card.gpu.sms / kGreenContextSms;
  if (clients < 2 || clients > kMostSplit || units < clients) return;
  search(static_cast<std::uint32_t>(clients), units, 1, [&](const std::vector<Division>& divisions) {
    std::vector<Setting> settings;
    for (const Division& d : divisions) settings.push_back(green_context_setting(card.trace, card.gpu, d));
    return trial.try_all(settings);
  });
}

/// Requests or sequences come `factor` times as often; false for a client that has no rate.
bool speed_up(Client& client, double factor) {
  const auto sooner = [&](Time& at) { at = Time{std::llround(static_cast<double>(at.count()) / factor)}; };
  if (client.serving) {
    for (Sequence& s : client.serving->sequences) sooner(s.at);
    return client.serving->sequences.back().at > client.serving->sequences.front().at;
  }
  if (auto* periodic = std::get_if<Periodic>(&client.arrivals)) {
    periodic->period = Time{std::max<std::int64_t>(1, std::llround(static_cast<double>(periodic->period.count()) / factor))};
    return true;
  }
  if (auto* poisson = std::get_if<Poisson>(&client.arrivals)) {
    poisson->rate_per_s *= factor;
    return true;
  }
  auto* times = std::get_if<ExplicitTimes>(&client.arrivals);
  if (times == nullptr || times->times.size() < 2) return false;
  for (Time& at : times->times) sooner(at);
  return true;
}

double rate_of(const Client& client) {
  const auto over = [](std::size_t count, Time first, Time last) { return static_cast<double>(count - 1) / (to_ns(last - first) * 1e-9); };
  if (client.serving) return over(client.serving->sequences.size(), client.serving->sequences.front().at, client.serving->sequences.back().at);
  if (const auto* periodic = std::get_if<Periodic>(&client.arrivals)) return 1e9 / to_ns(periodic->period);
  if (const auto* poisson = std::get_if<Poisson>(&client.arrivals)) return poisson->rate_per_s;
  const auto& times = std::get<ExplicitTimes>(client.arrivals).times;
  return over(times.size(), times.front(), times.back());
}

}  // namespace

AdvisedCard card_of(const Trace& trace, const Gpu& from, const Gpu& to) {
  Trace there = trace;
  carry_over(there, trace.name, from, to);
  return {to, std::move(there)};
}

Advice advise(const std::vector<AdvisedCard>& cards, const AdviseOptions& options) {
  Advice advice;
  for (std::size_t i = 0; i < cards.size(); ++i) try_card(cards[i], i, options, advice.tried);
  const auto& tried = advice.tried;
  const auto better = [&](std::size_t a, std::size_t b) {  // ties: the one that was tried first
    if (tried[a].card != tried[b].card) return tried[a].card < tried[b].card;
    if (tried[a].holds_likely() != tried[b].holds_likely()) return tried[a].holds_likely();
    return tried[a].value > tried[b].value;
  };
  for (std::size_t i = 0; i < tried.size(); ++i) {
    if (tried[i].holds() && (!advice.best || better(i, *advice.best))) advice.best = i;
    if (tried[i].ran() && (!advice.nearest || tried[i].use < tried[*advice.nearest].use)) advice.nearest = i;
  }
  if (!advice.best) return advice;
  advice.nearest.reset();
  for (std::size_t i = 0; i < tried.size(); ++i)
    if (tried[i].holds() && tried[i].setting.mode != tried[*advice.best].setting.mode &&
        tried[i].card == tried[*advice.best].card && (!advice.next || better(i, *advice.next)))
      advice.next = i;
  return advice;
}

std::optional<HighestRate> highest_rate(const AdvisedCard& card, const Setting& setting, std::size_t client,
                                        const AdviseOptions& options) {
  constexpr double kMost = 16;
  constexpr int kSteps = 7;  // to 1 %, from a factor of two
  AdvisedCard changed = card;
  if (!speed_up(changed.trace.clients[client], 1)) return std::nullopt;
  HighestRate rate;
  rate.now = rate_of(card.trace.clients[client]);
  const auto holds = [&](double factor) {
    changed.trace.clients[client] = card.trace.clients[client];
    speed_up(changed.trace.clients[client], factor);
    std::vector<Tried> none;
    return Trial(changed, 0, options, none).try_one(setting).holds();
  };
  double low = 1, high = 2;
  if (!holds(low)) {
    for (high = 1, low = 0.5; !holds(low); high = low, low /= 2)
      if (low < 1 / kMost) return rate;
  } else {
    for (; holds(high); low = high, high *= 2)
      if (high >= kMost) {
        rate.highest = rate.now * high, rate.more = true;
        return rate;
      }
  }
  for (int i = 0; i < kSteps; ++i) {
    const double middle = (low + high) / 2;
    (holds(middle) ? low : high) = middle;
  }
  rate.highest = rate.now * low;
  return rate;
}

}  // namespace corun::sim
