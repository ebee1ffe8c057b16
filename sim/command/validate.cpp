#include "sim/command/validate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "sim/command/progress.h"
#include "sim/command/report_page.h"
#include "sim/validate/networks.h"
#include "sim/validate/networks_report.h"
#include "sim/validate/replay.h"
#include "sim/validate/report.h"
#include "sim/validate/runs.h"
#include "sim/validate/runs_report.h"
#include "sim/validate/timeline_compare.h"
#include "traces/json/duration.h"
#include "traces/json/output_file.h"
#include "traces/json/print.h"
#include "traces/json/trace_json.h"
#include "traces/model/error.h"

namespace corun::sim {
namespace {

/// The files of --out, opened before the run so that a place that cannot be written is told at once.
class Files {
 public:
  explicit Files(std::filesystem::path directory) : directory_(std::move(directory)) {
    std::error_code error;
    std::filesystem::create_directories(directory_, error);
    if (error)
      throw InputError(directory_.string(), "", "cannot be made: " + error.message(),
                       "choose another place with --out");
    for (auto [file, name] : {std::pair{&rows, "rows.csv"}, {&solo, "solo.csv"}}) {
      file->open(directory_ / name, std::ios::binary);
      if (!*file)
        throw InputError((directory_ / name).string(), "", "cannot be written", "choose another place");
    }
  }
  void finish() {
    for (std::ofstream* file : {&rows, &solo}) {
      file->flush();
      if (!*file)
        throw InputError(directory_.string(), "", "could not be written to the end", "is the disk full?");
    }
  }
  std::ofstream rows, solo;

 private:
  std::filesystem::path directory_;
};

/// Prints a comparison, and makes its page, by the Python module from the same JSON.
void show(const ValidateArguments& a, nlohmann::ordered_json document, std::string text) {
  if (!a.contention.modelled()) {
    document["contention"] = "none";
    text += "contention  not modelled: blocks take as long as alone, whatever runs beside them\n";
  }
  if (a.json)
    print_json(document, std::cout);
  else
    std::cout << text;
  if (a.report.empty()) return;
  make_report_of(document.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace), a.report);
  if (!a.json) fmt::print("wrote       {}\n", a.report);
}

std::filesystem::path make_directory(const std::string& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error)
    throw InputError(directory, "", "cannot be made: " + error.message(), "choose another place with --out");
  return directory;
}

/// What was asked for and is not of this kind of measurement would be ignored.
void refuse_options(const char* kind, std::initializer_list<std::pair<const char*, bool>> given) {
  for (const auto& [option, is_given] : given)
    if (is_given)
      throw InputError("", option, fmt::format("it is not of {}", kind),
                       "leave it out; `sim validate --help` says of what each option is");
}

/// Nothing is known of a mix in which no request of any client ended.
void check_long_enough(const MeasuredNetworks& networks, const NetworksOptions& options) {
  for (const MeasuredRun& run : networks.runs)
    if (std::ranges::all_of(run.simulated,
                            [](const Got& got) { return got.latencies_us.empty() && !(got.per_s > 0); }))
      throw InputError(
          "", "--duration",
          fmt::format("in {} no request of {} under {} ends", fmt::format("{:g} ms", to_ms(options.duration)),
                      networks.mixes[run.mix].name, run.mode),
          "take a longer run; 400ms is the default");
}

int validate_networks(const ValidateArguments& a, const std::filesystem::path& file) {
  refuse_options("measured networks", {{"--policies", !a.policies.empty()},
                                       {"--pairs", !a.pairs.empty()},
                                       {"--inputs", !a.inputs.empty()},
                                       {"--solo", a.solo_only}});
  if (!a.timeline.empty())
    refuse_options("--timeline",
                   {{"--json", a.json}, {"--mixes", !a.mixes.empty()}, {"--modes", !a.modes.empty()}});
  NetworksOptions options;
  options.mixes = a.mixes, options.modes = a.modes, options.threads = a.threads;
  options.only = a.only, options.gpu = a.gpu, options.contention = a.contention.modelled();
  if (!a.duration.empty()) options.duration = parse_duration(a.duration, "--duration");
  if (options.duration <= Time{})
    throw InputError("", "--duration", "a run of no length shows nothing", "take 400ms, the default");
  std::optional<OutputFile> csv;
  if (!a.timeline.empty()) {
    if (!a.contention.modelled())
      throw InputError("", "--contention", "it is not of --timeline", "leave out one of them");
    const TimelineComparison comparison = compare_timeline(file, a.timeline, options);
    if (!a.directory.empty()) {
      csv.emplace(make_directory(a.directory) / "timeline.csv");
      write_timeline_csv(comparison, csv->stream());
      csv->close();
    }
    std::cout << format_timeline(comparison);
    return 0;
  }
  MeasuredNetworks networks = read_networks(file, options);
  if (!a.directory.empty()) csv.emplace(make_directory(a.directory) / "networks.csv");
  {
    ProgressBar bar;
    options.progress = [&](const char* stage, double done) { bar.show(stage, done); };
    simulate_networks(networks, options);
  }
  check_long_enough(networks, options);
  const NetworksScore score = score_networks(networks);
  if (csv) {
    write_networks_csv(networks, score, csv->stream());
    csv->close();
  }
  show(a, networks_json(networks, score), format_networks(networks, score));
  if (!a.json && csv) fmt::print("wrote       {}/ networks.csv\n", a.directory);
  return 0;
}

