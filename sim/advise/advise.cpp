#include "sim/advise/advise.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <map>
#include <ranges>
#include <set>

#include "sim/advise/trial.h"
#include "sim/input/carry.h"
#include "sim/oracle/oracle.h"
#include "traces/model/error.h"
#include "traces/json/spelling.h"

namespace corun::sim {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr double kNineOfTen = 1.645;  // standard deviations of a normal distribution
/// More clients have too many divisions to simulate each.
constexpr std::size_t kMostSplit = 4;

/// Order of a search over divisions: a setting that holds before one that does not; of those that do not, the one that misses by less.
double merit_of(const Tried& t) {
  return !t.ran() ? -kInfinite : !t.holds() ? 1 / t.use : (t.holds_likely() ? 4 : 2) + std::tanh(t.value * 1e-6);
}

void try_card(Trial& trial, const AdvisedCard& card, const AdviseOptions& options, std::vector<Tried>& all) {
  const auto try_all = [&](const std::vector<Setting>& settings) {
    std::vector<double> merits;
    for (Tried& t : trial.of(settings)) {
      merits.push_back(merit_of(t));
      all.push_back(std::move(t));
    }
    return merits;
  };
  std::vector<Setting> first = plain_settings(card.trace);
  const std::size_t clients = card.trace.clients.size();
  if (clients > 1)
    for (Setting& setting : percentage_settings(card.trace)) first.push_back(std::move(setting));
  for (Setting& setting : mig_settings(card.trace, card.gpu)) first.push_back(std::move(setting));
  for (Setting& setting : shared_mig_settings(card.trace, card.gpu)) first.push_back(std::move(setting));
  const auto wanted = [&](SharingMode mode) {
    return options.modes.empty() || std::find(options.modes.begin(), options.modes.end(), mode) != options.modes.end();
  };
  std::erase_if(first, [&](const Setting& s) {
    const bool to_be_set_up = clients > 1 || s.mode == SharingMode::mig;
    return to_be_set_up && !wanted(s.mode);
  });
  const std::size_t begin = all.size();
  try_all(first);
  if (clients < 2 || clients > kMostSplit) return;
  if (wanted(SharingMode::percentages)) {
    std::set<std::string> tried;
    for (std::size_t i = begin; i < all.size(); ++i) tried.insert(all[i].setting.policy);
    for (const std::uint32_t step : {40u, 20u, 10u}) {  // uneven ones, from the best so far
      std::size_t best = all.size();
      for (std::size_t i = begin; i < all.size(); ++i)
        if (!all[i].setting.percent.empty() && (best == all.size() || merit_of(all[i]) > merit_of(all[best]))) best = i;
      if (!all[best].ran()) break;
      std::vector<Setting> next = uneven_settings(card.trace, all[best].setting, step);
      std::erase_if(next, [&](const Setting& s) { return !tried.insert(s.policy).second; });
      try_all(next);
    }
  }
  if (!wanted(SharingMode::green_contexts)) return;
  const std::uint32_t units = card.gpu.sms / kGreenContextSms;
  if (units < clients) return;
  search(static_cast<std::uint32_t>(clients), units, 1, [&](const std::vector<Division>& divisions) {
    std::vector<Setting> settings;
    for (const Division& d : divisions) settings.push_back(green_context_setting(card.trace, card.gpu, d));
    return try_all(settings);
  });
}

/// Throws InputError where under no setting a sequence ended of a server that has promised something.
void expect_ended(const std::vector<Tried>& tried, const std::vector<Slo>& slos) {
  for (const Slo& slo : slos) {
    std::string of;
    const bool may_be_judged = std::ranges::any_of(tried, [&](const Tried& t) {
      if (!t.ran()) return false;
      const ClientResult& client = t.together.clients[slo.client];
      of = client.name;
      return !client.served || client.served->finished != 0;
    });
    if (!may_be_judged && !of.empty())
      throw InputError("", "", fmt::format("nothing in this run says whether {} is kept: under no setting did a sequence of {} end", in_quotes(slo.text), of),
                       "give a --duration in which some do");
  }
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

/// Order of settings that hold.
bool is_better(const Tried& a, const Tried& b) {
  if (a.card != b.card) return a.card < b.card;
  if (a.holds_likely() != b.holds_likely()) return a.holds_likely();
  return a.value > b.value;
}

void name(Advice& advice) {
  const std::vector<Tried>& tried = advice.tried;
  advice.best = best_of(tried);
  advice.next.reset(), advice.nearest.reset();
  for (std::size_t i = 0; i < tried.size(); ++i) {
    const Tried& t = tried[i];
    if (!advice.best && t.ran() && (!advice.nearest || t.use < tried[*advice.nearest].use)) advice.nearest = i;
    if (advice.best && t.holds() && t.setting.mode != tried[*advice.best].setting.mode && t.card == tried[*advice.best].card &&
        (!advice.next || is_better(t, tried[*advice.next])))
      advice.next = i;
  }
}

/// Settings that are shown with what they hold: those named, and of each mode the best that is near.
std::vector<std::size_t> shown(const Advice& advice) {
  const std::vector<Tried>& tried = advice.tried;
  std::vector<std::size_t> all;
  if (advice.nearest) all.push_back(*advice.nearest);
  if (!advice.best) return all;
  std::map<SharingMode, std::size_t> of_modes;
  for (std::size_t i = 0; i < tried.size(); ++i) {
    const Tried& t = tried[i];
    if (!t.holds() || t.card != tried[*advice.best].card) continue;
    const auto [at, is_first] = of_modes.emplace(t.setting.mode, i);
    if (!is_first && is_better(t, tried[at->second])) at->second = i;
  }
  for (const auto& [mode, i] : of_modes)
    if (i == advice.best || i == advice.next || apart(tried[*advice.best].value, tried[i].value) <= kClose) all.push_back(i);
  return all;
}

/// Settings that would be named instead if more seeds made them hold, those that serve the goal best first.
std::vector<std::size_t> rivals(const Advice& advice, std::size_t seeds) {
  const std::vector<Tried>& tried = advice.tried;
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < tried.size(); ++i) {
    const Tried& t = tried[i];
    const bool would_be_named = !advice.best || (t.card <= tried[*advice.best].card && (t.value > tried[*advice.best].value || !tried[*advice.best].holds_likely()));
    if (t.may_hold() && t.results.size() < seeds && would_be_named) all.push_back(i);
  }
  std::ranges::stable_sort(all, [&](std::size_t a, std::size_t b) {
    return tried[a].card != tried[b].card ? tried[a].card < tried[b].card : tried[a].value > tried[b].value;
  });
  return all;
}

}  // namespace

