#include "sim/command/advise.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <optional>
#include <set>

#include "hw/run/signal_guard.h"
#include "sim/advise/advice_json.h"
#include "sim/advise/advise.h"
#include "sim/advise/format.h"
#include "sim/advise/what_if.h"
#include "sim/command/progress.h"
#include "sim/command/report_page.h"
#include "sim/input/carry.h"
#include "sim/sweep/sweep.h"
#include "traces/json/spelling.h"
#include "traces/json/trace_json.h"
#include "traces/model/error.h"

namespace corun::sim {
namespace {

constexpr int kNoneHolds = 3;
constexpr std::uint64_t kFew = 100;  // requests on which a p99 rests

struct Ended {};  // by Ctrl-C

std::string three_digits(double value) {
  if (!std::isfinite(value)) return "-";
  return std::abs(value) >= 10 ? fmt::format("{:.1f}", value) : fmt::format("{:.3g}", value);
}

std::string whole_percent(double share) { return fmt::format("{:.0f} %", 100 * share); }

std::string with_unit(double value, Metric metric) {
  return fmt::format("{} {}", three_digits(value), unit_of(metric));
}

class Report {
 public:
  Report(const std::vector<AdvisedCard>& cards, const AdviseOptions& options, const Advice& advice, const std::vector<WhatIf>& what_if)
      : cards_(cards), options_(options), advice_(advice), what_if_(what_if) {}

  /// "cam:p99 14.2 ms (13.9 to 14.6) of 20ms", the goal's value too.
  std::string values(const Tried& t) const {
    std::string text;
    for (const Slo& slo : options_.slos) {
      const ClientResult& c = t.together.clients[slo.client];
      text += fmt::format("{}{} {} of {}", text.empty() ? "" : ", ", slo.text.substr(0, slo.text.find('=')),
                          spread(t, slo.metric, [&](const RunResult& r) { return value_of(r.clients[slo.client], slo.metric); }),
                          slo.text.substr(slo.text.find('=') + 1));
      if (c.dropped != 0) text += fmt::format(" ({} of {} dropped)", c.dropped, c.dropped + c.finished);
      if (c.served && c.served->finished == 0) text += fmt::format(" (none of {} sequences ended)", c.served->unfinished);
    }
    return text + fmt::format("{}{} {}", text.empty() ? "" : "; ", options_.goal.text, goal(t)) + held(t);
  }

  std::string goal(const Tried& t) const {
    return spread(t, options_.goal.client ? std::optional(options_.goal.metric) : std::nullopt,
                  [&](const RunResult& r) { return goal_value(options_.goal, r); });
  }

  std::string margin(const Tried& t) const {
    if (options_.slos.empty()) return "nothing was promised";
    const std::string left = fmt::format("margin {}", whole_percent(1 - t.use));
    const Slo& slo = options_.slos[t.tightest];
    const Interval interval = interval_of(t, slo.client, slo.metric);
    if (std::isnan(interval.low)) return left;
    const std::string lie = fmt::format("nine of ten measured lie in {} to {}", three_digits(interval.low), with_unit(interval.high, slo.metric));
    if (t.holds_surely()) return left + "; " + lie;
    return fmt::format("{}: not surely, because {}; {}", left, lie, what_would_tell(t));
  }

  std::string in_a_line(const Tried& t) const { return t.setting.words + on(t); }
  std::string remark(const Tried& t) const { return fmt::format("\n# {}: {}", values(t), margin(t)); }

  /// The least of measurements with which the promise that is nearest to its limit would hold surely, or not.
  std::string what_would_tell(const Tried& t) const {
    const Slo& slo = options_.slos[t.tightest];
    const ClientResult& c = t.together.clients[slo.client];
    const auto told = [&](Known known) {
      Basis basis = t.bases[slo.client];
      if (basis.known >= known) return false;
      basis.known = known;
      ClientResult then = c;
      then.intervals = intervals_of(c, cards_[t.card].trace.clients[slo.client], basis);
      const Interval i = interval_of(then, slo.metric);
      return is_rate(slo.metric) ? i.low >= slo.limit : i.high <= slo.limit;
    };
    if (told(Known::counters)) return "counters (--counters) would tell";
    if (told(Known::part)) return fmt::format("a second recording of {} on a part (by-sms=) would tell", c.name);
    return "only a run would tell";
  }

