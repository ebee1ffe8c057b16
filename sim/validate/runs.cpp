#include "sim/validate/runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>

#include "policies/session/profile_file.h"
#include "sim/input/carry.h"
#include "sim/run/in_parallel.h"
#include "sim/run/run.h"
#include "sim/validate/only.h"
#include "traces/json/input_file.h"
#include "traces/json/parse.h"
#include "traces/json/schema.h"
#include "traces/json/trace_json.h"
#include "traces/model/error.h"

namespace corun::sim {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::json;

double number(const json& value) {
  return value.is_number() ? value.get<double>() : std::numeric_limits<double>::quiet_NaN();
}

struct Mix {
  Trace trace;
  Gpu gpu;
  const Profiles* profiles;
};

struct Job {
  ComparedRun run;
  Mix* mix;
};

RunNumbers measured_numbers(const json& result) {
  RunNumbers n{number(result["stp"]), number(result["antt"]), {}, {}};
  for (const json& client : result["clients"]) {
    // Recordings of before hold the p99 of the requests that were not dropped.
    const auto dropped = client["dropped"].get<std::uint64_t>(), all = dropped + client["finished"].get<std::uint64_t>();
    const bool never = 100 * dropped > all;
    n.p99_ms.push_back(never ? std::numeric_limits<double>::infinity() : number(client["p99_ms"]));
    n.progress.push_back(number(client["progress"]));
  }
  return n;
}

/// ANTT as recordings have it: a client's slowdown is of the requests that were not dropped.
double antt_of_served(const RunResult& result) {
  double sum = 0, n = 0;
  for (const ClientResult& c : result.clients)
    if (const double slowdown = std::isinf(c.slowdown) ? c.slowdown : c.mean_ms / c.alone_mean_ms; !std::isnan(slowdown)) sum += slowdown, ++n;
  return sum / n;
}

RunNumbers simulate(const Job& job, bool contention, Memory& memory) {
  RunOptions options;
  options.policy = job.run.policy;
  options.memory = &memory;
  options.profiles = job.mix->profiles;
  options.engine.contention = contention;
  const RunResult result = run(job.mix->trace, job.mix->gpu, options);
  RunNumbers n{result.stp, antt_of_served(result), {}, {}};
  for (const ClientResult& client : result.clients) {
    n.p99_ms.push_back(client.p99_ms);
    n.progress.push_back(client.progress);
  }
  return n;
}

bool wanted(const std::vector<std::string>& only, const std::string& name) {
  return only.empty() || std::find(only.begin(), only.end(), name) != only.end();
}

void add(RunErrors& e, const ComparedRun& run) {
  ++e.runs;
  const double stp = std::fabs(run.stp_error());
  e.stp += stp;
  e.stp_worst = std::max(e.stp_worst, stp);
  const auto error = [](double measured, double simulated) { return std::fabs(simulated / measured - 1); };
  if (const double antt = error(run.measured.antt, run.simulated.antt); std::isfinite(antt))
    e.antt += antt, ++e.antt_of;
  for (std::size_t c = 0; c < run.clients.size(); ++c)
    if (const double p99 = error(run.measured.p99_ms[c], run.simulated.p99_ms[c]); std::isfinite(p99))
      e.p99 += p99, ++e.p99_of;
}

void make_means(RunErrors& e) {
  e.stp /= static_cast<double>(e.runs);
  e.antt /= static_cast<double>(e.antt_of);
  e.p99 /= static_cast<double>(e.p99_of);
}

void score(RunsComparison& all) {
  double spread = 0;
  for (const ComparedRun& run : all.runs) {
    add(all.all, run), add(all.by_policy[run.policy], run), add(all.by_mix[run.mix], run);
    if (!run.repeats.empty()) {
      const auto [least, most] = std::minmax_element(run.repeats.begin(), run.repeats.end());
      spread += *most / *least - 1;
    }
  }
  make_means(all.all);
  for (auto& [policy, errors] : all.by_policy) make_means(errors);
  for (auto& [mix, errors] : all.by_mix) make_means(errors);
  all.repeat_spread = spread / static_cast<double>(all.runs.size());
  for (std::size_t i = 0; i < all.runs.size(); ++i)
    for (std::size_t j = i + 1; j < all.runs.size(); ++j) {
      const ComparedRun &a = all.runs[i], &b = all.runs[j];
      if (a.mix != b.mix) continue;
      const double more = std::max(a.measured.stp, b.measured.stp),
                   less = std::min(a.measured.stp, b.measured.stp);
      if (more <= less * (1 + kDiffer)) continue;
      const bool right = (a.measured.stp > b.measured.stp) == (a.simulated.stp > b.simulated.stp) &&
                         a.simulated.stp != b.simulated.stp;
      for (Ordered* o : {&all.order, &all.order_by_mix[a.mix]}) ++o->pairs, o->right += right;
    }
}

}  // namespace

