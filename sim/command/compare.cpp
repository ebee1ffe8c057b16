#include "sim/command/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iostream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <sstream>

#include "hw/run/signal_guard.h"
#include "policies/api/registry.h"
#include "sim/command/progress.h"
#include "sim/oracle/oracle.h"
#include "sim/run/in_parallel.h"
#include "sim/run/run.h"
#include "sim/sweep/sweep.h"
#include "traces/json/spelling.h"
#include "traces/model/error.h"
#include "traces/timeline/report.h"
#include "traces/timeline/seeds.h"

namespace corun::sim {
namespace {

struct Stopped {};  // by Ctrl-C
constexpr const char* kInterrupted = "interrupted before its end";

Objective objective_of(const std::string& name) {
  return name == "stp" ? Objective::stp : name == "antt" ? Objective::antt : Objective::p99;
}

/// Commas separate policies and a policy's parameters: "a:x=1", "y=2" belong together.
std::vector<std::string> join_parameters(const std::vector<std::string>& pieces) {
  std::vector<std::string> specs;
  for (const std::string& piece : pieces) {
    const bool parameter = piece.find('=') != std::string::npos && piece.find(':') == std::string::npos;
    if (parameter && !specs.empty())
      specs.back() += "," + piece;
    else
      specs.push_back(piece);
  }
  return specs;
}

std::string percent(double share) {
  return std::isfinite(share) ? fmt::format("{:.1f} %", 100 * share) : "-";
}

constexpr std::size_t kLeastSeeds = 5, kMostSeeds = 100;  // of --until

/// "p99:2%"
struct Until {
  Figure figure = Figure::p99;
  double share = 0;  // of the mean, half of its 95 % interval
};
std::optional<Until> parse_until(const std::string& text) {
  if (text.empty()) return std::nullopt;
  static const std::vector<std::pair<std::string, Figure>> figures = {{"p99", Figure::p99}, {"mean", Figure::mean}, {"stp", Figure::stp}};
  const std::size_t colon = text.find(':');
  std::vector<std::string> names;
  for (const auto& [name, figure] : figures) {
    names.push_back(name);
    if (colon == std::string::npos || text.substr(0, colon) != name) continue;
    double percent = 0;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data() + colon + 1, end, percent);
    if (error == std::errc{} && std::string_view(stop, static_cast<std::size_t>(end - stop)) == "%" && percent > 0 && percent < 100)
      return Until{figure, percent / 100};
  }
  throw InputError("", "--until", fmt::format("{} is no figure and share", in_quotes(text)),
                   fmt::format("write p99:2%; figures are {}", list_names(names)));
}

/// The least sure figure, as "vision p99 under mps"; none: all are sure enough.
std::optional<std::string> not_sure(const std::vector<std::vector<RunResult>>& runs, const Until& until) {
  std::optional<std::string> worst;
  double most = until.share;
  for (const std::vector<RunResult>& of : runs)
    for (const NamedEstimate& e : estimates(of, until.figure)) {
      const double share = e.estimate.half_width() / e.estimate.mean;
      if (!std::isfinite(e.estimate.mean) || share <= most) continue;
      most = share;
      worst = fmt::format("{} under {} is ± {}", e.name, of.front().policy, percent(share));
    }
  return worst;
}

nlohmann::ordered_json json_of(const Estimate& e) {
  return {{"mean", e.mean}, {"deviation", e.deviation}, {"least", e.least}, {"most", e.most}};
}

std::string format_oracle(const Oracle& oracle, const std::vector<RunResult>& results,
                          const CompareArguments& a) {
  const Objective objective = objective_of(a.objective);
  const char* unit = objective == Objective::p99 ? " ms" : "";
  std::string out = fmt::format("\noracle   {} is the best of {} fixed divisions: {} {:.4g}{}\n",
                                oracle.best.policy, oracle.tried, a.objective, oracle.value, unit);
  std::size_t width = 6;
  for (const RunResult& r : results) width = std::max(width, r.policy.size());
  out += fmt::format("{:<{}}{:>12}{:>12}{:>10}\n", "policy", width, a.objective, "regret", "");
  for (const RunResult& r : results) {
    const double value = value_of(r, objective), missed = regret(value, oracle.value, objective);
    out += fmt::format("{:<{}}{:>12.4g}{:>12.4g}{:>10}\n", r.policy, width, value, missed,
                       percent(missed / oracle.value));
  }
  return out;
}

nlohmann::ordered_json json_of(const Oracle& oracle, const std::vector<RunResult>& results,
                               const CompareArguments& a) {
  const Objective objective = objective_of(a.objective);
  nlohmann::ordered_json to = {{"objective", a.objective},
                               {"policy", oracle.best.policy},
                               {"value", oracle.value},
                               {"tried", oracle.tried},
                               {"regret", nlohmann::ordered_json::object()}};
  for (const RunResult& r : results)
    to["regret"][r.policy] = regret(value_of(r, objective), oracle.value, objective);
  return to;
}

}  // namespace