  std::string saved(const Tried& t) const {
    const std::string& gpu = cards_[t.card].gpu.name;
    const std::vector<Client>& all = cards_[t.card].trace.clients;
    const std::size_t clients = all.size();
    if (clients == 1 && t.setting.mode != SharingMode::mig)
      return fmt::format("nothing: {} has one {} to itself", all.front().name, gpu);
    std::string text = clients == 1 ? fmt::format("what is left of one {}", gpu)
                                    : fmt::format("one {} instead of {}", gpu, clients);
    for (std::size_t i = 0; i < clients; ++i)
      text += fmt::format("; {} keeps {} of its throughput", all[i].name,
                          whole_percent(t.together.clients[i].progress));
    return text;
  }

  void print() const {
    const Trace& trace = cards_.front().trace;
    fmt::print("trace    {} on {}, {} settings simulated{}\n", trace.name, gpus(), advice_.tried.size(), seeds());
    if (advice_.best) {
      const Tried& best = advice_.tried[*advice_.best];
      fmt::print("setting  {}{}\n", best.setting.words, on(best));
      fmt::print("holds    {}: {}\n", values(best), margin(best));
      if (advice_.next) {
        const Tried& next = advice_.tried[*advice_.next];
        fmt::print("next     {}: {}{}\n", next.setting.words, values(next),
                   options_.slos.empty() ? "" : next.holds_surely() ? ": holds" : ": holds, not surely");
      } else {
        fmt::print("next     no other {} holds\n", trace.clients.size() == 1 ? "setting" : "way of sharing");
      }
      fmt::print("saves    {}\n", saved(best));
      fmt::print("do       {}\n", best.setting.to_do);
      if (trace.clients.size() == 1)
        fmt::print("note     {} shares with nobody: give each program with --client NAME=FILE\n",
                   trace.clients.front().name);
      few(best);
      carried(best);
    } else if (advice_.nearest) {
      const Tried& nearest = advice_.tried[*advice_.nearest];
      fmt::print("none     no setting holds; nearest is {}{}: {}\n", nearest.setting.words, on(nearest), values(nearest));
      carried(nearest);
      fmt::print("so       give {}a lower rate (--highest-rate), a longer limit, or try --gpus\n",
                 trace.clients.size() == 1 ? "it " : "each client a GPU of its own, ");
    } else if (advice_.tried.empty()) {
      fmt::print("none     these modes have no setting for this trace\n");
    } else {
      fmt::print("none     no setting can run this trace: {}\n", advice_.tried.front().refused);
    }
  }

  /// A line for each assumption that changes the advice, and one for those that do not.
  void print_what_if() const {
    std::string same;
    for (const WhatIf& what : what_if_) {
      if (!what.refused.empty())
        fmt::print("what if  {}: cannot be asked: {}\n", what.assumed, what.refused);
      else if (!what.changes)
        same += (same.empty() ? "" : "; ") + what.assumed;
      else
        fmt::print("what if  {}: {}\n", what.assumed, changed(what));
    }
    if (!same.empty()) fmt::print("same     {}\n", same);
  }

  void print_all() const {
    fmt::print("\n{:<64}{:>9}  {}\n", "setting", "use", "values");
    for (const Tried& t : advice_.tried)
      fmt::print("{:<64}{:>9}  {}\n", t.setting.words + on(t), t.ran() && std::isfinite(t.use) ? whole_percent(t.use) : "-",
                 t.ran() ? values(t) : t.refused);
  }

