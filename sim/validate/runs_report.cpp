#include "sim/validate/runs_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <ostream>

#include "sim/validate/figures.h"

namespace corun::sim {
namespace {

using json = nlohmann::ordered_json;

/// The longest p99 of a client.
double worst(const std::vector<double>& p99) {
  double most = std::nan("");
  for (double p : p99)
    if (!(p <= most) && std::isfinite(p)) most = p;
  return most;
}

json json_of(const RunErrors& e) {
  return {{"runs", e.runs},
          {"stp_error_mean", e.stp},
          {"stp_error_worst", e.stp_worst},
          {"antt_error_mean", e.antt},
          {"p99_error_mean", e.p99}};
}
json json_of(const Ordered& o) { return {{"pairs", o.pairs}, {"right", o.right}, {"share", o.share()}}; }
json json_of(const RunNumbers& n) {
  return {{"stp", n.stp}, {"antt", n.antt}, {"p99_ms", n.p99_ms}, {"progress", n.progress}};
}

std::string line_of(const std::string& name, const RunErrors& e) {
  return fmt::format("{:<22}{:>6}{:>11}{:>11}{:>11}{:>11}", name, e.runs, percent(e.stp),
                     percent(e.stp_worst), percent(e.antt), percent(e.p99));
}

}  // namespace

std::string format_runs(const RunsComparison& c) {
  std::string text;
  for (const std::string& set : c.sets) text += "measured    " + set + "\n";
  text += fmt::format("\n{:<12}{:<22}{:>9}{:>10}{:>7}{:>9}{:>10}{:>10}{:>10}\n", "mix", "policy", "STP",
                      "simulated", "ratio", "ANTT", "simulated", "p99, ms", "simulated");
  for (const ComparedRun& r : c.runs)
    text += fmt::format(
        "{:<12}{:<22}{:>9}{:>10}{:>7}{:>9}{:>10}{:>10}{:>10}\n", r.mix, r.policy, figure(r.measured.stp),
        figure(r.simulated.stp), figure(r.simulated.stp / r.measured.stp), figure(r.measured.antt),
        figure(r.simulated.antt), figure(worst(r.measured.p99_ms)), figure(worst(r.simulated.p99_ms)));
  text += fmt::format("\n{:<22}{:>6}{:>11}{:>11}{:>11}{:>11}\n", "errors", "runs", "STP: mean", "worst",
                      "ANTT: mean", "p99: mean");
  for (const auto& [policy, errors] : c.by_policy) text += line_of(policy, errors) + "\n";
  text += fmt::format("\n{:<22}{:>6}{:>11}{:>11}{:>11}{:>11}{:>22}\n", "", "", "", "", "", "",
                      "order of policies");
  for (const auto& [mix, errors] : c.by_mix) {
    const auto order = c.order_by_mix.find(mix);
    const Ordered o = order == c.order_by_mix.end() ? Ordered{} : order->second;
    text += line_of(mix, errors) + fmt::format("{:>22}\n", fmt::format("{} of {}", o.right, o.pairs));
  }
  text +=
      line_of("all", c.all) + fmt::format("{:>22}\n", fmt::format("{} of {}", c.order.right, c.order.pairs));
  text += fmt::format(
      "\nerror       |simulated / measured - 1|; p99 of every client (the table: the longest)\n"
      "order       of pairs of policies of a mix whose measured STP differs by more than {:.0f} %: {} right\n"
      "repeats     the measured STP of a run differs from its repeats' by {} (most over least, mean)\n",
      100 * kDiffer, percent(c.order.share()), percent(c.repeat_spread));
  return text;
}

json runs_json(const RunsComparison& c) {
  json document{{"comparison", "runs"}, {"sets", c.sets}, {"all", json_of(c.all)}, {"order", json_of(c.order)}};
  document["repeat_spread"] = c.repeat_spread;
  for (const auto& [policy, errors] : c.by_policy) document["policies"][policy] = json_of(errors);
  for (const auto& [mix, errors] : c.by_mix) {
    document["mixes"][mix] = json_of(errors);
    if (const auto o = c.order_by_mix.find(mix); o != c.order_by_mix.end())
      document["mixes"][mix]["order"] = json_of(o->second);
  }
  document["runs"] = json::array();
  for (const ComparedRun& r : c.runs)
    document["runs"].push_back({{"mix", r.mix},
                                {"policy", r.policy},
                                {"clients", r.clients},
                                {"measured", json_of(r.measured)},
                                {"simulated", json_of(r.simulated)},
                                {"stp_ratio", r.simulated.stp / r.measured.stp}});
  return document;
}

void write_runs_csv(const RunsComparison& c, std::ostream& out) {
  out << "name,measured,simulated,ratio\n";
  const auto row = [&](const std::string& name, double measured, double simulated) {
    if (std::isfinite(measured) && std::isfinite(simulated))
      out << fmt::format("\"{}\",{:.6g},{:.6g},{:.6g}\n", name, measured, simulated, simulated / measured);
  };
  for (const ComparedRun& r : c.runs) {
    const std::string name = r.mix + "/" + r.policy;
    row(name + "/stp", r.measured.stp, r.simulated.stp);
    row(name + "/antt", r.measured.antt, r.simulated.antt);
    for (std::size_t i = 0; i < r.clients.size(); ++i) {
      row(name + "/" + r.clients[i] + "/p99_ms", r.measured.p99_ms[i], r.simulated.p99_ms[i]);
      row(name + "/" + r.clients[i] + "/progress", r.measured.progress[i], r.simulated.progress[i]);
    }
  }
}

}  // namespace corun::sim
