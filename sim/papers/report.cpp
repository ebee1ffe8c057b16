#include "sim/papers/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace corun::sim {
namespace {

using nlohmann::ordered_json;

/// Terminal columns of UTF-8 text, one a code point.
std::size_t columns(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

/// Four significant digits, without exponent.
std::string number(double value) {
  if (!std::isfinite(value)) return value > 0 ? "inf" : "-";
  const double size = std::abs(value);
  const int whole = size < 1 ? 0 : static_cast<int>(std::log10(size));
  std::string text = fmt::format("{:.{}f}", value, std::clamp(3 - whole, 0, 3));
  if (text.find('.') != text.npos) {
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
  }
  return text;
}

std::string with_unit(double value, const std::string& unit) {
  return unit.empty() ? number(value) : number(value) + ' ' + unit;
}

std::string ratio(const ScoredRow& r) {
  return std::isfinite(r.ratio) ? fmt::format("{:.2f}", r.ratio) : "inf";
}

/// Rows of one figure follow each other.
template <class Each>
void by_figure(const std::vector<ScoredRow>& rows, Each each) {
  for (auto begin = rows.begin(); begin != rows.end();) {
    const auto end =
        std::find_if(begin, rows.end(), [&](const ScoredRow& r) { return r.figure != begin->figure; });
    each(*begin->figure, std::vector<ScoredRow>(begin, end));
    begin = end;
  }
}

std::string totals(const std::vector<ScoredRow>& rows) {
  const auto close = std::ranges::count_if(rows, &ScoredRow::close);
  const auto right = std::ranges::count_if(rows, &ScoredRow::direction_ok);
  return fmt::format("{} of {} numbers within 20 % ({:.0f} %), {} in the published direction and order",
                     close, rows.size(),
                     100.0 * static_cast<double>(close) / static_cast<double>(rows.size()), right);
}

/// Needs words: off by more than 20 %, or the other way than published.
bool deviates(const ScoredRow& r) { return !r.close() || !r.direction_ok; }

std::string cell(std::string text) {
  for (std::size_t at = 0; (at = text.find('|', at)) != text.npos; at += 2) text.insert(at, "\\");
  return text;
}

}  // namespace

std::string format_scoreboard(const std::vector<ScoredRow>& rows) {
  std::string out;
  std::size_t width = 8;
  for (const ScoredRow& r : rows) width = std::max(width, columns(r.row->name));
  width = std::min<std::size_t>(width, 60);
  by_figure(rows, [&](const Figure& figure, const std::vector<ScoredRow>& of_figure) {
    out += fmt::format("{}, {} ({})\n", figure.system, figure.figure, figure.source);
    out += fmt::format("  {:<{}}{:>14}{:>14}{:>8}  {}\n", "", width, "published", "simulated", "ratio",
                       "direction");
    for (const ScoredRow& r : of_figure) {
      const std::string& name = r.row->name;
      out += fmt::format("  {}{}{:>14}{:>14}{:>8}  {}\n", name,
                         std::string(width - std::min(width, columns(name)), ' '),
                         with_unit(r.row->published, r.row->unit), with_unit(r.simulated, r.row->unit),
                         ratio(r), r.direction_ok ? "as published" : "NOT as published");
      if (deviates(r)) out += fmt::format("    why: {}\n", r.row->why.empty() ? "not explained" : r.row->why);
    }
    for (const std::string& fitted : figure.fitted) out += fmt::format("  fitted: {}\n", fitted);
    out += '\n';
  });
  return out + totals(rows) + '\n';
}

ordered_json scoreboard_json(const std::vector<ScoredRow>& rows) {
  ordered_json list = ordered_json::array();
  for (const ScoredRow& r : rows)
    list.push_back({{"system", r.figure->system},
                    {"figure", r.figure->figure + ": " + r.row->name},
                    {"published", r.row->published},
                    {"simulated", r.simulated},
                    {"ratio", r.ratio},
                    {"direction_ok", r.direction_ok},
                    {"fitted", r.figure->fitted},
                    {"name", r.row->name},
                    {"unit", r.row->unit},
                    {"why", r.row->why}});
  return list;
}

std::string scoreboard_markdown(const std::vector<ScoredRow>& rows) {
  std::string out =
      "# The papers' figures, simulated\n"
      "Written by `sim papers --markdown experiments/papers/README.md`; do not edit. Each `*.json` here is "
      "one "
      "published figure\n(`sim schema figure`): its runs, its numbers, how they follow from the runs. "
      "*Direction*: on the published side of the\nbaseline and in the published order; where a figure has "
      "neither, within 20 %. What a paper leaves open is fitted once per\nworkload, never per number, and "
      "listed.\n\n**" +
      totals(rows) + ".**\n";
  by_figure(rows, [&](const Figure& figure, const std::vector<ScoredRow>& of_figure) {
    out += fmt::format("\n## {}, {}\n{}. `{}.json`\n", figure.system, figure.figure, figure.source,
                       figure.name());
    if (!figure.about.empty()) out += '\n' + figure.about + '\n';
    out += "\n| | published | simulated | ratio | direction |\n|---|---:|---:|---:|---|\n";
    for (const ScoredRow& r : of_figure)
      out += fmt::format("| {} | {} | {} | {}{} | {} |\n", cell(r.row->name),
                         cell(with_unit(r.row->published, r.row->unit)),
                         cell(with_unit(r.simulated, r.row->unit)), ratio(r), r.close() ? "" : " *",
                         r.direction_ok ? "ok" : "**not as published**");
    if (!figure.fitted.empty()) {
      out += "\nFitted:\n";
      for (const std::string& fitted : figure.fitted) out += "- " + fitted + '\n';
    }
    if (std::ranges::any_of(of_figure, deviates)) {
      out += "\nOff by more than 20 %, or in direction:\n";
      for (const ScoredRow& r : of_figure)
        if (deviates(r))
          out += fmt::format("- *{}*: {}\n", r.row->name, r.row->why.empty() ? "not explained" : r.row->why);
    }
  });
  return out;
}

}  // namespace corun::sim
