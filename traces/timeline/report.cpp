// Text tables of results.
#include "traces/timeline/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <vector>

namespace corun {
namespace {

constexpr std::size_t kNameWidth = 28;
constexpr std::size_t kLabelWidth = 9;
constexpr std::size_t kNoteLines = 5;
constexpr std::size_t kNotes = 3;

/// Terminal columns of UTF-8 text, one a code point.
std::size_t columns(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string shortened(std::string_view text, std::size_t width) {
  if (columns(text) <= width) return std::string(text);
  std::size_t end = 0;
  for (std::size_t kept = 0; end < text.size(); ++end) {
    if ((text[end] & 0xC0) == 0x80) continue;
    if (kept++ == width - 1) break;
  }
  return std::string(text.substr(0, end)) + "…";
}

/// Four significant digits, but no more than five decimals.
std::string number(double value) {
  if (std::isnan(value)) return "-";
  if (std::isinf(value)) return "inf";
  const double size = std::abs(value);
  if (size >= 1e8) return fmt::format("{:.3g}", value);
  if (size == 0) return "0";
  const int decimals = size >= 1000  ? 0
                       : size >= 100 ? 1
                       : size >= 10  ? 2
                       : size >= 1   ? 3
                       : size >= 0.1 ? 4
                                     : 5;
  return fmt::format("{:.{}f}", value, decimals);
}

std::string fixed(double value, int decimals) {
  if (!std::isfinite(value)) return number(value);
  return fmt::format("{:.{}f}", value, decimals);
}

/// "1.58 to 2.11"
std::string range(const Interval& i) {
  return std::isnan(i.low) ? "-" : fmt::format("{} to {}", number(i.low), number(i.high));
}

std::string percent(double share) {
  return std::isfinite(share) ? fmt::format("{:.1f} %", 100 * share) : "-";
}

/// "1.740  ×1.75": in ms, and of alone
std::string times(double ms, double of_alone) {
  return std::isnan(ms) && std::isnan(of_alone) ? "-" : fmt::format("{} {:>6}", number(ms), "×" + fixed(of_alone, 2));
}

/// 12.3 M
std::string many(std::uint64_t count) {
  const double value = static_cast<double>(count);
  if (value >= 1e9) return number(value / 1e9) + " G";
  if (value >= 1e6) return number(value / 1e6) + " M";
  return std::to_string(count);
}

std::string time_ms(Time t) { return number(to_ms(t)) + " ms"; }

/// A table whose first column is text and whose others are numbers, as wide as their contents.
class Table {
 public:
  explicit Table(std::vector<std::string> header) { rows_.push_back(std::move(header)); }
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }

  /// Names in the first column are cut where the table would get too wide.
  std::string text() const {
    std::vector<std::size_t> widths(rows_.front().size());
    for (const auto& row : rows_)
      for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], columns(row[i]));
    std::size_t others = 0;
    for (std::size_t i = 1; i < widths.size(); ++i) others += kGap + widths[i];
    widths[0] = std::min(widths[0], std::max<std::size_t>(8, kReportWidth - std::min(kReportWidth, others)));

    std::string out;
    for (const auto& row : rows_) {
      std::string line = shortened(row[0], widths[0]);
      line.append(widths[0] - columns(line), ' ');
      for (std::size_t i = 1; i < row.size(); ++i)
        line += std::string(kGap + widths[i] - columns(row[i]), ' ') + row[i];
      line.erase(line.find_last_not_of(' ') + 1);
      out += line + '\n';
    }
    return out;
  }

 private:
  static constexpr std::size_t kGap = 2;
  std::vector<std::vector<std::string>> rows_;
};

/// A label, then text broken at spaces and indented to the label's column.
std::string labelled(std::string_view label, std::string_view text) {
  std::string out = fmt::format("{:<{}}", label, kLabelWidth);
  std::size_t used = kLabelWidth;
  bool at_start = true;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of(" \n"), text.size());
    const std::string word = shortened(text.substr(0, end), kReportWidth - kLabelWidth);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (word.empty()) continue;
    if (!at_start && used + 1 + columns(word) > kReportWidth) {
      out += '\n' + std::string(kLabelWidth, ' ');
      used = kLabelWidth;
      at_start = true;
    }
    if (!at_start) out += ' ';
    used += columns(word) + (at_start ? 0 : 1);
    out += word;
    at_start = false;
  }
  return out + '\n';
}