int validate_runs(const ValidateArguments& a) {
  refuse_options("recorded runs", {{"--modes", !a.modes.empty()},
                                   {"--pairs", !a.pairs.empty()},
                                   {"--inputs", !a.inputs.empty()},
                                   {"--solo", a.solo_only}});
  const std::vector<std::filesystem::path> files = find_runs(a.runs);
  std::optional<OutputFile> csv;
  if (!a.directory.empty()) csv.emplace(make_directory(a.directory) / "runs.csv");
  RunsComparison comparison;
  {
    ProgressBar bar;
    comparison = compare_runs(files, {a.mixes, a.policies, a.threads,
                                      [&](const char* stage, double done) { bar.show(stage, done); }, a.only, a.gpu,
                                      a.contention.modelled()});
  }
  if (csv) {
    write_runs_csv(comparison, csv->stream());
    csv->close();
  }
  show(a, runs_json(comparison), format_runs(comparison));
  if (!a.json && csv) fmt::print("wrote       {}/ runs.csv\n", a.directory);
  return 0;
}

int validate_published(const ValidateArguments& a) {
  refuse_options("published data", {{"--reference", !a.reference.empty()}, {"a folder of runs", !a.runs.empty()}, {"--gpu", !a.gpu.empty()},
                                    {"--mixes", !a.mixes.empty()}, {"--policies", !a.policies.empty()}, {"--modes", !a.modes.empty()},
                                    {"--pairs", !a.pairs.empty()}, {"--inputs", !a.inputs.empty()}, {"--solo", a.solo_only},
                                    {"--timeline", !a.timeline.empty()}, {"--duration", !a.duration.empty()}, {"--out", !a.directory.empty()},
                                    {"--report", !a.report.empty()}, {"--contention", !a.contention.modelled()}});
  std::vector<std::string> arguments{a.published};
  if (!a.only.empty()) arguments.push_back(fmt::format("--only={}", fmt::join(a.only, ",")));
  if (!a.half.empty()) arguments.push_back("--half=" + a.half);
  if (a.threads != 0) arguments.push_back(fmt::format("--threads={}", a.threads));
  if (a.json) arguments.emplace_back("--json");
  return score_public(std::move(arguments));
}

}  // namespace

