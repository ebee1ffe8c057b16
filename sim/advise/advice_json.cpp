#include "sim/advise/advice_json.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace corun::sim {
namespace {

/// Null where there is none.
nlohmann::ordered_json number(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json();
}

/// Values of the goal and of the promises.
void add_values(nlohmann::ordered_json& one, const Tried& t, const AdviseOptions& options) {
  one["goal"] = number(goal_value(options.goal, t.together));
  one["promises"] = nlohmann::ordered_json::array();
  for (const Slo& slo : options.slos) {
    const Estimate range = estimate(t.results, [&](const RunResult& r) { return value_of(r.clients[slo.client], slo.metric); });
    const Interval interval = interval_of(t, slo.client, slo.metric);
    one["promises"].push_back({{"promise", slo.text}, {"value", number(value_of(t.together.clients[slo.client], slo.metric))}, {"unit", unit_of(slo.metric)}, {"limit", slo.limit}});
    if (t.results.size() > 1) one["promises"].back()["range"] = {number(range.least), number(range.most)};
    if (!std::isnan(interval.low)) one["promises"].back()["interval"] = {interval.low, interval.high};
  }
}

nlohmann::ordered_json brief(const std::optional<Tried>& t, const AdviseOptions& options) {
  if (!t) return nullptr;
  nlohmann::ordered_json one = {{"setting", t->setting.words}, {"policy", t->setting.policy}, {"holds", t->holds()}, {"use", number(t->use)}};
  add_values(one, *t, options);
  return one;
}

}  // namespace

std::string advice_json(const std::vector<AdvisedCard>& cards, const AdviseOptions& options, const Advice& advice,
                        const std::vector<WhatIf>& what_if, const std::optional<HighestRate>& rate) {
  nlohmann::ordered_json to = {{"version", 1}, {"trace", cards.front().trace.name}, {"goal", options.goal.text}};
  to["goal_unit"] = options.goal.client ? unit_of(options.goal.metric) : "";
  to["seeds"] = options.seeds;
  to["promised"] = nlohmann::ordered_json::array();
  for (const Slo& slo : options.slos) to["promised"].push_back(slo.text);
  to["best"] = advice.best ? nlohmann::ordered_json(*advice.best) : nlohmann::ordered_json();
  to["next"] = advice.next ? nlohmann::ordered_json(*advice.next) : nlohmann::ordered_json();
  if (rate)
    to["highest_rate"] = {{"now_per_s", rate->now}, {"highest_per_s", rate->highest}, {"even_more", rate->more}};
  to["what_if"] = nlohmann::ordered_json::array();
  for (const WhatIf& what : what_if) {
    nlohmann::ordered_json one = {{"assumed", what.assumed}};
    if (!what.refused.empty())
      one["refused"] = what.refused;
    else
      one.update({{"changes", what.changes}, {"named", brief(what.named, options)}, {"instead", brief(what.instead, options)},
                  {"apart", what.apart}, {"surely", what.surely}});
    to["what_if"].push_back(std::move(one));
  }
  for (const Tried& t : advice.tried) {
    nlohmann::ordered_json one = {{"gpu", cards[t.card].gpu.name}, {"mode", in_words(t.setting.mode)},
                                  {"setting", t.setting.words},     {"policy", t.setting.policy},
                                  {"do", t.setting.to_do}};
    if (!t.ran()) {
      one["refused"] = t.refused;
    } else {
      one["holds"] = t.holds(), one["surely"] = t.holds_surely();
      one["use"] = number(t.use), one["worst_use"] = number(t.worst_use);
      one["held_in"] = t.held_in, one["seeds"] = t.results.size();
      add_values(one, t, options);
      one["stp"] = number(t.together.stp);
      for (std::size_t i = 0; i < t.together.clients.size(); ++i) {
        const ClientResult& c = t.together.clients[i];
        one["clients"].push_back({{"name", c.name}, {"finished", c.finished}, {"dropped", c.dropped}, {"throughput_per_s", c.throughput_per_s},
                                  {"mean_ms", c.mean_ms}, {"p99_ms", c.p99_ms}, {"progress", c.progress}});
        const Interval p99 = interval_of(t, i, Metric::p99);
        if (!std::isnan(p99.low)) one["clients"].back()["p99_interval_ms"] = {p99.low, p99.high};
      }
    }
    to["tried"].push_back(std::move(one));
  }
  return to.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n';
}

}  // namespace corun::sim
