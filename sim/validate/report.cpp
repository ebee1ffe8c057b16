#include "sim/validate/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <ostream>

#include "sim/validate/figures.h"
#include "traces/json/spelling.h"

namespace corun::sim {
namespace {

using json = nlohmann::ordered_json;

constexpr std::size_t kWorstShown = 5;

std::string line_of(std::string_view name, const Errors& e) {
  return fmt::format("{:<12}{:>6}{:>10}{:>10}{:>10}{:>10}{:>10}\n", name, e.rows, percent(e.slowdown_mean),
                     percent(e.slowdown_median), percent(e.slowdown_p95), percent(e.slowdown_worst),
                     percent(e.stp_mean));
}

json json_of(const Errors& e) {
  return {{"rows", e.rows},
          {"slowdown_error_mean", e.slowdown_mean},
          {"slowdown_error_median", e.slowdown_median},
          {"slowdown_error_p95", e.slowdown_p95},
          {"slowdown_error_worst", e.slowdown_worst},
          {"stp_error_mean", e.stp_mean}};
}

json json_of(const SoloErrors& e) {
  return {
      {"times", e.times}, {"error_mean", e.mean}, {"error_worst", e.worst}, {"worst_kernel", e.worst_kernel}};
}

void write_csv_row(std::ostream& out, const std::string& name, double measured, double simulated) {
  std::string field = name;
  if (field.find_first_of(",\"\r\n") != std::string::npos) {
    for (std::size_t at = 0; (at = field.find('"', at)) != std::string::npos; at += 2)
      field.insert(at, 1, '"');
    field = '"' + field + '"';
  }
  out << fmt::format("{},{:.6g},{:.6g},{:.6g}\n", field, measured, simulated, simulated / measured);
}

constexpr const char* kCsvHeader = "name,measured,simulated,ratio\n";

}  // namespace

std::string subject_of(const Validation& v) {
  return fmt::format("{} ({}), {} kernels, {} rows; simulated on {}, inputs {}", v.reference.file,
                     v.reference.gpu.empty() ? "unknown GPU" : printable(v.reference.gpu, 100),
                     v.reference.kernels.size(), v.comparison.rows.size(), v.gpu.name,
                     v.inputs == Inputs::curve ? "curve" : "counters");
}

std::vector<std::string> notes_of(const Validation& v) {
  std::vector<std::string> notes;
  if (!v.reference.gpu.empty() && v.reference.gpu.find(v.gpu.product) == std::string::npos)
    notes.push_back(
        fmt::format("measured on {}, but simulated on {}", printable(v.reference.gpu, 100), v.gpu.product));
  std::vector<std::pair<std::string, std::vector<std::string>>> kernels_by_inputs;
  for (const ReferenceKernel& k : v.reference.kernels) {
    auto at = std::ranges::find(kernels_by_inputs, k.inputs, [](const auto& entry) { return entry.first; });
    if (at == kernels_by_inputs.end()) at = kernels_by_inputs.insert(at, {k.inputs, {}});
    at->second.push_back(k.kernel.name);
  }
  notes.reserve(notes.size() + kernels_by_inputs.size());
  for (const auto& [inputs, kernels] : kernels_by_inputs)
    notes.push_back(fmt::format(
        "known of {}: {}",
        kernels.size() == v.reference.kernels.size() ? "every kernel" : list_names(kernels, kernels.size()),
        inputs));
  return notes;
}

std::vector<const ComparedRow*> worst_rows(const Comparison& comparison, std::size_t most) {
  std::vector<const ComparedRow*> rows;
  for (const ComparedRow& row : comparison.rows) rows.push_back(&row);
  std::ranges::sort(rows, {}, [](const ComparedRow* row) {
    return std::pair(-errors_of({row, 1}).slowdown_worst, row);  // of equal ones the first
  });
  rows.resize(std::min(rows.size(), most));
  return rows;
}

std::string format_validation(const Validation& v) {
  const Comparison& c = v.comparison;
  std::string out = fmt::format("reference   {}\n", subject_of(v));
  if (!c.rows.empty()) {
    out += fmt::format("\n{:<12}{:>6}{:>10}{:>10}{:>10}{:>10}{:>10}\n", "slowdown", "rows", "mean", "median",
                       "p95", "worst", "STP mean");
    for (const auto& [mode, errors] : c.modes) out += line_of(to_string(mode), errors);
    out += line_of("all", c.all);
    out += fmt::format(
        "\nKendall tau  {}   of simulated and measured STP over a pair's modes, mean of {} pairs, ties "
        "within 1 % "
        "(without ties {})\n",
        std::isnan(c.kendall_tau) ? "-" : fmt::format("{:.3f}", c.kendall_tau), c.pairs,
        std::isnan(c.kendall_tau_strict) ? "-" : fmt::format("{:.3f}", c.kendall_tau_strict));
    out += fmt::format("best mode    {}   of pairs: measured STP within {} of the best mode's\n",
                       percent(c.best_mode_picked), percent(kAsGood));
    out += fmt::format("\n{:<44}{:>16}{:>16}{:>8}\n", "worst rows: measured -> simulated slowdown", "A", "B",
                       "spread");
    for (const ComparedRow* r : worst_rows(c, kWorstShown))
      out += fmt::format("{:<44}{:>16}{:>16}{:>8.3f}{}\n",
                         fmt::format("{}/{}", printable(r->pair), to_string(r->mode)),
                         fmt::format("{:.3f} -> {:.3f}", r->measured.a, r->simulated.a),
                         fmt::format("{:.3f} -> {:.3f}", r->measured.b, r->simulated.b), r->spread,
                         r->why.empty() ? "" : "  " + r->why);
  }
  if (!c.solo.empty()) {
    out += fmt::format("\n{:<12}{:>8}{:>10}{:>10}  {}\n", "time alone", "times", "mean", "worst", "at");
    const auto line = [&](const std::string& name, const SoloErrors& e) {
      out += fmt::format("{:<12}{:>8}{:>10}{:>10}  {}\n", name, e.times, percent(e.mean), percent(e.worst),
                         printable(e.worst_kernel));
    };
    for (const auto& [sms, errors] : c.solo) line(fmt::format("on {} SMs", sms), errors);
    line("all", c.solo_all);
  }
  out += "\nerrors      |simulated / measured - 1|; p95 linear between the closest ranks\n";
  for (const std::string& note : notes_of(v)) out += "note        " + note + '\n';
  return out;
}

json validation_json(const Validation& v) {
  const Comparison& c = v.comparison;
  json out;
  out["version"] = 1;
  out["comparison"] = "pairs";
  out["reference"] = v.reference.file;
  out["measured_on"] = v.reference.gpu;
  out["gpu"] = v.gpu.name;
  out["inputs"] = v.inputs == Inputs::curve ? "curve" : "counters";
  out["modes"] = json::object();
  for (const auto& [mode, errors] : c.modes) out["modes"][std::string(to_string(mode))] = json_of(errors);
  out["all"] = json_of(c.all);
  out["pairs"] = c.pairs;
  out["kendall_tau"] = c.kendall_tau;
  out["kendall_tau_strict"] = c.kendall_tau_strict;
  out["best_mode_picked"] = c.best_mode_picked;
  out["solo"] = json::object();
  for (const auto& [sms, errors] : c.solo) out["solo"][std::to_string(sms)] = json_of(errors);
  if (!c.solo.empty()) out["solo"]["all"] = json_of(c.solo_all);
  out["rows"] = json::array();
  for (const ComparedRow& r : c.rows)
    out["rows"].push_back({{"pair", r.pair},
                           {"mode", std::string(to_string(r.mode))},
                           {"measured", {{"a", r.measured.a}, {"b", r.measured.b}, {"stp", r.measured.stp()}}},
                           {"simulated", {{"a", r.simulated.a}, {"b", r.simulated.b}, {"stp", r.simulated.stp()}}},
                           {"spread", r.spread},
                           {"why", r.why}});
  out["notes"] = notes_of(v);
  return out;
}

void write_rows_csv(const Comparison& comparison, std::ostream& out) {
  out << kCsvHeader;
  for (const ComparedRow& row : comparison.rows) {
    const std::string name = fmt::format("{}/{}/", row.pair, to_string(row.mode));
    write_csv_row(out, name + "a", row.measured.a, row.simulated.a);
    write_csv_row(out, name + "b", row.measured.b, row.simulated.b);
    write_csv_row(out, name + "stp", row.measured.stp(), row.simulated.stp());
  }
}

void write_solo_csv(const Reference& reference, const Replay& replay, std::ostream& out) {
  out << kCsvHeader;
  for (std::size_t i = 0; i < reference.kernels.size(); ++i)
    for (const auto& [sms, measured] : reference.kernels[i].solo_ms_by_sms)
      write_csv_row(out, fmt::format("{}/{}", reference.kernels[i].kernel.name, sms), measured,
                    replay.solo_ms_by_sms[i].at(sms));
}

}  // namespace corun::sim