AdvisedCard card_of(const Trace& trace, const Gpu& from, const Gpu& to) {
  Trace there = trace;
  carry_over(there, trace.name, from, to);
  return {to, std::move(there)};
}

double apart(double better, double than) { return than == 0 ? kInfinite : std::abs((better - than) / than); }

bool Tried::may_hold() const {
  // Under one seed, p99 of a few hundred requests was up to 44 % above that of five seeds' requests together (decision 448).
  constexpr double kAbove = 0.5;
  return ran() && use <= 1 + kAbove / static_cast<double>(results.size());
}

Interval interval_of(const Tried& tried, std::size_t client, Metric metric) {
  const Interval model = interval_of(tried.together.clients[client], metric);
  const double value = value_of(tried.together.clients[client], metric);
  if (tried.results.size() < 2 || std::isnan(model.low) || !std::isfinite(value) || value <= 0) return model;
  const Estimate logs = estimate(tried.results, [&](const RunResult& r) { return std::log(value_of(r.clients[client], metric)); });
  const double sampled = kNineOfTen * logs.deviation / std::sqrt(static_cast<double>(logs.runs));
  return {value * std::exp(-std::hypot(std::log(value / model.low), sampled)), value * std::exp(std::hypot(std::log(model.high / value), sampled))};
}

std::optional<std::size_t> best_of(const std::vector<Tried>& all) {
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i].holds() && (!best || is_better(all[i], all[*best]))) best = i;
  return best;
}

Advice advise(const std::vector<AdvisedCard>& cards, const AdviseOptions& options) {
  constexpr std::size_t kAtOnce = 4;  // rivals: one of them that holds spares those behind it
  Advice advice;
  std::deque<Trial> trials;
  for (std::size_t i = 0; i < cards.size(); ++i) try_card(trials.emplace_back(cards[i], i, options), cards[i], options, advice.tried);
  expect_ended(advice.tried, options.slos);
  const std::size_t seeds = std::max<std::size_t>(1, options.seeds.size());
  std::vector<Tried>& tried = advice.tried;
  for (;;) {
    name(advice);
    std::vector<Tried*> incomplete;
    for (const std::size_t i : shown(advice))
      if (tried[i].results.size() < seeds) incomplete.push_back(&tried[i]);
    std::size_t upto = seeds;
    if (incomplete.empty()) {
      std::vector<std::size_t> next = rivals(advice, seeds);
      if (next.empty()) return advice;
      next.resize(std::min(next.size(), kAtOnce));
      std::erase_if(next, [&](std::size_t i) { return tried[i].card != tried[next.front()].card; });
      upto = std::ranges::min(next | std::views::transform([&](std::size_t i) { return tried[i].results.size(); })) + 1;
      for (const std::size_t i : next) incomplete.push_back(&tried[i]);
    }
    trials[incomplete.front()->card].complete(incomplete, upto);
  }
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
    return Trial(changed, 0, options).holds(setting);
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
