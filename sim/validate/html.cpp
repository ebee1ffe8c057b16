// The page of `sim validate --out`: simulated against measured slowdowns, and the rows to look at first.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ostream>

#include "sim/validate/report.h"
#include "traces/json/spelling.h"

namespace corun::sim {
namespace {

constexpr std::size_t kWorstShown = 25;
constexpr double kBand = 0.1;
constexpr double kLeft = 60, kTop = 10, kSize = 640, kBelow = 50;
// In the order of kModes; as in the pictures of runs.
constexpr std::array<const char*, kModes.size()> kColours = {"#1f77b4", "#0097a7", "#e8710a",
                                                             "#d43d2a", "#2a9d5c", "#7b4fc9"};

std::string escaped(std::string_view text) {
  std::string out;
  for (char c : text) switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        if (static_cast<unsigned char>(c) >= 0x20) out += c;
    }
  return out;
}

std::string percent(double fraction) {
  return std::isnan(fraction) ? "–" : fmt::format("{:.1f} %", 100 * fraction);
}

/// Both axes, from `least` to `most` in even steps of the logarithm.
struct Scale {
  double least, most;
  double part(double value) const { return std::log(value / least) / std::log(most / least); }
  double x(double value) const { return kLeft + kSize * part(value); }
  double y(double value) const { return kTop + kSize * (1 - part(value)); }
};

Scale scale_of(const Comparison& c) {
  Scale s{1, 2};
  for (const ComparedRow& row : c.rows)
    for (double value : {row.measured.a, row.measured.b, row.simulated.a, row.simulated.b}) {
      s.least = std::min(s.least, value);
      s.most = std::max(s.most, value);
    }
  return {s.least * 0.93, s.most * 1.08};
}

void write_axes(const Scale& s, std::ostream& out) {
  out << fmt::format(
      "<clipPath id=\"plot\"><rect x=\"{0}\" y=\"{1}\" width=\"{2}\" height=\"{2}\"/></clipPath>\n", kLeft,
      kTop, kSize);
  const auto diagonal = [&](double factor) {  // its ends, as coordinates
    return fmt::format("{:.1f},{:.1f} {:.1f},{:.1f}", s.x(s.least), s.y(s.least * factor), s.x(s.most),
                       s.y(s.most * factor));
  };
  const auto back = [&](double factor) {
    return fmt::format("{:.1f},{:.1f} {:.1f},{:.1f}", s.x(s.most), s.y(s.most * factor), s.x(s.least),
                       s.y(s.least * factor));
  };
  out << fmt::format(
      "<g clip-path=\"url(#plot)\"><polygon class=\"band\" points=\"{} {}\"/>"
      "<polyline class=\"equal\" points=\"{}\"/></g>\n",
      diagonal(1 + kBand), back(1 - kBand), diagonal(1));
  for (int decade = -2; decade < 6; ++decade)
    for (double digit : {1.0, 1.5, 2.0, 3.0, 5.0, 7.0}) {
      const double tick = digit * std::pow(10, decade);
      if (tick < s.least || tick > s.most) continue;
      out << fmt::format(
          "<path class=\"grid\" d=\"M{0:.1f} {1}v{2}M{3} {4:.1f}h{2}\"/>"
          "<text x=\"{0:.1f}\" y=\"{5}\" text-anchor=\"middle\">{6:g}</text>"
          "<text x=\"{7}\" y=\"{8:.1f}\" text-anchor=\"end\">{6:g}</text>\n",
          s.x(tick), kTop, kSize, kLeft, s.y(tick), kTop + kSize + 18, tick, kLeft - 6, s.y(tick) + 4);
    }
  out << fmt::format(
      "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">measured slowdown</text>"
      "<text transform=\"translate(16 {}) rotate(-90)\" text-anchor=\"middle\">simulated "
      "slowdown</text>\n",
      kLeft + kSize / 2, kTop + kSize + 40, kTop + kSize / 2);
}

void write_scatter(const Comparison& c, std::ostream& out) {
  const Scale s = scale_of(c);
  for (const auto& [mode, errors] : c.modes)
    out << fmt::format(
        "<input type=\"checkbox\" id=\"{0}\" checked><label for=\"{0}\" style=\"color:{1}\">{0}"
        "</label>\n",
        to_string(mode), kColours[static_cast<std::size_t>(mode)]);
  out << fmt::format(
      "<br><svg width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" role=\"img\" "
      "aria-label=\"Simulated against measured slowdowns\">\n",
      kLeft + kSize + 10, kTop + kSize + kBelow);
  write_axes(s, out);
  const auto point = [&](const ComparedRow& row, const char* client, double measured, double simulated) {
    out << fmt::format(
        "<circle class=\"{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\"><title>{}, {}, {}: measured "
        "{:.3f}, simulated {:.3f} ({:+.1f} %)</title></circle>\n",
        to_string(row.mode), s.x(measured), s.y(simulated), escaped(row.pair), to_string(row.mode), client,
        measured, simulated, 100 * (simulated / measured - 1));
  };
  for (const ComparedRow& row : c.rows) {
    point(row, "A", row.measured.a, row.simulated.a);
    point(row, "B", row.measured.b, row.simulated.b);
  }
  out << "</svg>\n";
}

void write_errors(const Comparison& c, std::ostream& out) {
  out << "<h2>Errors</h2>\n<table><tr><th>mode<th>rows<th>slowdown: mean<th>median<th>p95<th>worst<th>STP: "
         "mean</tr>\n";
  const auto line = [&](std::string_view name, const Errors& e) {
    out << fmt::format("<tr><td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}</tr>\n", name, e.rows,
                       percent(e.slowdown_mean), percent(e.slowdown_median), percent(e.slowdown_p95),
                       percent(e.slowdown_worst), percent(e.stp_mean));
  };
  for (const auto& [mode, errors] : c.modes) line(to_string(mode), errors);
  line("all", c.all);
  out << fmt::format(
      "</table>\n<p>Error: |simulated / measured − 1|; p95 linear between the closest ranks. Order of "
      "the modes of a pair by STP: Kendall’s tau-b {}, mean of {} pairs; the mode with the best "
      "simulated STP is within {} of the best measured one in {} of them.</p>\n",
      std::isnan(c.kendall_tau) ? "–" : fmt::format("{:.3f}", c.kendall_tau), c.pairs, percent(kAsGood),
      percent(c.best_mode_picked));
}

void write_worst(const Comparison& c, std::ostream& out) {
  out << fmt::format(
      "<h2>The {} rows furthest off</h2>\n<table><tr><th>pair<th>mode<th>A measured<th>A "
      "simulated<th>B measured<th>B simulated<th>error of A<th>of B<th>spread of "
      "measurement<th>why</tr>\n",
      std::min(kWorstShown, c.rows.size()));
  for (const ComparedRow* r : worst_rows(c, kWorstShown))
    out << fmt::format(
        "<tr><td>{}<td>{}<td>{:.3f}<td>{:.3f}<td>{:.3f}<td>{:.3f}<td>{:+.1f} %<td>{:+.1f} "
        "%<td>{:.3f}<td class=\"why\">{}</tr>\n",
        escaped(r->pair), to_string(r->mode), r->measured.a, r->simulated.a, r->measured.b, r->simulated.b,
        100 * (r->simulated.a / r->measured.a - 1), 100 * (r->simulated.b / r->measured.b - 1), r->spread,
        r->why.empty() ? "the model does not say" : escaped(r->why));
  out << "</table>\n";
}

void write_solo(const Comparison& c, std::ostream& out) {
  out << "<h2>Alone on a part of the GPU</h2>\n<table><tr><th>SMs<th>times<th>mean<th>worst<th>at</tr>\n";
  const auto line = [&](const std::string& name, const SoloErrors& e) {
    out << fmt::format("<tr><td>{}<td>{}<td>{}<td>{}<td>{}</tr>\n", name, e.times, percent(e.mean),
                       percent(e.worst), escaped(e.worst_kernel));
  };
  for (const auto& [sms, errors] : c.solo) line(std::to_string(sms), errors);
  line("all", c.solo_all);
  out << "</table>\n";
}

constexpr const char* kStyle = R"(
body{font:14px/1.45 system-ui,sans-serif;margin:24px auto;max-width:1080px;padding:0 16px;color:#222;background:#fff}
h1{font-size:20px}h2{font-size:16px;margin-top:28px}
table{border-collapse:collapse}td,th{padding:2px 10px;border-bottom:1px solid #ddd;text-align:right;font-weight:400}
th{font-weight:600}td:first-child,th:first-child,.why{text-align:left}
svg{max-width:100%;height:auto}svg text{font-size:12px;fill:#444}label{margin-right:12px}
.grid{stroke:#eee;fill:none}.band{fill:#1f77b4;fill-opacity:.1}.equal{stroke:#888;fill:none}
circle{fill-opacity:.55}circle:hover{stroke:#000}
)";

}  // namespace

void write_html(const Validation& v, std::ostream& out) {
  const Comparison& c = v.comparison;
  out << "<!DOCTYPE html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>sim validate</title>\n<style>"
      << kStyle;
  for (Mode mode : kModes)
    out << fmt::format(".{0}{{fill:{1}}}#{0}:not(:checked)~svg .{0}{{display:none}}\n", to_string(mode),
                       kColours[static_cast<std::size_t>(mode)]);
  out << "</style>\n<h1>Simulated against measured</h1>\n<p>" << escaped(subject_of(v)) << "</p>\n";
  if (!c.rows.empty()) {
    write_scatter(c, out);
    out << "<p>One point a client and row; the band is ±10 %. Hover over a point for its row.</p>\n";
    write_errors(c, out);
    write_worst(c, out);
  }
  if (!c.solo.empty()) write_solo(c, out);
  out << "<h2>What the simulator was given</h2>\n<ul>\n";
  for (const std::string& note : notes_of(v)) out << "<li>" << escaped(note) << '\n';
  out << "</ul>\n</html>\n";
}

}  // namespace corun::sim
