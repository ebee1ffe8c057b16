#include "sim/validate/runs_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <ostream>

namespace corun::sim {
namespace {

using json = nlohmann::ordered_json;

std::string percent(double fraction) {
  return std::isfinite(fraction) ? fmt::format("{:.1f} %", 100 * fraction) : "-";
}
std::string figure(double value) { return std::isfinite(value) ? fmt::format("{:.3f}", value) : "-"; }

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

constexpr std::array kColours = {"#1f77b4", "#e8710a", "#2a9d5c", "#d43d2a", "#7b4fc9", "#8c564b",
                                 "#d860b0", "#6b7280", "#b8a90a", "#0097a7", "#1d4ed8", "#111827"};

struct Scale {
  double least, most, left, top, size;
  double x(double v) const { return left + size * (v - least) / (most - least); }
  double y(double v) const { return top + size * (most - v) / (most - least); }
};

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
  json document{{"sets", c.sets}, {"all", json_of(c.all)}, {"order", json_of(c.order)}};
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

void write_runs_svg(const RunsComparison& c, std::ostream& out) {
  Scale s{1e9, 0, 56, 16, 560};
  for (const ComparedRun& r : c.runs) {
    s.least = std::min({s.least, r.measured.stp, r.simulated.stp});
    s.most = std::max({s.most, r.measured.stp, r.simulated.stp});
  }
  const double step = s.most - s.least > 1.5 ? 0.5 : 0.2;
  s.least = std::floor(s.least / step) * step;
  s.most = std::ceil(s.most / step) * step;
  constexpr double kBand = 0.06;
  out << fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
      "font-family=\"sans-serif\" font-size=\"12\" role=\"img\" aria-label=\"Simulated against measured "
      "system throughput\">\n<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n<clipPath "
      "id=\"plot\"><rect x=\"{2}\" y=\"{3}\" width=\"{4}\" height=\"{4}\"/></clipPath>\n",
      s.left + s.size + 190, s.top + s.size + 52, s.left, s.top, s.size);
  for (double v = s.least; v <= s.most + 1e-9; v += step)
    out << fmt::format(
        "<path d=\"M{0:.1f} {1}v{2}M{3} {4:.1f}h{2}\" stroke=\"#e5e7eb\"/><text x=\"{0:.1f}\" y=\"{5}\" "
        "text-anchor=\"middle\">{6:.1f}</text><text x=\"{7}\" y=\"{8:.1f}\" "
        "text-anchor=\"end\">{6:.1f}</text>\n",
        s.x(v), s.top, s.size, s.left, s.y(v), s.top + s.size + 18, v, s.left - 6, s.y(v) + 4);
  out << fmt::format(
      "<g clip-path=\"url(#plot)\"><polygon fill=\"#9ca3af\" fill-opacity=\"0.2\" points=\"{:.1f},{:.1f} "
      "{:.1f},{:.1f} {:.1f},{:.1f} {:.1f},{:.1f}\"/><path stroke=\"#6b7280\" d=\"M{:.1f} {:.1f}L{:.1f} "
      "{:.1f}\"/></g>\n",
      s.x(s.least), s.y(s.least * (1 + kBand)), s.x(s.most), s.y(s.most * (1 + kBand)), s.x(s.most),
      s.y(s.most * (1 - kBand)), s.x(s.least), s.y(s.least * (1 - kBand)), s.x(s.least), s.y(s.least),
      s.x(s.most), s.y(s.most));
  std::size_t next = 0;
  for (const auto& [policy, errors] : c.by_policy) {
    const char* colour = kColours[next % kColours.size()];
    const double y = s.top + 14 + 18 * static_cast<double>(next++);
    out << fmt::format(
        "<circle cx=\"{}\" cy=\"{}\" r=\"4\" fill=\"{}\"/><text x=\"{}\" y=\"{}\">{} ({})</text>\n",
        s.left + s.size + 16, y - 4, colour, s.left + s.size + 26, y, policy, percent(errors.stp));
    for (const ComparedRun& r : c.runs)
      if (r.policy == policy)
        out << fmt::format(
            "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" fill=\"{}\" fill-opacity=\"0.75\"><title>{}, {}: "
            "measured {:.3f}, simulated {:.3f} ({:+.1f} %)</title></circle>\n",
            s.x(r.measured.stp), s.y(r.simulated.stp), colour, r.mix, r.policy, r.measured.stp,
            r.simulated.stp, 100 * r.stp_error());
  }
  out << fmt::format(
      "<text x=\"{0}\" y=\"{1}\" text-anchor=\"middle\">measured STP; band: {2:.0f} %; in brackets: mean "
      "error</text><text transform=\"translate(16 {3}) rotate(-90)\" text-anchor=\"middle\">simulated "
      "STP</text>\n</svg>\n",
      s.left + s.size / 2, s.top + s.size + 40, 100 * kBand, s.top + s.size / 2);
}

void write_runs_html(const RunsComparison& c, std::ostream& out) {
  out << "<!DOCTYPE html><html><head><meta charset=\"utf-8\"><title>Recorded runs, simulated</title>"
         "<style>body{font-family:sans-serif;margin:2em}td,th{padding:2px 10px;text-align:right}"
         "td:first-child,td:nth-child(2){text-align:left}</style></head><body>\n<h1>Recorded runs, "
         "simulated</h1>\n";
  for (const std::string& set : c.sets) out << "<p>" << set << "</p>\n";
  out << fmt::format(
      "<p>{} runs: mean STP error {}, worst {}; order of the policies right in {} of {} pairs "
      "that differ by more than {:.0f} % ({}).</p>\n",
      c.all.runs, percent(c.all.stp), percent(c.all.stp_worst), c.order.right, c.order.pairs, 100 * kDiffer,
      percent(c.order.share()));
  write_runs_svg(c, out);
  out << "<table><tr><th>mix<th>policy<th>STP<th>simulated<th>ratio<th>ANTT<th>simulated<th>p99, "
         "ms<th>simulated</tr>\n";
  for (const ComparedRun& r : c.runs)
    out << fmt::format("<tr><td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}</tr>\n", r.mix, r.policy,
                       figure(r.measured.stp), figure(r.simulated.stp),
                       figure(r.simulated.stp / r.measured.stp), figure(r.measured.antt),
                       figure(r.simulated.antt), figure(worst(r.measured.p99_ms)),
                       figure(worst(r.simulated.p99_ms)));
  out << "</table></body></html>\n";
}

}  // namespace corun::sim