std::string gpu_line(const RunResult& r) {
  return r.gpu_basis.empty() ? "" : labelled("gpu", r.gpu + ", " + r.gpu_basis);
}

std::string arrivals_line(const RunResult& r) { return r.arrivals.empty() ? "" : labelled("arrivals", r.arrivals); }

std::size_t lines_of(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count(text, '\n'));
}

/// The first of them, in few lines, of which `taken` are used already.
std::string notes_text(const std::vector<Note>& notes, Notes which, std::size_t taken) {
  std::string out;
  if (which == Notes::all) {
    for (const Note& note : notes) out += labelled("note", note.text);
    return out;
  }
  std::size_t shown = 0, lines = taken;
  for (; shown < std::min(notes.size(), kNotes); ++shown) {
    const std::string note = labelled("note", notes[shown].text);
    lines += lines_of(note);
    if (shown > 0 && lines > kNoteLines) break;
    out += note;
  }
  if (shown < notes.size()) out += labelled("", fmt::format("+{} more, with --notes", notes.size() - shown));
  return out;
}

std::string totals(const RunResult& r) {
  const std::string sure = r.stp_interval ? fmt::format(" ({})", range(*r.stp_interval)) : "";
  return fmt::format("STP {}{}  ANTT {}  fairness {}  Jain {}  SM busy {}  occupancy {}  makespan {}\n",
                     fixed(r.stp, 3), sure, fixed(r.antt, 3), fixed(r.fairness, 3), fixed(r.jain, 3),
                     percent(r.sm_busy), percent(r.occupancy), time_ms(r.makespan));
}

const char* short_class(ServiceClass c) { return c == ServiceClass::real_time ? "RT" : "BE"; }

double best_effort_throughput(const RunResult& r) {
  double sum = std::numeric_limits<double>::quiet_NaN();
  for (const ClientResult& c : r.clients)
    if (c.service_class == ServiceClass::best_effort)
      sum = std::isnan(sum) ? c.throughput_per_s : sum + c.throughput_per_s;
  return sum;
}

std::uint64_t misses(const RunResult& r) {
  std::uint64_t sum = 0;
  for (const ClientResult& c : r.clients) sum += c.deadline_misses;
  return sum;
}

/// Of one width up to 1,000 s, so that a table's columns do not depend on how fast the machine was.
std::string took(double seconds) {
  if (!(seconds > 0)) return "-";
  return fmt::format("{:.{}f} s", seconds, seconds < 10 ? 2 : seconds < 100 ? 1 : 0);
}

/// "TTFT 200 ms, TPOT 50 ms": what a server's sequences were promised.
std::string limits_of(const ServedResult& s) {
  std::string text;
  const auto add = [&](const char* what, const std::optional<double>& ms) {
    if (ms) text += fmt::format("{}{} {:.4g} ms", text.empty() ? "" : ", ", what, *ms);
  };
  add("TTFT", s.first_token_limit_ms), add("TPOT", s.per_token_limit_ms), add("E2EL", s.end_to_end_limit_ms);
  return text.empty() ? "nothing promised" : text;
}
std::string late_of(const ServedResult& s) { return s.has_limits() ? fmt::format("{} of {}", s.late, s.sequences) : "-"; }
std::string misses_of(const ClientResult& c) { return c.served ? late_of(*c.served) : std::to_string(c.deadline_misses); }
/// A server's requests are its steps.
std::string shown_name(const ClientResult& c) {
  if (c.replicas != 0) return shortened(c.name, kNameWidth - 5) + fmt::format(" ×{}", c.replicas);
  return c.served ? shortened(c.name, kNameWidth - 8) + " (steps)" : shortened(c.name, kNameWidth);
}

/// Of the requests that arrived in the window.
std::uint64_t offered(const ClientResult& c) { return c.finished + c.dropped + c.unfinished; }

/// "a, b, +3 more"
std::string first_of(const std::vector<std::string>& all, std::size_t most, const char* between) {
  std::string text;
  for (std::size_t i = 0; i < std::min(all.size(), most); ++i) text += (i == 0 ? "" : between) + all[i];
  return all.size() <= most ? text : text + fmt::format("{}+{} more", between, all.size() - most);
}

