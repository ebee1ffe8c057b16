#include "sim/command/compare.h"

#include <fmt/format.h>

#include <algorithm>
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
#include "traces/json/spelling.h"
#include "traces/model/error.h"
#include "traces/timeline/report.h"

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
  std::vector<NotRun> not_run;
  std::optional<Oracle> oracle, instances;
  bool stopped = false, searching = false;
  const hw::SignalGuard guard;
  {
    ProgressBar bar;
    const auto progress = [&](const char* stage, double done) { bar.show(stage, done); };
    std::vector<std::optional<RunResult>> ran(specs.size());
    std::vector<std::string> refused(specs.size());
    std::vector<double> done(specs.size());
    std::mutex telling;
    in_parallel(specs.size(), 0, [&](std::size_t i) {
      const auto tell = [&](const char* stage, double fraction) {
        const std::scoped_lock lock(telling);
        done[i] = std::max(done[i], fraction);
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
      try {
        ran[i] = run(trace, gpu, options);
      } catch (const InputError& error) {
        if (!all) throw;
        refused[i] = error.problem();
      } catch (const Stopped&) {
        refused[i] = kInterrupted;
      } catch (const std::exception&) {  // in a helper of a run that was interrupted
        if (!hw::SignalGuard::flag()) throw;
        refused[i] = kInterrupted;
      }
    });
    for (std::size_t i = 0; i < specs.size(); ++i)
      if (ran[i])
        results.push_back(std::move(*ran[i]));
      else
        not_run.push_back({specs[i], refused[i]});
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
  if (oracle) document["oracle"] = json_of(*oracle, results, a);
  if (instances) document["instances"] = json_of(*instances, results, a);
  if (searching) document["oracle_interrupted"] = true;
  std::cout << document.dump(2) << '\n';
  return stopped ? 130 : 0;
}

}  // namespace corun::sim
