#include "sim/advise/what_if.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "sim/advise/trial.h"
#include "traces/model/error.h"

namespace corun::sim {
namespace {

constexpr std::size_t kMostAsked = 5;

/// First what was named, or was nearest.  Then the next, what has most left, for assumptions that take some of it; of what serves the goal
/// better, for those that give more, what breaks by least and what serves it best; then the best of each way of sharing.
std::vector<Setting> asked_again(const Advice& advice, std::size_t named) {
  const std::vector<Tried>& tried = advice.tried;
  const auto comes_before = [&](std::size_t a, std::size_t b) {
    const Tried &x = tried[a], &y = tried[b];
    if (x.holds() != y.holds()) return x.holds();
    if (!x.holds()) return x.use < y.use;
    return x.holds_likely() != y.holds_likely() ? x.holds_likely() : x.value > y.value;
  };
  std::map<SharingMode, std::size_t> best;
  std::size_t safest = named, nearest = named, boldest = named;
  for (std::size_t i = 0; i < tried.size(); ++i) {
    const Tried& t = tried[i];
    if (!t.ran() || t.card != tried[named].card) continue;
    const auto [at, is_first] = best.emplace(t.setting.mode, i);
    if (!is_first && comes_before(i, at->second)) at->second = i;
    if (t.use < tried[safest].use) safest = i;
    if (t.value <= tried[named].value || apart(t.value, tried[named].value) <= kClose) continue;
    if (nearest == named || t.use < tried[nearest].use) nearest = i;
    if (t.value > tried[boldest].value) boldest = i;
  }
  std::vector<std::size_t> others;
  for (const auto& [mode, i] : best) others.push_back(i);
  std::stable_sort(others.begin(), others.end(), comes_before);
  std::vector<std::size_t> all{named, advice.next.value_or(named), safest, nearest, boldest};
  all.insert(all.end(), others.begin(), others.end());
  std::vector<Setting> settings;
  for (auto i = all.begin(); i != all.end() && settings.size() < kMostAsked; ++i)
    if (std::find(all.begin(), i, *i) == i) settings.push_back(tried[*i].setting);
  return settings;
}

Interval goal_interval(const Goal& goal, const Tried& tried) {
  if (goal.client) return interval_of(tried, *goal.client, goal.metric);
  return tried.together.stp_interval.value_or(Interval{});
}

/// Fills in what `of`, of which the first was named, says of the advice.
void judge(WhatIf& what, const std::vector<Tried>& of, bool something_held, const Goal& goal) {
  const std::optional<std::size_t> best = best_of(of);
  if (!something_held) {
    what.changes = best.has_value();
    if (best) what.instead = of[*best];
    return;
  }
  const Tried& named = of.front();
  what.named = named;
  if (!named.holds()) {
    what.changes = true;
    if (best) what.instead = of[*best];
    return;
  }
  const Tried& other = of[*best];
  if (other.value <= named.value || apart(other.value, named.value) <= kClose) return;
  what.changes = true, what.instead = other, what.apart = apart(other.value, named.value);
  const Interval one = goal_interval(goal, named), two = goal_interval(goal, other);
  what.surely = one.high < two.low || two.high < one.low;
}

/// One assumption of the clients; false where there is nothing to vary.
struct Variation {
  const char* assumed;
  bool (*vary)(Trace&);
};

bool to_random(Trace& trace) {
  bool varied = false;
  for (Client& client : trace.clients)
    if (const auto* periodic = std::get_if<Periodic>(&client.arrivals)) {
      client.arrivals = Poisson{1e9 / to_ns(periodic->period), 0};
      client.stale = Stale::queue, varied = true;
    }
  return varied;
}

bool to_periodic(Trace& trace) {
  bool varied = false;
  for (Client& client : trace.clients)
    if (const auto* random = std::get_if<Poisson>(&client.arrivals))
      client.arrivals = Periodic{from_ns(1e9 / random->rate_per_s), Time{}}, varied = true;
  return varied;
}

bool hand_over(Trace& trace, Issue from, Issue to) {
  bool varied = false;
  for (Client& client : trace.clients)
    if (!client.serving && issue_of(client, trace.programs[client.program.value]) == from) client.issue = to, varied = true;
  return varied;
}

constexpr Variation kVariations[] = {
    {"Poisson arrivals with queues", to_random},
    {"periodic arrivals", to_periodic},
    {"requests handed over by single calls", [](Trace& t) { return hand_over(t, Issue::graph, Issue::eager); }},
    {"requests handed over at once, as graphs", [](Trace& t) { return hand_over(t, Issue::eager, Issue::graph); }}};

class Asked {
 public:
  Asked(const AdvisedCard& card, const Advice& advice, std::size_t named, const AdviseOptions& options)
      : card_(card), advice_(advice), options_(options), settings_(asked_again(advice, named)) {}