/// Its requests were dropped, or waited ever longer; one or two that are under way at the end are neither.
bool overloaded(const ClientResult& c) {
  return c.failed.empty() && (c.dropped != 0 || c.unfinished >= 3 + c.finished / 20);
}

/// Sequences wait ever longer; a few that are being read at the end do not.
bool queues(const ServedResult& s) { return s.waiting >= 3 + s.finished / 20; }

std::string overload_text(std::span<const RunResult> results) {
  std::vector<std::string> named;
  for (const RunResult& r : results) {
    const double seconds = to_ns(r.duration) * 1e-9 * static_cast<double>(r.seeds);
    for (const ClientResult& c : r.clients) {
      const std::string name = shortened(c.name, kNameWidth) + (results.size() > 1 ? " under " + r.policy : "");
      if (c.served && queues(*c.served))
        named.push_back(fmt::format("{}: offered {} sequences/s, ended {} /s ({} of {} without a first token)", name,
                                    number(static_cast<double>(c.served->sequences) / seconds),
                                    number(c.served->sequences_per_s), c.served->waiting, c.served->sequences));
      if (!overloaded(c)) continue;
      named.push_back(fmt::format("{}: offered {} /s, served {} /s ({} dropped, {} waiting)", name,
                                       number(static_cast<double>(offered(c)) / seconds), number(c.throughput_per_s),
                                       c.dropped, c.unfinished));
    }
  }
  return named.empty() ? "" : labelled("overload", first_of(named, 1, "; "));
}

/// A quantile q of n requests is their largest where n (1 - q) < 1.
std::string few_text(std::span<const RunResult> results) {
  constexpr std::uint64_t kEnough = 100;
  std::vector<std::string> names;
  std::uint64_t least = kEnough;
  for (std::size_t i = 0; i < results.front().clients.size(); ++i) {
    std::uint64_t finished = kEnough;
    for (const RunResult& r : results)
      if (i < r.clients.size() && r.clients[i].service_class == ServiceClass::real_time && !overloaded(r.clients[i]))
        finished = std::min(finished, (r.clients[i].served ? r.clients[i].served->sequences : r.clients[i].finished) / r.seeds);
    if (finished >= kEnough) continue;
    least = std::min(least, finished);
    names.push_back(shortened(results.front().clients[i].name, kNameWidth));
  }
  if (names.empty()) return {};
  return labelled("few", fmt::format("p99 of {} from {} requests is the largest; run longer",
                                     first_of(names, 2, ", "), least));
}

/// A mean in which some count with their time so far.
bool at_least(const ServedResult& s, double ServedResult::*value) {
  return (value == &ServedResult::first_token_mean_ms && s.first_token.endless != 0) ||
         (value == &ServedResult::end_to_end_mean_ms && s.end_to_end.endless != 0);
}

