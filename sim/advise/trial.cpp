#include "sim/advise/trial.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <ranges>

#include "policies/api/registry.h"
#include "sim/run/in_parallel.h"
#include "traces/model/error.h"

namespace corun::sim {
namespace {

constexpr double kBroken = std::numeric_limits<double>::infinity();

/// Value over limit, or limit over value: at most 1 where it holds.
double use_of(const Slo& slo, const ClientResult& c) {
  if (c.served && c.served->finished == 0) return kBroken;  // tokens in time say nothing of a server that falls behind
  const double value = value_of(c, slo.metric);
  if (is_rate(slo.metric)) return value > 0 ? slo.limit / value : kBroken;
  const bool of_the_served_only = slo.metric == Metric::mean && c.dropped != 0;
  return std::isnan(value) || of_the_served_only ? kBroken : value / slo.limit;
}

/// Factor by which a client may use more of its promise than simulated, in nine of ten cases.
double at_worst(const Slo& slo, const Tried& tried) {
  const Metric told = slo.metric == Metric::max ? Metric::p99 : slo.metric;  // the largest errs as p99 does
  const double value = value_of(tried.together.clients[slo.client], told);
  const Interval interval = interval_of(tried, slo.client, told);
  const double times = is_rate(slo.metric) ? value / interval.low : interval.high / value;
  return std::isnan(times) ? 1 : times;
}

bool holds_in(const RunResult& result, const std::vector<Slo>& slos) {
  return std::ranges::all_of(slos, [&](const Slo& slo) { return use_of(slo, result.clients[slo.client]) <= 1; });
}

void judge(Tried& tried, const AdviseOptions& options) {
  tried.together = over_seeds(tried.results);
  tried.use = tried.worst_use = 0;
  for (std::size_t i = 0; i < options.slos.size(); ++i) {
    const Slo& slo = options.slos[i];
    const ClientResult& client = tried.together.clients[slo.client];
    expect_judged(slo.text, slo.metric, client);
    const double use = use_of(slo, client);
    if (use > tried.use) tried.use = use, tried.tightest = i;
    tried.worst_use = std::max(tried.worst_use, use * at_worst(slo, tried));
  }
  if (options.goal.client) expect_judged(options.goal.text, options.goal.metric, tried.together.clients[*options.goal.client]);
  tried.value = merit_of(options.goal, tried.together);
  tried.held_in = static_cast<std::size_t>(std::ranges::count_if(tried.results, [&](const RunResult& r) { return holds_in(r, options.slos); }));
}

}  // namespace

void Trial::simulate(Tried& tried, std::size_t seed, RunResult& result, std::string& refused) {
  refused = does_not_hold(tried.setting, card_.trace, card_.gpu);
  if (!refused.empty()) return;
  try {
    Trace trace = under(tried.setting, card_.trace);
    if (!options_.seeds.empty()) trace.run.seed = options_.seeds[seed];
    result = run(trace, card_.gpu,
                 {{.policy = tried.setting.policy, .alone = options_.alone, .interrupt = options_.interrupt}, options_.engine, 1, &memory_});
    for (const ClientResult& client : result.clients)
      if (!client.failed.empty()) refused = fmt::format("{}: {}", client.name, client.failed);
  } catch (const InputError& error) {
    refused = error.problem();
  }
}

std::vector<Tried> Trial::of(const std::vector<Setting>& settings) {
  std::vector<Tried> tried(settings.size());
  const auto tell = [&](std::size_t i, double share) {
    if (options_.progress) options_.progress(settings[i].words.c_str(), share);
  };
  in_parallel(settings.size(), options_.threads, tell, [&](std::size_t i) {
    Tried& t = tried[i];
    t.card = number_, t.setting = settings[i];
    RunResult result;
    simulate(t, 0, result, t.refused);
    if (!t.ran()) return;
    t.bases = bases_of(under(t.setting, card_.trace), make_policy(t.setting.policy)->requirements());
    t.results.push_back(std::move(result));
    judge(t, options_);
  });
  return tried;
}

void Trial::complete(const std::vector<Tried*>& tried, std::size_t seeds) {
  struct Job {
    Tried* tried;
    std::size_t seed;
    RunResult result{};
    std::string refused{};
  };
  std::vector<Job> jobs;
  for (Tried* t : tried)
    for (std::size_t seed = t->results.size(); t->ran() && seed < std::min(seeds, options_.seeds.size()); ++seed) jobs.push_back({t, seed});
  const auto tell = [&](std::size_t i, double share) {
    if (options_.progress) options_.progress(jobs[i].tried->setting.words.c_str(), share);
  };
  in_parallel(jobs.size(), options_.threads, tell,
              [&](std::size_t i) { simulate(*jobs[i].tried, jobs[i].seed, jobs[i].result, jobs[i].refused); });
  for (Job& job : jobs) {
    if (job.refused.empty())
      job.tried->results.push_back(std::move(job.result));
    else
      job.tried->refused = job.refused;
  }
  for (Tried* t : tried)
    if (t->ran()) judge(*t, options_);
}

bool Trial::holds(const Setting& setting) {
  std::vector<Tried> one = of({setting});
  Tried& tried = one.front();
  while (tried.may_hold() && tried.results.size() < options_.seeds.size()) complete({&tried}, tried.results.size() + 1);
  return tried.holds();
}

}  // namespace corun::sim