 private:
  /// Over all seeds, and between what it lies under single ones; no metric: STP.
  static std::string spread(const Tried& t, std::optional<Metric> metric, const std::function<double(const RunResult&)>& number) {
    const Estimate s = estimate(t.results, number);
    const auto digits = [&](double value) { return metric ? three_digits(value) : fmt::format("{:.3f}", value); };
    return digits(number(t.together)) + (metric ? fmt::format(" {}", unit_of(*metric)) : "") +
           (digits(s.least) != digits(s.most) ? fmt::format(" ({} to {})", digits(s.least), digits(s.most)) : "");
  }
  /// Number of seeds in which the promises hold, where several were simulated.
  std::string held(const Tried& t) const {
    if (t.results.size() < 2 || options_.slos.empty()) return "";
    return t.held_in == t.results.size() ? fmt::format(" in each of {} seeds", t.results.size())
                                         : fmt::format(" in {} of {} seeds", t.held_in, t.results.size());
  }
  std::string changed(const WhatIf& what) const {
    const auto then = [&] { return what.instead->setting.words + ": " + values(*what.instead); };
    if (!what.named) return then() + ": holds";
    if (what.apart > 0) return fmt::format("{}, {} apart{}", then(), whole_percent(what.apart), what.surely ? "" : ": not sure");
    const Tried& named = *what.named;
    const std::string& promise = options_.slos[named.tightest].text;
    const std::string broken = named.holds() ? fmt::format("{} may break, by {}", promise, whole_percent(named.worst_use - 1))
                                             : fmt::format("{} breaks{}", promise, named.use < 1e6 ? ", by " + whole_percent(named.use - 1) : "");
    return broken + "; " + (what.instead ? then() : named.holds() ? "no setting surely keeps it" : "of the settings asked again none holds");
  }
  std::string gpus() const {
    std::string text;
    for (const AdvisedCard& card : cards_) text += (text.empty() ? "" : ", ") + card.gpu.name;
    return text;
  }
  std::string seeds() const {
    const std::vector<std::uint64_t>& all = options_.seeds;
    return all.size() < 2 ? "" : fmt::format(", those named under seeds {} to {}", all.front(), all.back());
  }
  std::string on(const Tried& t) const { return cards_.size() < 2 ? "" : " on " + cards_[t.card].gpu.name; }
  void carried(const Tried& t) const {
    for (const Note& note : t.results.front().notes)
      if (note.kind == NoteKind::carried) fmt::print("note     {}\n", note.text);
  }
  void few(const Tried& t) const {
    std::set<std::string> told;
    for (const Slo& slo : options_.slos) {
      const ClientResult& c = t.together.clients[slo.client];
      const bool p99 = slo.metric == Metric::p99 || slo.metric == Metric::ttft || slo.metric == Metric::tbt;
      const std::uint64_t finished = c.served ? c.served->finished : c.finished;
      if (!p99 || finished >= kFew || !told.insert(c.name).second) continue;
      fmt::print("few      {} {} of {} in {}: give a longer --duration for a p99\n", finished, c.served ? "sequences" : "requests", c.name,
                 t.results.size() > 1 ? "all seeds" : "this run");
    }
  }