/// A block for each server, a column for each run; empty where there are none.
std::string served_text(std::span<const RunResult> results) {
  constexpr std::size_t kCell = 18, kSideBySide = 4;
  using Served = const ServedResult&;
  static const std::vector<std::pair<const char*, double ServedResult::*>> kTimes = {
      {"Mean TTFT (ms)", &ServedResult::first_token_mean_ms},      {"Median TTFT (ms)", &ServedResult::first_token_p50_ms},
      {"P99 TTFT (ms)", &ServedResult::first_token_p99_ms},        {"Mean TPOT (ms)", &ServedResult::per_token_mean_ms},
      {"Median TPOT (ms)", &ServedResult::per_token_p50_ms},       {"P99 TPOT (ms)", &ServedResult::per_token_p99_ms},
      {"Mean ITL (ms)", &ServedResult::between_tokens_mean_ms},    {"Median ITL (ms)", &ServedResult::between_tokens_p50_ms},
      {"P99 ITL (ms)", &ServedResult::between_tokens_p99_ms},      {"Mean E2EL (ms)", &ServedResult::end_to_end_mean_ms},
      {"Median E2EL (ms)", &ServedResult::end_to_end_p50_ms},      {"P99 E2EL (ms)", &ServedResult::end_to_end_p99_ms}};
  std::string out;
  /// Replicas as one.
  const auto servers_of = [](const RunResult& r) {
    std::vector<const ClientResult*> all;
    for (const ClientResult& c : r.clients)
      if (c.served && c.replica_of.empty()) all.push_back(&c);
    for (const ClientResult& c : r.servers)
      if (c.served) all.push_back(&c);
    return all;
  };
  const std::vector<const ClientResult*> servers = servers_of(results.front());
  for (std::size_t i = 0; i < servers.size(); ++i) {
    const ClientResult& client = *servers[i];
    for (std::size_t begin = 0; begin < results.size(); begin += kSideBySide) {
      const auto part = results.subspan(begin, std::min(kSideBySide, results.size() - begin));
      std::vector<std::string> header{"sequences of " + (client.replicas != 0 ? shown_name(client) : shortened(client.name, kNameWidth))};
      for (const RunResult& r : part) header.push_back(shortened(r.policy, kCell - 2));
      Table table(std::move(header));
      const auto row = [&](const std::string& label, const auto& cell) {
        std::vector<std::string> cells{label};
        for (const RunResult& r : part) {
          const std::vector<const ClientResult*> here = servers_of(r);
          cells.push_back(i < here.size() ? cell(*here[i]->served, r) : "-");
        }
        table.add(std::move(cells));
      };
      row("Successful requests", [](Served s, const RunResult&) { return fmt::format("{} of {}", s.finished, s.sequences); });
      row("Late: " + limits_of(*client.served), [](Served s, const RunResult&) { return late_of(s); });
      row("Under way at the end, not late", [](Served s, const RunResult&) { return std::to_string(s.pending); });
      row("Benchmark duration (s)", [](Served, const RunResult& r) { return number(to_seconds(r.duration)); });
      row("Request throughput (req/s)", [](Served s, const RunResult&) { return number(s.sequences_per_s); });
      row("Request goodput (req/s)", [](Served s, const RunResult&) { return number(s.goodput_per_s); });
      row("Output token throughput (tok/s)", [](Served s, const RunResult&) { return number(s.tokens_per_s); });
      if (std::ranges::any_of(part, [&](const RunResult& r) { return i < servers_of(r).size() && servers_of(r)[i]->served->prompt_tokens != 0; }))
        row("Prompt tokens from the prefix cache", [](Served s, const RunResult&) {
          return percent(static_cast<double>(s.cached_tokens) / static_cast<double>(s.prompt_tokens));
        });
      for (const auto& [label, value] : kTimes)
        row(label, [value](Served s, const RunResult&) { return at_least(s, value) ? '>' + number(s.*value) : number(s.*value); });
      out += '\n' + table.text();
    }
  }
  return out;
}

/// How sure the numbers of a run are, a line a client.
std::string intervals_text(const RunResult& r) {
  Table table({"nine of ten measured lie in", "mean", "p99", "/s", "known"});
  bool any = false;
  for (const ClientResult& c : r.clients) {
    if (!c.intervals) continue;
    any = true;
    table.add({shown_name(c), range(c.intervals->mean_ms), range(c.intervals->p99_ms),
               range(c.intervals->throughput_per_s), c.intervals->known});
  }
  return any ? '\n' + table.text() : "";
}

/// A server's replicas as one, a column a run.
std::string replicas_text(std::span<const RunResult> part, std::size_t cell) {
  if (part.front().servers.empty()) return {};
  std::vector<std::string> header{"all replicas", "", "  "};
  for (const RunResult& r : part) header.push_back(shortened(r.policy, cell - 2));
  Table table(std::move(header));
  for (std::size_t i = 0; i < part.front().servers.size(); ++i)
    for (const auto& [label, value] : {std::pair{"/s", &ClientResult::throughput_per_s}, {"p99", &ClientResult::p99_ms}, {"mean", &ClientResult::mean_ms}}) {
      std::vector<std::string> row{value == &ClientResult::throughput_per_s ? shown_name(part.front().servers[i]) : "", label, "  "};
      for (const RunResult& r : part) row.push_back(i < r.servers.size() ? number(r.servers[i].*value) : "-");
      table.add(std::move(row));
    }
  return table.text();
}