std::vector<fs::path> find_runs(const fs::path& place) {
  std::vector<fs::path> files;
  if (fs::is_directory(place)) {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(place))
      if (entry.path().filename() == "runs.json") files.push_back(entry.path());
    std::sort(files.begin(), files.end());
  } else if (fs::exists(place)) {
    files.push_back(place);
  }
  if (files.empty())
    throw InputError(place.string(), "", "there is no runs.json", "make one with `sim record`");
  return files;
}

namespace {

struct RunsFile {
  fs::path file;
  json document;

  fs::path trace_of(const json& run) const { return file.parent_path() / run["trace"].get<std::string>(); }
};

std::vector<RunsFile> read_all(const std::vector<fs::path>& files) {
  std::vector<RunsFile> all;
  for (const fs::path& file : files) {
    all.push_back({file, parse_json(*open_input(file), file.string())});
    check_schema(all.back().document, "runs", file.string());
  }
  return all;
}

RunsOptions with_only(RunsOptions options, const std::vector<RunsFile>& files) {
  Names mixes{{}, &options.mixes}, policies{{}, &options.policies};
  for (const RunsFile& each : files)
    for (const json& run : each.document["runs"]) {
      mixes.known.push_back(each.trace_of(run).stem().string());
      policies.known.push_back(run["policy"]);
    }
  sort_only(files.front().file.string(), std::exchange(options.only, {}), {mixes, policies});
  return options;
}

}  // namespace

RunsComparison compare_runs(const std::vector<fs::path>& files, const RunsOptions& given) {
  RunsComparison all;
  const std::vector<RunsFile> documents = read_all(files);
  const RunsOptions options = with_only(given, documents);
  std::vector<std::unique_ptr<Profiles>> profiles;
  std::map<fs::path, std::unique_ptr<Mix>> mixes;
  std::vector<Job> jobs;
  for (const RunsFile& each : documents) {
    const auto& [file, document] = each;
    const auto& solo = profiles.emplace_back(std::make_unique<Profiles>(
        read_profiles(file.parent_path() / document["profiles"].get<std::string>())));
    all.sets.push_back(fmt::format("{} ({}, driver {}, {}, {})", file.string(),
                                   document["device"].get<std::string>(), document.value("driver", "unknown"),
                                   document.value("cuda", ""), document.value("date", "")));
    for (std::size_t i = 0; i < document["runs"].size(); ++i) {
      const json& from = document["runs"][i];
      const fs::path trace_file = each.trace_of(from);
      const std::string mix = trace_file.stem().string(), policy = from["policy"];
      if (!wanted(options.mixes, mix) || !wanted(options.policies, policy)) continue;
      std::unique_ptr<Mix>& known = mixes[trace_file];
      if (!known) {
        Trace trace = read_trace(trace_file);
        Gpu gpu = read_gpu(trace.gpu, trace_file.parent_path());
        if (solo->gpu != gpu.name)
          throw InputError(solo->file, "/gpu",
                           fmt::format("the profiles are of {}, {} is run on {}", solo->gpu, mix, gpu.name),
                           "profile the kernels on this GPU");
        if (!options.gpu.empty()) {
          const Gpu other = read_gpu(options.gpu);
          if (const std::string said = simulated_elsewhere(gpu, other); !all.sets.back().ends_with(said)) all.sets.back() += said;
          gpu = other;
        }
        if (solo->host) gpu = through(*solo->host, gpu);
        known = std::make_unique<Mix>(Mix{std::move(trace), std::move(gpu), solo.get()});
      }
      ComparedRun run{mix, policy, {}, measured_numbers(from["result"]), {}, {}};
      for (const Client& client : known->trace.clients) run.clients.push_back(client.name);
      if (run.measured.p99_ms.size() != run.clients.size())
        throw InputError(file.string(), fmt::format("/runs/{}/result/clients", i),
                         fmt::format("expected the {} clients of {}, got {}", run.clients.size(),
                                     trace_file.string(), run.measured.p99_ms.size()),
                         "record the run again");
      if (from.contains("stp")) run.repeats = from["stp"].get<std::vector<double>>();
      jobs.push_back({std::move(run), known.get()});
    }
  }
  if (jobs.empty())
    throw InputError(files.front().string(), "/runs", "no run is left to compare with",
                     "name mixes and policies that are there");
  Memory memory;
  const auto tell = [&](std::size_t, double share) {
    if (options.progress) options.progress("runs", share);
  };
  in_parallel(jobs.size(), options.threads, tell,
              [&](std::size_t i) { jobs[i].run.simulated = simulate(jobs[i], options.contention, memory); });
  for (Job& job : jobs) all.runs.push_back(std::move(job.run));
  score(all);
  return all;
}

}  // namespace corun::sim