  const std::vector<AdvisedCard>& cards_;
  const AdviseOptions& options_;
  const Advice& advice_;
  const std::vector<WhatIf>& what_if_;
};

std::size_t client_number(const std::string& name, const Trace& trace) {
  std::vector<std::string> names;
  for (const Client& client : trace.clients) {
    if (client.name == name) return names.size();
    names.push_back(client.name);
  }
  throw InputError("", "--highest-rate",
                   fmt::format("there is no client {}{}", in_quotes(name), did_you_mean(name, names)),
                   fmt::format("use one of {}", list_names(names)));
}

}  // namespace

void add_advise(CLI::App& command, AdviseArguments& a) {
  command.add_option("--slo", a.slos, "what must hold besides the clients' own slo=, ttft=, tbt= and e2e=, or instead of one:\n"
                                      "cam:p99=20ms (also p50, p95, mean, max, throughput=30), of a server\n"
                                      "llm:ttft=200ms, tbt=50ms, e2e=5s (p99 of the first token, of a sequence's mean between\n"
                                      "tokens, of its end), goodput=4, tokens=900")
      ->allow_extra_args(false);
  command.add_option("--maximize", a.goal, "stp, or a client's metric, as batch:throughput or llm:ttft (a latency is made small)")
      ->capture_default_str();
  command.add_option("--gpus", a.gpus, "GPUs in the order in which they are wanted, the cheapest first")
      ->delimiter(',')
      ->allow_extra_args(false);
  command.add_option("--modes", a.modes, "only settings of these: mps, priority, streams, time-slicing, percentages,\n"
                                         "green-contexts, mig; default: all")
      ->delimiter(',')
      ->allow_extra_args(false);
  command.add_option("--seeds", a.seeds, "of random arrivals, as 1..5: what is named holds over all (default: the trace's and four\n"
                                         "more where arrivals are random)");
  command.add_option("--highest-rate", a.rate_of, "also: up to which rate of this client the setting holds");
  command.add_flag("--all", a.all, "also print every setting that was simulated");
  command.add_option("--format", a.format, "print the setting to paste, and the advice as comments: k8s-device-plugin, dra, kai, hami,\n"
                                           "gpu-operator, slurm, nvidia-smi or mps");
  command.add_option("--report", a.report,
                     "write one page: the advice, and what every setting gives, with the data");
}

int advise(const Trace& trace, const Gpu& gpu, const AdviseArguments& a, EngineOptions engine, bool json) {
  AdviseOptions options;
  options.slos = promised(a.slos, trace);
  options.goal = parse_goal(a.goal, trace);
  for (const std::string& mode : a.modes) options.modes.push_back(parse_mode(mode));
  options.engine = engine;
  options.seeds = a.seeds.empty() ? usual_seeds(trace) : parse_seeds(a.seeds);
  if (!a.report.empty()) check_report_can_be_made();
  std::optional<Format> format;
  if (!a.format.empty()) format = parse_format(a.format);
  if (format && json) throw InputError("", "--format", "prints what to paste, and --json a document", "give one of them");
  const bool asks_rate = !a.rate_of.empty();
  const std::size_t rate_of = asks_rate ? client_number(a.rate_of, trace) : 0;

  std::vector<AdvisedCard> cards;
  if (a.gpus.empty()) cards.push_back(card_of(trace, gpu, gpu));
  for (const Gpu& to : read_gpus(a.gpus)) cards.push_back(card_of(trace, gpu, to));

  Advice advice;
  std::optional<HighestRate> rate;
  std::vector<WhatIf> what_if;
  try {
    ProgressBar bar;
    const hw::SignalGuard guard;
    options.progress = [&](const char* stage, double done) { bar.show(stage, done); };
    options.interrupt = [] {
      if (hw::SignalGuard::flag()) throw Ended{};
    };
    advice = sim::advise(cards, options);
    if (!format) what_if = what_would_change(cards, advice, options);
    const auto shown = advice.best ? advice.best : advice.nearest;
    if (asks_rate && shown) {
      const Tried& t = advice.tried[*shown];
      rate = highest_rate(cards[t.card], t.setting, rate_of, options);
      if (!rate)
        throw InputError("", "--highest-rate", fmt::format("the requests of {} have no rate", a.rate_of),
                         "give it arrivals with a rate, as rate=50");
    }
  } catch (const Ended&) {
    fmt::print(stderr, "sim: interrupted before all settings had been simulated\n");
    return 130;
  }

  const Report report(cards, options, advice, what_if);
  const std::string document = advice_json(cards, options, advice, what_if, rate);
  if (!a.report.empty()) make_report_of(document, a.report);
  if (json) {
    std::cout << document;
  } else if (format && advice.best) {
    const Tried& best = advice.tried[*advice.best];
    const std::string text = configuration(*format, best.setting, cards[best.card].trace);
    fmt::print("# {}{}\n", report.in_a_line(best), report.remark(best));
    std::cout << text;
  } else {
    report.print();
    report.print_what_if();
    if (rate)
      fmt::print("rate     {} holds up to {} requests/s{} (now {})\n", a.rate_of, three_digits(rate->highest),
                 rate->more ? " and more" : "", three_digits(rate->now));
    if (a.all) report.print_all();
    if (!a.report.empty()) fmt::print("wrote    {}\n", a.report);
  }
  return advice.best ? 0 : kNoneHolds;
}

}  // namespace corun::sim