/// Of several runs: the p99 of each client, a column a run.
std::string intervals_text(std::span<const RunResult> part, std::size_t cell) {
  std::vector<std::string> header{"nine of ten p99 lie in", ""};
  for (const RunResult& r : part) header.push_back(shortened(r.policy, cell - 2));
  Table table(std::move(header));
  bool any = false;
  for (std::size_t i = 0; i < part.front().clients.size(); ++i) {
    std::vector<std::string> row{shown_name(part.front().clients[i]), "  "};
    for (const RunResult& r : part) {
      const bool known = i < r.clients.size() && r.clients[i].intervals.has_value();
      any = any || known;
      row.push_back(known ? range(r.clients[i].intervals->p99_ms) : "-");
    }
    table.add(std::move(row));
  }
  return any ? table.text() : "";
}

}  // namespace

std::string format_table(std::span<const std::vector<std::string>> rows) {
  Table table(rows.front());
  for (const auto& row : rows.subspan(1)) table.add(row);
  return table.text();
}

double worst_real_time_p99(const RunResult& r) {
  double worst = std::numeric_limits<double>::quiet_NaN();
  for (const ClientResult& c : r.clients)
    if (c.service_class == ServiceClass::real_time) worst = std::fmax(worst, c.p99_ms);
  return worst;
}

std::string format_report(const RunResult& r, Notes notes) {
  std::string out = labelled(
      "trace", fmt::format("{} on {} under {}, seed {}; latencies in ms", r.trace, r.gpu, r.policy, r.seed));
  Table table({"client", "class", "done", "dropped", "/s", "mean", "p50", "p95", "p99", "alone", "max", "misses",
               "slowdown", "progress"});
  for (const auto* of : {&r.clients, &r.servers})
    for (const ClientResult& c : *of)
      table.add({shown_name(c), short_class(c.service_class), std::to_string(c.finished),
                 std::to_string(c.dropped), number(c.throughput_per_s), number(c.mean_ms), number(c.p50_ms),
                 number(c.p95_ms), number(c.p99_ms), number(c.alone_p99_ms), number(c.max_ms), misses_of(c),
                 fixed(c.slowdown, 3), fixed(c.progress, 3)});
  out += table.text() + served_text({&r, 1}) + intervals_text(r);
  for (const ClientResult& c : r.clients)
    if (!c.failed.empty()) out += labelled("failed", c.name + ": " + c.failed);
  const std::string warnings = overload_text({&r, 1}) + few_text({&r, 1});
  out += '\n' + totals(r) + warnings;
  if (r.preemption.count != 0)
    out += fmt::format(
        "preemptions {}  of {} launches  until off p50 {} us, p99 {} us, max {} us  blocks redone {}\n",
        r.preemption.count, many(r.preemption.launches), number(r.preemption.latency.p50_us),
        number(r.preemption.latency.p99_us), number(r.preemption.latency.max_us),
        many(r.preemption.redone_blocks));
  out += labelled("window", r.window) + arrivals_line(r) + labelled("alone", r.alone) + gpu_line(r);
  if (r.wall_s > 0)
    out += labelled("took",
                    fmt::format("{} ({} blocks, {} events)", took(r.wall_s), many(r.blocks), many(r.events)));
  if (const RunResult::LookedAhead& l = r.looked_ahead; l.forecasts != 0)
    out += labelled("ahead",
                    fmt::format("{} decisions with {} forecasts of {} events, each {:.0f} us in the mean, "
                                "p99 {:.0f} us, max {:.0f} us",
                                many(l.decisions), many(l.forecasts), many(l.events), l.mean_us, l.p99_us, l.max_us));
  return out + notes_text(r.notes, notes, lines_of(warnings));
}

