#include "sim/command/compare_gpus.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "sim/input/carry.h"
#include "sim/run/in_parallel.h"
#include "sim/run/run.h"
#include "traces/json/trace_json.h"
#include "traces/model/error.h"
#include "traces/timeline/report.h"

namespace corun::sim {
namespace {

struct Card {
  Gpu gpu;
  std::optional<CarriedOver> carried;  // none: the times are of this GPU
  Trace trace;
};

struct Row {
  std::size_t card;
  std::string policy, refused;
  std::optional<RunResult> result;
};

std::string number(double value, int decimals) {
  return std::isfinite(value) ? fmt::format("{:.{}f}", value, decimals) : "-";
}

double worst_slowdown(const RunResult& r) {
  double worst = 0;
  for (const ClientResult& c : r.clients) worst = std::fmax(worst, c.slowdown);
  return worst;
}

std::string carried_text(const Card& card, const Gpu& from) {
  if (!card.carried) return "times as recorded";
  const CarriedOver& c = *card.carried;
  std::string text =
      fmt::format("launches take {:.2f} times as long as on {} in the median ({:.2f} to {:.2f})\n", c.median,
                  from.name, c.least, c.most);
  text += fmt::format("         kernels: {} by their counters, {} by their class, {} by SMs and clock",
                      c.by_counters, c.by_class, c.by_clock);
  if (c.trimmed != 0)
    text += fmt::format("\n         {} ask for more shared memory than a block can have there, and get that",
                        c.trimmed);
  std::vector<std::string> became;
  for (const auto& [was, is] : c.priorities) became.push_back(fmt::format("{} is {}", was, is));
  if (!became.empty())
    text += fmt::format("\n         it has {} levels of priority: {}{}", card.gpu.priority_levels, fmt::join(became, ", "),
                        became.size() > card.gpu.priority_levels ? "; levels that coincide are served alike" : "");
  if (const std::string left_out = not_carried(c, from, card.gpu); !left_out.empty()) text += "\n         " + left_out;
  return text + "\n         " + carry_error(from, card.gpu);
}

void print_text(const Trace& trace, const Gpu& from, const std::vector<Card>& cards,
                const std::vector<Row>& rows, Notes which) {
  fmt::print("trace    {}, recorded on {}; times in ms\n", trace.name, from.name);
  std::size_t width = 12;
  for (const Card& card : cards) width = std::max(width, card.gpu.name.size());
  width += 2;
  fmt::print("{:<{}}{:<26}{:>7}{:>8}{:>10}{:>14}{:>10}{:>11}\n", "gpu", width, "policy", "STP", "ANTT", "fairness",
             "worst RT p99", "slowest", "makespan");
  for (const Row& row : rows)
    if (row.result) {
      const RunResult& r = *row.result;
      fmt::print("{:<{}}{:<26}{:>7}{:>8}{:>10}{:>14}{:>10}{:>11}\n", cards[row.card].gpu.name, width, row.policy,
                 number(r.stp, 3), number(r.antt, 3), number(r.fairness, 3),
                 number(worst_real_time_p99(r), 3), "x" + number(worst_slowdown(r), 2), number(to_ms(r.makespan), 2));
    }
  fmt::print("\n");
  for (const Row& row : rows)
    if (!row.result)
      fmt::print("not run  {} under {}: {}\n", cards[row.card].gpu.name, row.policy, row.refused);
  for (const Row& row : rows)
    if (row.result)
      for (const ClientResult& c : row.result->clients)
        if (!c.failed.empty())
          fmt::print("failed   {} on {} under {}: {}\n", c.name, cards[row.card].gpu.name, row.policy, c.failed);
  for (const Card& card : cards) {
    fmt::print("gpu      {}, {}\n         {}\n", card.gpu.name, in_words(card.gpu.basis), carried_text(card, from));
    for (const std::string& note : card_notes(card.trace, card.gpu)) fmt::print("         {}\n", note);
  }
  if (std::ranges::any_of(cards, [](const Card& card) { return card.carried.has_value(); }))
    fmt::print("rule     {}\n", kCarryRule);
  if (which != Notes::all) return;
  std::vector<Note> told;
  for (const Row& row : rows)
    if (row.result)
      for (const Note& note : row.result->notes)
        if (std::ranges::find(told, note) == told.end()) fmt::print("note     {}\n", told.emplace_back(note).text);
}

void print_document(const Gpu& from, const std::vector<Card>& cards, const std::vector<Row>& rows) {
  std::vector<RunResult> results;
  std::vector<NotRun> not_run;
  for (const Row& row : rows)
    if (row.result)
      results.push_back(*row.result);
    else
      not_run.push_back({row.policy, cards[row.card].gpu.name + ": " + row.refused});
  std::stringstream text;
  write_summary(results, text, not_run);
  nlohmann::ordered_json document = nlohmann::ordered_json::parse(text);
  document["recorded_on"] = from.name;
  document["rule"] = kCarryRule;
  for (const Card& card : cards) {
    nlohmann::ordered_json to = {{"gpu", card.gpu.name}, {"basis", in_words(card.gpu.basis)}};
    if (const auto& c = card.carried)
      to["carried_over"] = {{"time_ratio", {{"least", c->least}, {"median", c->median}, {"most", c->most}}},
                            {"kernels_by_counters", c->by_counters},
                            {"kernels_by_class", c->by_class},
                            {"kernels_by_clock", c->by_clock},
                            {"kernels_with_less_shared_memory", c->trimmed},
                            {"error", carry_error(from, card.gpu)}};
    if (card.carried)
      for (const auto& [was, is] : card.carried->priorities)
        to["carried_over"]["priorities"].push_back({{"was", was}, {"is", is}});
    document["cards"].push_back(std::move(to));
  }
  std::cout << document.dump(2) << '\n';
}

}  // namespace

int compare_gpus(const Trace& trace, const std::string& file, const CompareArguments& a, EngineOptions engine,
                 bool json) {
  const Gpu from = read_gpu(trace.gpu, std::filesystem::path(file).parent_path());
  std::vector<std::string> specs = specs_of(a);
  std::vector<Card> cards;
  const std::vector<Gpu> gpus = read_gpus(a.gpus);
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    const std::string& name = a.gpus[i];
    Card card{told_apart(gpus[i], from, name), {}, trace};
    const auto has_its_name = [&](const Card& other) { return other.gpu.name == card.gpu.name; };
    if (std::ranges::any_of(cards, has_its_name)) card.gpu.name += fmt::format(" ({})", name);
    if (!same_card(from, card.gpu)) {
      card.carried = carried_over(trace, from, card.gpu);
      card.trace = card.carried->trace;
    }
    cards.push_back(std::move(card));
  }
  std::vector<Row> rows;
  for (std::size_t i = 0; i < cards.size(); ++i)
    for (const std::string& spec : specs) rows.push_back({i, spec, "", {}});
  Memory memory;
  in_parallel(rows.size(), 0, [&](std::size_t i) {
    const Card& card = cards[rows[i].card];
    const RunOptions options{{.policy = rows[i].policy}, engine, 0, &memory};
    try {
      rows[i].result = run(card.trace, card.gpu, options);
    } catch (const InputError& error) {  // a kernel that fits no SM there, a policy that needs more
      rows[i].refused = error.problem();
    }
  });
  json ? print_document(from, cards, rows) : print_text(trace, from, cards, rows, a.notes);
  return 0;
}

}  // namespace corun::sim
