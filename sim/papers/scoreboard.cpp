#include "sim/papers/scoreboard.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>
#include <thread>

#include "sim/run/in_parallel.h"
#include "sim/run/run.h"
#include "traces/json/trace_json.h"
#include "traces/model/error.h"
#include "traces/timeline/report.h"

namespace corun::sim {
namespace {

using nlohmann::json;

struct Job {
  const Figure* figure;
  const FigureRun* run;
  json summary;
};

/// Equal for runs that are the same.
std::string key_of(const Figure& figure, const FigureRun& run) {
  const std::string folder = figure.file.parent_path().string();
  const std::string trace =
      run.trace.is_string()
          ? (figure.file.parent_path() / run.trace.get<std::string>()).lexically_normal().string()
          : folder + '\n' + run.trace.dump();
  return fmt::format("{}\n{}\n{}\n{}\n{}", trace, run.gpu, run.duration ? run.duration->count() : -1,
                     run.seed ? std::to_string(*run.seed) : "", run.policy);
}

Trace trace_of(const Figure& figure, const FigureRun& run) {
  const std::filesystem::path folder = figure.file.parent_path();
  Trace trace;
  if (run.trace.is_string()) {
    trace = read_trace(folder / run.trace.get<std::string>());
  } else {
    try {
      trace = read_trace(run.trace, figure.file);
    } catch (const InputError& error) {
      if (error.file() != figure.file.string()) throw;
      throw InputError(error.file(),
                       (json::json_pointer() / "runs" / run.name / "trace").to_string() + error.place(),
                       error.problem(), error.remedy());
    }
  }
  const auto fail = [&](const char* key, const char* problem, const char* remedy) {
    throw InputError(figure.file.string(), (json::json_pointer() / "runs" / run.name / key).to_string(),
                     problem, remedy);
  };
  if (!run.gpu.empty()) trace.gpu = run.gpu;
  if (run.duration) trace.run.duration = run.duration;
  if (run.seed) trace.run.seed = *run.seed;
  if (trace.gpu.empty())
    fail("gpu", "neither the run nor its trace names a GPU", "`sim gpus` lists the names");
  if (trace.clients.empty()) fail("trace", "the trace has no clients", "add a client");
  if (trace.run.duration && *trace.run.duration <= trace.run.warm_up)
    fail("duration_ns", "the run would end within its warm-up", "make it longer");
  return trace;
}

json simulate(const Figure& figure, const FigureRun& one, EngineOptions engine, Memory& memory) {
  const Trace trace = trace_of(figure, one);
  const std::filesystem::path folder = figure.file.parent_path();
  const std::filesystem::path beside = one.gpu.empty() && one.trace.is_string()
                                           ? (folder / one.trace.get<std::string>()).parent_path()
                                           : folder;
  try {
    const Gpu gpu = read_gpu(trace.gpu, beside);
    std::stringstream text;
    write_summary(run(trace, gpu, {{one.policy}, engine, 1, &memory}), text);
    json summary = json::parse(text);
    summary["stuck"] = 0;
    return summary;
  } catch (const StuckError& stuck) {
    return {{"stuck", 1}, {"why_stuck", stuck.problem()}};
  }
}

}  // namespace

void judge(const Figure& figure, std::vector<ScoredRow>& rows) {
  std::vector<bool> ordered(rows.size(), false);
  for (ScoredRow& r : rows) {
    const double published = r.row->published;
    r.ratio = published != 0 ? r.simulated / published : r.simulated == 0 ? 1 : HUGE_VAL;
    r.direction_ok = true;
    if (const auto& baseline = r.row->baseline)
      r.direction_ok = published < *baseline   ? r.simulated < *baseline
                       : published > *baseline ? r.simulated > *baseline
                                               : r.close();
  }
  for (const auto& order : figure.orders)
    for (std::size_t i = 0; i < order.size(); ++i)
      for (std::size_t j = i + 1; j < order.size(); ++j) {
        ScoredRow &low = rows[order[i]], &high = rows[order[j]];
        ordered[order[i]] = ordered[order[j]] = true;
        if (low.row->published < high.row->published && low.simulated >= high.simulated)
          low.direction_ok = high.direction_ok = false;
      }
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (!ordered[i] && !rows[i].row->baseline) rows[i].direction_ok = rows[i].close();
}

std::vector<ScoredRow> score(const std::vector<Figure>& figures, const ScoreOptions& options) {
  std::vector<Job> jobs;
  std::map<std::string, std::size_t> job_of;
  for (const Figure& figure : figures)
    for (const FigureRun& run : figure.runs)
      if (job_of.try_emplace(key_of(figure, run), jobs.size()).second) jobs.push_back({&figure, &run, {}});

  Memory memory;
  const auto tell = [&](std::size_t i, double share) {
    if (options.progress) options.progress(jobs[i].figure->name().c_str(), share);
  };
  in_parallel(jobs.size(), options.threads, tell, [&](std::size_t i) {
    jobs[i].summary = simulate(*jobs[i].figure, *jobs[i].run, options.engine, memory);
  });

  std::vector<ScoredRow> all;
  for (const Figure& figure : figures) {
    std::vector<ScoredRow> rows;
    const Summaries summary = [&](const std::string& name) -> const json& {
      const auto run = std::ranges::find(figure.runs, name, &FigureRun::name);
      return jobs[job_of.at(key_of(figure, *run))].summary;
    };
    for (std::size_t i = 0; i < figure.rows.size(); ++i)
      rows.push_back({&figure, &figure.rows[i],
                      evaluate(figure.rows[i].simulated, summary, figure.file.string(),
                               fmt::format("/rows/{}/simulated", i))});
    judge(figure, rows);
    all.insert(all.end(), rows.begin(), rows.end());
  }
  return all;
}

}  // namespace corun::sim
