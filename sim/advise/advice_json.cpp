#include "sim/advise/advice_json.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace corun::sim {

std::string advice_json(const std::vector<AdvisedCard>& cards, const AdviseOptions& options, const Advice& advice,
                        const std::optional<HighestRate>& rate) {
  nlohmann::ordered_json to = {{"version", 1}, {"trace", cards.front().trace.name}, {"goal", options.goal.text}};
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
      one["use"] = std::isfinite(t.use) ? nlohmann::ordered_json(t.use) : nlohmann::ordered_json();
      one["worst_use"] = std::isfinite(t.worst_use) ? nlohmann::ordered_json(t.worst_use) : nlohmann::ordered_json();
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