void add_compare(CLI::App& command, CompareArguments& a) {
  command.add_option("--policies", a.policies, "policies to compare; all: every one that can run the trace")
      ->delimiter(',')->allow_extra_args(false)
      ->capture_default_str();
  command.add_option("--only", a.only, "of the policies only these, by name")
      ->delimiter(',')->allow_extra_args(false);
  command
      .add_option("--gpus", a.gpus,
                  "run the trace on each of these GPUs, as --gpu on one")
      ->delimiter(',')->allow_extra_args(false);
  command.add_flag(
      "--oracle", a.oracle,
      "search the best fixed division of the GPU among the clients, and print each policy's regret");
  command
      .add_option("--objective", a.objective,
                  "what the oracle optimises: stp, antt, or p99 (worst real-time)")
      ->check(CLI::IsMember({"stp", "antt", "p99"}))
      ->capture_default_str();
  command.add_option("--seeds", a.seeds, "seeds of random arrivals, as 1..5, taken together (default: five where arrivals or hosts are random, else one)");
  command.add_option("--until", a.until, "further seeds until the 95 % interval of the mean is so narrow, as p99:2% (also mean, stp); at most 100");
}

namespace {

std::vector<std::string> all_specs_of(const CompareArguments& a) {
  if (a.policies == std::vector<std::string>{"all"}) {
    std::vector<std::string> all;
    for (const PolicyInfo& p : policies()) all.push_back(p.name);
    return all;
  }
  std::vector<std::string> specs = join_parameters(a.policies);
  for (const std::string& spec : specs) make_policy(spec);  // a misspelt one must not cost the runs before it
  return specs;
}

}  // namespace

std::vector<std::string> specs_of(const CompareArguments& a) { return only_these(all_specs_of(a), a.only); }

std::vector<std::string> only_these(const std::vector<std::string>& all, const std::vector<std::string>& only) {
  if (only.empty()) return all;
  std::vector<std::string> chosen;
  for (const std::string& name : join_parameters(only)) {
    const auto called = [&](const std::string& spec) { return spec == name || spec.substr(0, spec.find(':')) == name; };
    const std::size_t before = chosen.size();
    std::ranges::copy_if(all, std::back_inserter(chosen), called);
    if (chosen.size() == before)
      throw InputError("", "--only", fmt::format("{} is none of the policies here{}", in_quotes(name), did_you_mean(name, all)),
                       fmt::format("name some of {}, or name it in --policies", list_names(all, 40)));
  }
  return chosen;
}