CLI::App* add_validate(CLI::App& app, ValidateArguments& a) {
  CLI::App* command = app.add_subcommand(
      "validate",
      "compare the simulator with measured pairs of kernels, with recorded runs or with networks");
  command->add_option("runs", a.runs,
                      "folder with recorded runs (`sim record`), or with networks that shared a GPU");
  command->add_option("--duration", a.duration, "of networks: length of a simulated run (default: 400ms)");
  command->add_option("--reference", a.reference, "measured pairs to compare with (`sim schema reference`)");
  command->add_option(
      "--timeline", a.timeline,
      "of networks: the profiler's record MIX.MODE, kernel by kernel beside the simulated one");
  CLI::Option* published = command->add_option(
      "--public", a.published, "folder with clones of data that others published: igniter, ParvaGPU_SC24, MuxServe, nos, ...\n"
                               "(experiments/public; read by the Python module)");
  command->add_option("--half", a.half, "of published data: the rows that are kept back, the other ones, or all (default: other)")
      ->needs(published)
      ->check(CLI::IsMember({"kept", "other", "all"}));
  command->add_option("--mixes", a.mixes, "of recorded runs and networks: only these")->delimiter(',')->allow_extra_args(false);
  command->add_option("--policies", a.policies, "of recorded runs: only these policies, separated by blanks");
  command
      ->add_option("--inputs", a.inputs,
                   "what is known of a kernel: curve (solo times on any number of SMs, counters) or counters "
                   "(solo time on the whole GPU, counters)")
      ->check(CLI::IsMember({"curve", "counters"}))
      ->default_str("curve");
  command->add_option("--gpu", a.gpu, "GPU to simulate: a name of `sim gpus` or a description's path (default: h200; of runs and networks "
                                      "that of their traces)");
  a.contention.add_to(*command);
  command->add_option("--modes", a.modes, "only these modes, as streams,half")->delimiter(',')->allow_extra_args(false);
  command->add_option("--pairs", a.pairs, "only these pairs, as a+b,c+d")->delimiter(',')->allow_extra_args(false);
  CLI::Option* only = command
      ->add_option("--only", a.only, "run only what is so called: mixes, policies, modes, pairs as a+b")
      ->delimiter(',')->allow_extra_args(false);
  for (const char* narrower : {"--mixes", "--policies", "--modes", "--pairs", "--timeline"}) only->excludes(command->get_option(narrower));
  command->add_flag("--solo", a.solo_only, "only kernels alone on parts of the GPU");
  command->add_option("--threads", a.threads, "rows simulated at once (default: one a core)")
      ->check(CLI::Range(1, 4096));
  command->add_option("--out", a.directory, "write what was compared, as CSV, here");
  command->add_option("--report", a.report, "write one page: simulated against measured, errors, with the data");
  command->add_flag("--json", a.json, "print the result as JSON");
  return command;
}

int validate(const ValidateArguments& a) {
  if (!a.published.empty()) return validate_published(a);
  if (a.reference.empty() == a.runs.empty())
    throw InputError("", "validate", "it takes either a folder of recorded runs or --reference=FILE",
                     "`sim validate --help` shows how to call it");
  if (!a.report.empty()) {
    if (!a.timeline.empty())
      throw InputError("", "--report", "there is no page of --timeline", "use --out for its CSV");
    check_report_can_be_made();
  }
  if (!a.runs.empty()) {
    const std::filesystem::path networks = find_networks(a.runs);
    if (!networks.empty()) return validate_networks(a, networks);
    if (!a.timeline.empty() || !a.duration.empty())
      throw InputError(a.runs, "", "there is no networks.json, and --timeline and --duration are for networks",
                       "name a folder of `sim schema networks`");
    return validate_runs(a);
  }
  refuse_options("measured pairs", {{"--mixes", !a.mixes.empty()},
                                    {"--policies", !a.policies.empty()},
                                    {"--timeline", !a.timeline.empty()},
                                    {"--duration", !a.duration.empty()}});
  const Gpu gpu = read_gpu(a.gpu.empty() ? "h200" : a.gpu);
  const Inputs inputs = a.inputs == "counters" ? Inputs::counters : Inputs::curve;
  Reference reference = read_reference(a.reference, gpu, inputs);
  select(reference, a.modes, a.pairs, a.only);
  if (a.solo_only) reference.rows.clear();
  const auto has_curve = [](const ReferenceKernel& k) { return !k.solo_ms_by_sms.empty(); };
  if (reference.rows.empty() && std::ranges::none_of(reference.kernels, has_curve))
    throw InputError(a.reference, a.solo_only ? "/kernels" : "/rows", "there is nothing to compare with",
                     a.solo_only ? "add `solo_ms_by_sms` to the kernels, or leave out --solo"
                                 : "add rows, or `solo_ms_by_sms` to the kernels");
  std::optional<Files> files;
  if (!a.directory.empty()) files.emplace(a.directory);

  Replay replayed;
  {
    ProgressBar bar;
    ReplayOptions options;
    options.engine = {true, std::getenv("CORUN_AUDIT") != nullptr, a.contention.modelled()};
    options.threads = a.threads;
    options.progress = [&](const char* stage, double done) { bar.show(stage, done); };
    replayed = replay(reference, gpu, options);
  }
  const Comparison comparison = compare(reference, replayed);
  const Validation validation{reference, gpu, inputs, comparison};
  if (files) {
    write_rows_csv(comparison, files->rows);
    write_solo_csv(reference, replayed, files->solo);
    files->finish();
  }
  show(a, validation_json(validation), format_validation(validation));
  if (!a.json && files) fmt::print("wrote       {}/ rows.csv, solo.csv\n", a.directory);
  return 0;
}

}  // namespace corun::sim
