#include "sim/validate/networks_report.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <ostream>

#include "sim/validate/figures.h"

namespace corun::sim {
namespace {

using json = nlohmann::ordered_json;

json number(double value) { return std::isfinite(value) ? json(value) : json(nullptr); }

/// "mean / median / worst"
std::string of(const RatioErrors& e) {
  if (e.values.empty()) return "-";
  return fmt::format("{:.1f} / {:.1f} / {:.0f}", 100 * e.mean(), 100 * e.median(), 100 * e.worst());
}

std::string errors_line(const std::string& name, const ErrorSet& e) {
  return fmt::format("{:<34}{:>20}{:>20}{:>20}{:>20}{:>20}\n", name, of(e.mean_latency), of(e.p50), of(e.p99),
                     of(e.throughput), of(e.stp));
}

std::string choice_lines(const char* name, const ModeChoice& c) {
  const auto regret = [](double of) { return std::isinf(of) ? "lost" : percent(of); };
  const auto line = [&](const std::string& who, const Choices& of) {
    return fmt::format("  {:<32}{:>3} of {:<3} right{:>14} mean regret{:>10} worst\n", who, of.right(),
                       of.mixes.size(), regret(of.regret()), regret(of.worst_regret()));
  };
  if (c.simulated.mixes.empty()) return {};
  return fmt::format("choice of mode by {}\n", name) + line("by what is simulated", c.simulated) +
         line("always " + c.usual_mode, c.usual);
}

std::string part_text(const std::string& title, const NetworksScore::Part& part) {
  if (part.by_mode.empty()) return {};
  std::string text = fmt::format("\n{:<34}{:>20}{:>20}{:>20}{:>20}{:>20}\n", title, "mean latency, %",
                                 "p50, %", "p99, %", "throughput, %", "STP, %");
  for (const auto& [mode, errors] : part.by_mode) text += errors_line(mode, errors);
  text += errors_line("all modes", part.all) + "\n";
  for (const auto& [mix, errors] : part.by_mix) text += errors_line(mix, errors);
  return text + "\n" + choice_lines("mean slowdown", part.by_slowdown) +
         choice_lines("p99 where the throughput is kept", part.by_p99);
}

std::string row_text(const MixRow& row) {
  std::string text =
      fmt::format("{:<34}{:<12}STP {:.3f}, simulated {:.3f} ({:+.1f} %)\n", row.mix, row.mode,
                  row.measured_stp, row.simulated_stp, 100 * (row.simulated_stp / row.measured_stp - 1));
  for (const ClientRow& c : row.clients) {
    const ClientNumbers &m = c.measured, &s = c.simulated;
    const auto pair = [](double measured, double simulated) {
      return fmt::format("{:>10}{:>10}{:>8}", figure(measured / 1e3), figure(simulated / 1e3),
                         figure(simulated / measured, 2));
    };
    text += fmt::format("  {:<20}{:<4}", c.client, c.real_time ? "RT" : "BE");
    text += c.real_time ? pair(m.mean_us, s.mean_us) + pair(m.p50_us, s.p50_us) + pair(m.p99_us, s.p99_us)
                        : fmt::format("{:>10}{:>10}{:>8}{:>56}", figure(m.per_s, 1), figure(s.per_s, 1),
                                      figure(s.per_s / m.per_s, 2), "");
    text += fmt::format("{:>8}{}\n", percent(c.spread), c.counted ? "" : "  not counted");
  }
  return text;
}

json json_of(const RatioErrors& e) {
  return {{"rows", e.values.size()},
          {"mean", number(e.mean())},
          {"median", number(e.median())},
          {"worst", number(e.worst())}};
}
json json_of(const ErrorSet& e) {
  return {{"mean_latency", json_of(e.mean_latency)},
          {"p50", json_of(e.p50)},
          {"p99", json_of(e.p99)},
          {"throughput", json_of(e.throughput)},
          {"stp", json_of(e.stp)}};
}
json json_of(const Choices& c) {
  json document{{"mixes", c.mixes.size()},
                {"right", c.right()},
                {"regret", number(c.regret())},
                {"worst_regret", number(c.worst_regret())},
                {"of", json::array()}};
  for (const Choices::Of& m : c.mixes)
    document["of"].push_back(
        {{"mix", m.mix}, {"chosen", m.chosen}, {"best", m.best}, {"regret", number(m.regret)}});
  return document;
}
json json_of(const ModeChoice& c) {
  return {{"simulated", json_of(c.simulated)}, {"usual_mode", c.usual_mode}, {"usual", json_of(c.usual)}};
}
json json_of(const NetworksScore::Part& part) {
  json document{{"all", json_of(part.all)}};
  for (const auto& [mode, errors] : part.by_mode) document["modes"][mode] = json_of(errors);
  for (const auto& [mix, errors] : part.by_mix) document["mixes"][mix] = json_of(errors);
  document["choice_by_slowdown"] = json_of(part.by_slowdown);
  document["choice_by_p99"] = json_of(part.by_p99);
  return document;
}
json json_of(const ClientNumbers& n) {
  return {{"requests", n.requests},        {"mean_us", number(n.mean_us)}, {"p50_us", number(n.p50_us)},
          {"p99_us", number(n.p99_us)},    {"per_s", number(n.per_s)},     {"slowdown", number(n.slowdown)},
          {"progress", number(n.progress)}};
}

std::string legend(const NetworksScore& score) {
  return fmt::format(
      "\nerrors      |simulated / measured - 1|: mean / median / worst; p99 of clients with {} requests\n"
      "left out    {} of {} rows, with the widest spread of their repeats ({} are wider than {:.0f} %)\n"
      "choice      right: within {:.0f} % of the best that was measured; lost: the throughput was not kept\n",
      kRequestsForP99, score.left_out, score.client_rows, score.wide, 100 * kWide, 100 * kSame);
}

std::string alone_eagerly_text(const MeasuredNetworks& all) {
  std::string text;
  RatioErrors errors;
  for (const Network& n : all.networks) {
    if (n.simulated_eager_ms == 0) continue;
    errors.add(n.measured_eager_ms, n.simulated_eager_ms);
    text += fmt::format("{:<22}{:>12}{:>12}{:>8}{}\n", n.name, figure(n.measured_eager_ms),
                        figure(n.simulated_eager_ms), figure(n.simulated_eager_ms / n.measured_eager_ms),
                        n.set_aside ? "  set aside" : "");
  }
  if (text.empty()) return {};
  return fmt::format("\n{:<22}{:>12}{:>12}{:>8}\n", "alone, eagerly, ms", "measured", "simulated", "ratio") +
         text + fmt::format("{:<22}{:>32} %\n", "error", of(errors)) +
         "eagerly     simulated in the time without the profiler that a recording tells; measured: other requests of that process\n";
}

std::string alone_text(const MeasuredNetworks& all) {
  std::string text =
      fmt::format("\n{:<22}{:>12}{:>12}{:>8}\n", "alone, ms", "measured", "simulated", "ratio");
  RatioErrors errors;
  for (const Network& n : all.networks) {
    if (n.simulated_ms == 0) continue;
    if (!n.recorded) errors.add(n.measured_ms, n.simulated_ms);
    text += fmt::format("{:<22}{:>12}{:>12}{:>8}{}{}\n", n.name, figure(n.measured_ms),
                        figure(n.simulated_ms), figure(n.simulated_ms / n.measured_ms),
                        n.set_aside ? "  set aside" : "", n.recorded ? "  measured under the profiler" : "");
  }
  return text + fmt::format("{:<22}{:>32} %\n", "error", of(errors)) + alone_eagerly_text(all);
}

}  // namespace

std::string format_networks(const MeasuredNetworks& all, const NetworksScore& score) {
  std::string text = fmt::format("measured    {} ({})\n", all.file, all.device) + alone_text(all);
  text += fmt::format("\n{:<26}{:>10}{:>10}{:>8}{:>10}{:>10}{:>8}{:>10}{:>10}{:>8}{:>8}\n", "real-time: ms",
                      "mean", "simulated", "ratio", "p50", "simulated", "ratio", "p99", "simulated", "ratio",
                      "spread");
  text += fmt::format("{:<26}{:>10}{:>10}{:>8}\n", "best-effort: a second", "served", "simulated", "ratio");
  for (const MixRow& row : score.rows) text += row_text(row);
  return text + part_text("mixes", score.others) +
         part_text("mixes with a network set aside", score.set_aside) + legend(score);
}

json networks_json(const MeasuredNetworks& all, const NetworksScore& score) {
  json document{
      {"comparison", "networks"}, {"file", all.file},
      {"device", all.device},     {"alone", json::array()},
      {"alone_eagerly", json::array()}};
  for (const Network& n : all.networks)
    if (n.simulated_ms != 0)
      document["alone"].push_back({{"network", n.name},
                                   {"set_aside", n.set_aside},
                                   {"measured_ms", number(n.measured_ms)},
                                   {"simulated_ms", number(n.simulated_ms)}});
  for (const Network& n : all.networks)
    if (n.simulated_eager_ms != 0)
      document["alone_eagerly"].push_back({{"network", n.name},
                                           {"set_aside", n.set_aside},
                                           {"measured_ms", number(n.measured_eager_ms)},
                                           {"simulated_ms", number(n.simulated_eager_ms)}});
  document["others"] = json_of(score.others);
  document["set_aside"] = json_of(score.set_aside);
  document["rows"] = {{"all", score.client_rows}, {"wide", score.wide}, {"left_out", score.left_out}};
  document["runs"] = json::array();
  for (const MixRow& row : score.rows) {
    json run{{"mix", row.mix},
             {"mode", row.mode},
             {"policy", row.policy},
             {"set_aside", row.set_aside},
             {"measured_stp", number(row.measured_stp)},
             {"simulated_stp", number(row.simulated_stp)},
             {"clients", json::array()}};
    for (const ClientRow& c : row.clients)
      run["clients"].push_back({{"client", c.client},
                                {"network", c.network},
                                {"real_time", c.real_time},
                                {"measured", json_of(c.measured)},
                                {"simulated", json_of(c.simulated)},
                                {"spread", number(c.spread)},
                                {"counted", c.counted}});
    document["runs"].push_back(std::move(run));
  }
  return document;
}

void write_networks_csv(const MeasuredNetworks& all, const NetworksScore& score, std::ostream& out) {
  out << "name,measured,simulated,ratio,spread,counted\n";
  const auto row = [&](const std::string& name, double measured, double simulated, double spread,
                       bool counted) {
    if (std::isfinite(measured) && std::isfinite(simulated))
      out << fmt::format("\"{}\",{:.6g},{:.6g},{:.6g},{:.4g},{}\n", name, measured, simulated,
                         simulated / measured, spread, counted ? 1 : 0);
  };
  for (const Network& n : all.networks)
    if (n.simulated_ms != 0) row(n.name + "/alone_ms", n.measured_ms, n.simulated_ms, 0, !n.recorded);
  for (const Network& n : all.networks)
    if (n.simulated_eager_ms != 0)
      row(n.name + "/alone_eager_ms", n.measured_eager_ms, n.simulated_eager_ms, 0, true);
  for (const MixRow& r : score.rows) {
    const std::string name = r.mix + "/" + r.mode;
    row(name + "/stp", r.measured_stp, r.simulated_stp, 0, true);
    for (const ClientRow& c : r.clients) {
      const std::string client = name + "/" + c.client;
      const ClientNumbers &m = c.measured, &s = c.simulated;
      row(client + "/mean_us", m.mean_us, s.mean_us, c.spread, c.counted);
      row(client + "/p50_us", m.p50_us, s.p50_us, c.spread, c.counted);
      row(client + "/p99_us", m.p99_us, s.p99_us, c.spread, c.counted && m.requests >= kRequestsForP99);
      row(client + "/per_s", m.per_s, s.per_s, c.spread, c.counted);
    }
  }
}

}  // namespace corun::sim