int compare(const Trace& trace, const Gpu& gpu, const CompareArguments& a, EngineOptions engine,
            const Profiles* profiles, bool json) {
  const bool all = a.policies == std::vector<std::string>{"all"};
  Memory memory;
  const std::vector<std::string> specs = specs_of(a);
  std::vector<RunResult> results;
  std::vector<std::vector<RunResult>> by_seed;  // as `results`
  std::vector<NotRun> not_run;
  std::optional<Oracle> oracle, instances;
  std::optional<std::string> unsure;
  bool stopped = false, searching = false;
  const hw::SignalGuard guard;
  const std::optional<Until> until = parse_until(a.until);
  std::vector<std::uint64_t> seeds = a.seeds.empty() ? usual_seeds(trace) : parse_seeds(a.seeds);
  {
    ProgressBar bar;
    const auto progress = [&](const char* stage, double done) { bar.show(stage, done); };
    std::vector<std::vector<RunResult>> ran(specs.size());
    std::vector<std::string> refused(specs.size());
    const auto run_seeds = [&](std::size_t from) {
      const std::size_t of_each = seeds.size() - from;
      std::vector<std::optional<RunResult>> round(specs.size() * of_each);
      std::vector<double> done(round.size());
      std::mutex telling;
      in_parallel(round.size(), 0, [&](std::size_t k) {
        const std::size_t i = k / of_each;
        const auto tell = [&](const char* stage, double fraction) {
          const std::scoped_lock lock(telling);
          done[k] = std::max(done[k], fraction);
          progress(stage, std::accumulate(done.begin(), done.end(), 0.0) / static_cast<double>(done.size()));
        };
        const auto interrupt = [] {
          if (hw::SignalGuard::flag()) throw Stopped{};
        };
        const RunOptions options{
            {.policy = specs[i], .progress = tell, .profiles = profiles, .interrupt = interrupt},
            engine,
            0,
            &memory};
        Trace seeded = trace;
        seeded.run.seed = seeds[from + k % of_each];
        std::string reason;
        try {
          round[k] = run(seeded, gpu, options);
          return;
        } catch (const InputError& error) {
          if (!all) throw;
          reason = error.problem();
        } catch (const Stopped&) {
          reason = kInterrupted;
        } catch (const std::exception&) {  // in a helper of a run that was interrupted
          if (!hw::SignalGuard::flag()) throw;
          reason = kInterrupted;
        }
        const std::scoped_lock lock(telling);
        refused[i] = reason;
      });
      for (std::size_t k = 0; k < round.size(); ++k)
        if (round[k]) ran[k / of_each].push_back(std::move(*round[k]));
    };
    run_seeds(0);
    // Each further round has half as many again as there are.
    while (until && !hw::SignalGuard::flag()) {
      std::vector<std::vector<RunResult>> whole;
      std::ranges::copy_if(ran, std::back_inserter(whole), [&](const auto& of) { return of.size() == seeds.size(); });
      unsure = is_random(trace) ? not_sure(whole, *until) : std::nullopt;
      if (!unsure || seeds.size() >= kMostSeeds) break;
      const std::size_t before = seeds.size();
      while (seeds.size() < std::min(kMostSeeds, std::max(kLeastSeeds, before + before / 2)))
        seeds.push_back(std::ranges::max(seeds) + 1);
      run_seeds(before);
    }
    for (std::size_t i = 0; i < specs.size(); ++i)
      if (refused[i].empty()) {
        results.push_back(over_seeds(ran[i]));
        by_seed.push_back(std::move(ran[i]));
      } else {
        not_run.push_back({specs[i], refused[i]});
      }
    stopped = hw::SignalGuard::flag();
    if (results.empty() && stopped) {
      bar.clear();
      fmt::print(stderr, "sim: interrupted before any policy had been simulated to its end\n");
      return 130;
    }
    if (results.empty())
      throw InputError(trace.name, "", "no policy can run this trace: " + not_run.front().reason,
                       "name one with --policies to see all that is wrong");
    if (a.oracle && !stopped) {
      OracleOptions options{objective_of(a.objective),
                            engine,
                            0,
                            progress,
                            &memory,
                            [] { return bool(hw::SignalGuard::flag()); }};
      oracle = find_oracle(trace, gpu, options);
      instances = find_best_instances(trace, gpu, options);
      stopped = searching = hw::SignalGuard::flag();
      for (auto* found : {&oracle, &instances})
        if (*found && (*found)->tried == 0) found->reset();
    }
  }
  if (searching)
    fmt::print(stderr, "sim: interrupted while the oracle searched; the best division is of those tried until then\n");
  else if (stopped)
    fmt::print(stderr, "sim: interrupted; {} of {} policies had been simulated to their end{}\n", results.size(), specs.size(),
               a.oracle ? ", and no fixed division was tried" : "");
  std::vector<RunResult> shown = results;
  for (const auto* found : {&oracle, &instances})
    if (*found) shown.push_back((*found)->best);
  if (!json) {
    std::cout << format_comparison(shown, not_run, a.notes);
    if (seeds.size() > 1) std::cout << '\n' << format_seeds(by_seed);
    if (unsure) fmt::print("unsure   after {} seeds {}: a longer --duration narrows it\n", seeds.size(), *unsure);
    if (a.where) std::cout << '\n' << format_parts(shown);
    if (oracle) std::cout << format_oracle(*oracle, results, a);
    if (instances)
      fmt::print("\ninstances {} is the best of {} divisions by MIG, not measured: {} {:.4g}\n",
                 instances->best.policy, instances->tried, a.objective, instances->value);
    return stopped ? 130 : 0;
  }
  std::stringstream text;
  write_summary(shown, text, not_run);
  nlohmann::ordered_json document = nlohmann::ordered_json::parse(text);
  if (seeds.size() > 1) {
    document["seeds"] = seeds;
    for (std::size_t i = 0; i < by_seed.size(); ++i)
      for (const Figure figure : {Figure::stp, Figure::mean, Figure::p99})
        for (const NamedEstimate& e : estimates(by_seed[i], figure)) document["results"][i]["over_seeds"][e.name] = json_of(e.estimate);
  }
  if (oracle) document["oracle"] = json_of(*oracle, results, a);
  if (instances) document["instances"] = json_of(*instances, results, a);
  if (searching) document["oracle_interrupted"] = true;
  std::cout << document.dump(2) << '\n';
  return stopped ? 130 : 0;
}

}  // namespace corun::sim