  WhatIf again(const std::string& assumed, const Trace& trace, std::vector<std::uint64_t> seeds) const {
    WhatIf what{.assumed = assumed};
    const AdvisedCard card{card_.gpu, trace};
    AdviseOptions options = options_;
    options.seeds = std::move(seeds);
    options.alone = !options.goal.client;
    try {
      Trial trial(card, 0, options);
      std::vector<Tried> tried = trial.of(settings_);
      for (std::size_t seeds = 2; seeds <= options.seeds.size(); ++seeds) {
        std::vector<Tried*> may_be_named;
        for (Tried& t : tried)
          if (t.may_hold() && (&t == &tried.front() || !tried.front().may_hold() || t.value > tried.front().value)) may_be_named.push_back(&t);
        trial.complete(may_be_named, seeds);
      }
      if (!tried.front().ran())
        what.refused = tried.front().refused;
      else
        judge(what, tried, advice_.best.has_value(), options.goal);
    } catch (const InputError& error) {
      what.refused = error.problem();
    }
    return what;
  }

 private:
  const AdvisedCard& card_;
  const Advice& advice_;
  const AdviseOptions& options_;
  std::vector<Setting> settings_;
};

/// A seed that by itself would name another of the settings that hold as surely under all.
WhatIf under_single_seeds(const Advice& advice, const Goal& goal) {
  const Tried& named = advice.tried[*advice.best];
  WhatIf what{.assumed = "one of the seeds by itself", .named = named};
  for (const Tried& t : advice.tried) {
    if (!t.holds() || t.holds_likely() < named.holds_likely() || t.card != named.card || t.results.size() != named.results.size()) continue;
    for (std::size_t r = 0; r < t.results.size(); ++r) {
      const double other = merit_of(goal, t.results[r]), own = merit_of(goal, named.results[r]);
      if (other > own && apart(other, own) > std::max(kClose, what.apart)) what.changes = true, what.instead = t, what.apart = apart(other, own);
    }
  }
  return what;
}

/// The named setting where the model errs as much as it may: whether it still holds, and which does else.
WhatIf at_the_bad_end(const AdvisedCard& card, const Advice& advice, const AdviseOptions& options) {
  const Tried& named = advice.tried[*advice.best];
  WhatIf what{.assumed = "the model errs as far as one measurement in ten does", .named = named};
  if (named.holds_surely()) return what;
  what.changes = true;
  std::vector<Tried> sure;
  for (const Tried& t : advice.tried)
    if (t.card == named.card && t.holds_surely()) sure.push_back(t);
  Trial trial(card, named.card, options);
  for (;;) {
    std::erase_if(sure, [](const Tried& t) { return !t.holds_surely(); });
    const std::optional<std::size_t> best = best_of(sure);
    if (!best) break;
    if (sure[*best].results.size() >= options.seeds.size()) {
      what.instead = sure[*best];
      break;
    }
    trial.complete({&sure[*best]}, options.seeds.size());
  }
  return what;
}

}  // namespace

std::vector<WhatIf> what_would_change(const std::vector<AdvisedCard>& cards, const Advice& advice, const AdviseOptions& options) {
  std::vector<WhatIf> all;
  const auto named = advice.best ? advice.best : advice.nearest;
  if (!named) return all;
  const AdvisedCard& card = cards[advice.tried[*named].card];
  const Asked asked(card, advice, *named, options);
  for (const Variation& variation : kVariations) {
    Trace trace = card.trace;
    if (!variation.vary(trace)) continue;
    std::vector<std::uint64_t> seeds = is_random(card.trace) && !options.seeds.empty() ? options.seeds : usual_seeds(trace);
    if (!is_random(trace)) seeds.resize(1);
    all.push_back(asked.again(variation.assumed, trace, seeds));
  }
  if (is_random(card.trace) && options.seeds.size() == 1)
    all.push_back(asked.again("another seed", card.trace, {options.seeds.front() + 1}));
  else if (is_random(card.trace) && advice.best)
    all.push_back(under_single_seeds(advice, options.goal));
  if (advice.best && !options.slos.empty()) all.push_back(at_the_bad_end(card, advice, options));
  return all;
}

}  // namespace corun::sim
