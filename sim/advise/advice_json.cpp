#include "sim/advise/advice_json.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace corun::sim {
namespace {

/// Null where there is none.
nlohmann::ordered_json number(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json();
}

}  // namespace

std::string advice_json(const std::vector<AdvisedCard>& cards, const AdviseOptions& options, const Advice& advice,
                        const std::optional<HighestRate>& rate) {
  nlohmann::ordered_json to = {{"version", 1}, {"trace", cards.front().trace.name}, {"goal", options.goal.text}};
  to["goal_unit"] = options.goal.client ? unit_of(options.goal.metric) : "";
  to["promised"] = nlohmann::ordered_json::array();
  for (const Slo& slo : options.slos) to["promised"].push_back(slo.text);
  to["best"] = advice.best ? nlohmann::ordered_json(*advice.best) : nlohmann::ordered_json();
  to["next"] = advice.next ? nlohmann::ordered_json(*advice.next) : nlohmann::ordered_json();
  if (rate)
    to["highest_rate"] = {{"now_per_s", rate->now}, {"highest_per_s", rate->highest}, {"even_more", rate->more}};
  for (const Tried& t : advice.tried) {
    nlohmann::ordered_json one = {{"gpu", cards[t.card].gpu.name}, {"mode", in_words(t.setting.mode)},
                                  {"setting", t.setting.words},     {"policy", t.setting.policy},
                                  {"do", t.setting.to_do}};
    if (!t.ran()) {
      one["refused"] = t.refused;
    } else {
      one["holds"] = t.holds(), one["surely"] = t.holds_surely();
      one["use"] = number(t.use), one["worst_use"] = number(t.worst_use);
      one["goal"] = number(goal_value(options.goal, t.result));
      one["promises"] = nlohmann::ordered_json::array();
      for (const Slo& slo : options.slos) {
        const ClientResult& c = t.result.clients[slo.client];
        const Interval interval = interval_of(c, slo.metric);
        one["promises"].push_back({{"promise", slo.text}, {"value", number(value_of(c, slo.metric))}, {"unit", unit_of(slo.metric)}, {"limit", slo.limit}});
        if (!std::isnan(interval.low)) one["promises"].back()["interval"] = {interval.low, interval.high};
      }
      one["stp"] = t.result.stp;
      for (const ClientResult& c : t.result.clients) {
        one["clients"].push_back({{"name", c.name}, {"finished", c.finished}, {"dropped", c.dropped},
                                  {"throughput_per_s", c.throughput_per_s}, {"mean_ms", c.mean_ms},
                                  {"p99_ms", c.p99_ms}, {"progress", c.progress}});
        if (c.intervals && !std::isnan(c.intervals->p99_ms.low))
          one["clients"].back()["p99_interval_ms"] = {c.intervals->p99_ms.low, c.intervals->p99_ms.high};
      }
    }
    to["tried"].push_back(std::move(one));
  }
  return to.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n';
}

}  // namespace corun::sim