std::string format_comparison(std::span<const RunResult> results, std::span<const NotRun> not_run, Notes which) {
  if (results.empty()) return {};
  const RunResult& first = results.front();
  std::string out =
      labelled("trace", fmt::format("{} on {}, {}; times in ms", first.trace, first.gpu,
                                    first.seeds == 1 ? fmt::format("seed {}", first.seed) : fmt::format("{} seeds together", first.seeds)));
  Table runs({"policy", "STP", "ANTT", "fairness", "Jain", "worst RT p99", "misses", "BE/s", "SM busy",
              "makespan", "took"});
  for (const RunResult& r : results)
    runs.add({shortened(r.policy, kNameWidth), fixed(r.stp, 3), fixed(r.antt, 3), fixed(r.fairness, 3),
              fixed(r.jain, 3), number(worst_real_time_p99(r)), std::to_string(misses(r)),
              number(best_effort_throughput(r)), percent(r.sm_busy), number(to_ms(r.makespan)),
              took(r.wall_s)});
  out += runs.text();

  // As many runs side by side as fit.
  constexpr std::size_t kCell = 18;
  constexpr std::size_t kBefore = 22;  // figure, class, alone
  std::size_t names = 8;
  for (const ClientResult& c : first.clients) names = std::max(names, columns(shown_name(c)));
  const std::size_t side_by_side = (kReportWidth - names - kBefore) / kCell;
  for (std::size_t begin = 0; begin < results.size(); begin += side_by_side) {
    const auto part = results.subspan(begin, std::min(side_by_side, results.size() - begin));
    std::vector<std::string> header{"latency", "", "class", "alone"};
    for (const RunResult& r : part) header.push_back(shortened(r.policy, kCell - 2));
    Table clients(std::move(header));
    for (std::size_t i = 0; i < first.clients.size(); ++i) {
      const ClientResult& c = first.clients[i];
      std::vector<std::string> p99{shown_name(c), "p99", short_class(c.service_class), number(c.alone_p99_ms)};
      std::vector<std::string> mean{"", "mean", "", number(c.alone_mean_ms)};
      for (const RunResult& r : part) {
        const ClientResult* of = i < r.clients.size() ? &r.clients[i] : nullptr;
        p99.push_back(of != nullptr ? times(of->p99_ms, of->p99_ms / of->alone_p99_ms) : "-");
        mean.push_back(of != nullptr ? times(of->mean_ms, of->slowdown) : "-");
      }
      clients.add(std::move(p99));
      clients.add(std::move(mean));
    }
    out += '\n' + clients.text() + replicas_text(part, kCell) + intervals_text(part, kCell);
  }
  out += served_text(results);

  out += '\n';
  for (const NotRun& n : not_run) out += labelled("not run", n.policy + ": " + n.reason);
  for (const RunResult& r : results)
    for (const ClientResult& c : r.clients)
      if (!c.failed.empty())
        out += labelled("failed", fmt::format("{} under {}: {}", c.name, r.policy, c.failed));
  const std::string warnings = overload_text(results) + few_text(results);
  out += warnings;
  out += labelled("window", first.window) + arrivals_line(first) + labelled("alone", first.alone) + gpu_line(first);
  std::vector<Note> notes;
  for (const RunResult& r : results)
    for (const Note& note : r.notes)
      if (std::ranges::find(notes, note) == notes.end()) notes.push_back(note);
  return out + notes_text(notes, which, lines_of(warnings));
}

std::string format_parts(std::span<const RunResult> results) {
  Table table({"where latency goes (ms)", "mean", "queue", "host", "policy", "launch", "wait", "turn", "copy", "off",
               "alone", "others"});
  Table resources({"what running kernels lack (ms)", "running", "alone", "places", "issue", "pipes", "L2", "DRAM", "clock"});
  bool by_resource = false;
  for (const RunResult& r : results)
    for (const ClientResult& c : r.clients) {
      const PartsMs& p = c.parts;
      const double alone = std::min(c.alone_parts.running, p.running);
      const std::string name =
          results.size() > 1 ? fmt::format("{}, {}", shortened(c.name, kNameWidth / 2), shortened(r.policy, kNameWidth / 2))
                             : shortened(c.name, kNameWidth);
      table.add({name, fixed(c.mean_ms, 3), fixed(p.queue, 3), fixed(p.host, 3), fixed(p.held, 3), fixed(p.launching, 3),
                 fixed(p.waiting, 3), fixed(p.off_turn, 3), fixed(p.copying, 3), fixed(p.preempted, 3),
                 fixed(alone, 3), fixed(p.running - alone, 3)});
      if (!c.running_parts) continue;
      by_resource = true;
      const RunningPartsMs& q = *c.running_parts;
      resources.add({name, fixed(p.running, 3), fixed(q.alone, 3), fixed(q.places, 3), fixed(q.issue, 3), fixed(q.pipes, 3),
                     fixed(q.l2, 3), fixed(q.dram, 3), fixed(q.clock, 3)});
    }
  return table.text() + (by_resource ? "\n" + resources.text() : "");
}

}  // namespace corun
