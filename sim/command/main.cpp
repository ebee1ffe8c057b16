// The `sim` command: one run, a comparison of policies, validation, imports, schemas.  Exit code 0: done; 2:
// bad input, told on standard error; 3: a run on a GPU failed, or no setting holds (`advise`); 130: interrupted;
// 1: a defect of corun itself.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <optional>

#include "hw/backend/cuda_backend.h"
#include "hw/process/worker.h"
#include "hw/run/run.h"
#include "hw/run/signal_guard.h"
#include "policies/api/registry.h"
#include "sim/command/advise.h"
#include "sim/command/calibrate.h"
#include "sim/command/compare.h"
#include "sim/command/compare_gpus.h"
#include "sim/command/completion.h"
#include "sim/command/description.h"
#include "sim/command/gpus.h"
#include "sim/command/import.h"
#include "sim/command/live.h"
#include "sim/command/manual.h"
#include "sim/command/outputs.h"
#include "sim/command/papers.h"
#include "sim/command/profile.h"
#include "sim/command/progress.h"
#include "sim/command/record.h"
#include "sim/command/report_page.h"
#include "sim/command/sweep.h"
#include "sim/command/validate.h"
#include "sim/input/client_settings.h"
#include "sim/input/compose.h"
#include "sim/input/load.h"
#include "sim/run/run.h"
#include "traces/json/input_file.h"
#include "traces/json/spelling.h"
#include "traces/json/temporary_folder.h"
#include "traces/json/trace_json.h"
#include "traces/model/error.h"
#include "traces/timeline/report.h"

namespace corun::sim {
namespace {

/// Of a run on a GPU.
struct CudaArguments {
  std::string backend = "sim", record, store;
  bool verify = false, no_alone = false;
};

struct ServedArguments {
  std::optional<double> ahead_us, look_us;
  bool persistent = false;
};

struct Arguments {
  std::string trace;
  std::vector<std::string> clients;
  std::string policy = "fcfs";
  CompareArguments comparison;
  AdviseArguments advice;
  std::string gpu, duration, issue, profiles;
  std::optional<std::uint64_t> seed;
  bool json = false, audit = false, plain = false, resources = false;
  CudaArguments cuda;
  std::uint64_t memory = 0;
  ServedArguments served;
  OutputOptions outputs;
  std::string report;
  std::string schema;
};

/// "; did you mean '--policy'?" for options that the command, or the subcommand that was given, does not have.
std::string meant(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  const CLI::App& called = chosen.empty() ? app : *chosen.front();
  std::vector<std::string> names;
  for (const CLI::Option* option : called.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  for (const std::string& word : app.remaining(true)) {
    const std::string option = word.substr(0, word.find('='));
    if (const std::string guess = did_you_mean(option, names); option.starts_with("--") && !guess.empty()) return guess;
  }
  return {};
}

/// Whether one of the words that nobody expected is a file, as a second trace would be.
bool names_a_file(const CLI::App& app) {
  return std::ranges::any_of(app.remaining(true), [](const std::string& word) {
    return !word.starts_with("-") && input_exists(word);
  });
}

/// Throws InputError for a file that is not there and may be a misspelt subcommand.
void check_subcommand(const CLI::App& app, const std::string& trace) {
  if (input_exists(trace)) return;
  std::vector<std::string> names;
  for (const CLI::App* each : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(each->get_name());
  if (const std::string guess = did_you_mean(trace, names); !guess.empty())
    throw InputError("", "", fmt::format("there is neither a file nor a subcommand {}{}", in_quotes(trace), guess),
                     "`sim --help` lists the subcommands");
}

/// Throws InputError for `--gpu=` and the like, which would take the next word for their value.
void refuse_empty_values(const CLI::App& app, int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (i == 1 && (word == "capture" || word == "run")) return;  // what follows may be another program's
    if (word == "--") return;
    if (!word.starts_with("--") || !word.ends_with("=")) continue;
    const std::string name = word.substr(0, word.size() - 1);
    const auto all = app.get_subcommands([&](const CLI::App* each) { return i > 1 && each->get_name() == argv[1]; });
    if ((all.empty() ? &app : all.front())->get_option_no_throw(name) != nullptr)
      throw InputError("", name, "no value follows the equals sign", fmt::format("write {}VALUE, or leave it out", word));
  }
}

Trace load(const Arguments& a) {
  if (a.trace.empty() == a.clients.empty())
    throw InputError("", "", a.trace.empty() ? "no trace given" : "both a trace and --client given",
                     "give a trace, or each client with --client; `sim --help` shows how");
  Trace trace = a.clients.empty() ? read_input(a.trace, a.gpu) : compose(a.clients, a.gpu);
  adjust(trace, a.trace, {a.gpu, a.duration, a.issue, a.seed});
  return trace;
}

enum class Task { run, compare, advise };

/// Throws InputError.
void refuse_what_does_not_go_together(const Arguments& a) {
  if (a.served.ahead_us && a.cuda.backend != "sim")
    throw InputError("", "--as-served", "it is of the simulator", "leave out --backend=cuda, or run the programs under sim serve");
  if (a.served.look_us && !a.served.ahead_us)
    throw InputError("", "--look-us", "it is of programs under the service", "give --as-served=8 too");
  if (a.served.persistent && !a.served.ahead_us)
    throw InputError("", "--persistent", "it is of programs under the service", "give --as-served=8 too");
  if (!a.comparison.contention.modelled() && a.cuda.backend != "sim")
    throw InputError("", "--contention", "it is of the simulator", "leave out --backend=cuda, or --contention=none");
}

/// Throws InputError.
std::optional<Profiles> profiles_for(const Arguments& a, const Gpu& gpu) {
  if (a.profiles.empty()) return std::nullopt;
  Profiles profiles = read_profiles(a.profiles);
  if (profiles.gpu != gpu.name)
    throw InputError(a.profiles, "/gpu",
                     fmt::format("the profiles are of {}, the run is on {}", profiles.gpu, gpu.name),
                     "profile the trace on this GPU");
  return profiles;
}

/// `stopped`: by the user, who has the results until then.
RunResult run_plan(const Plan& plan, const Arguments& a, corun::RunOptions options,
                   const EngineOptions& engine, bool& stopped) {
  if (a.cuda.backend != "sim") {
    options.alone = !a.cuda.no_alone;
    return hw::run(plan, {options, a.cuda.store, a.cuda.record, a.cuda.verify});
  }
  std::optional<hw::SignalGuard> guard(std::in_place);  // a second Ctrl-C ends the command
  options.stop = [&] {
    if (!hw::SignalGuard::flag()) return false;
    guard.reset();
    return stopped = true;
  };
  RunOptions simulated{options, engine};
  if (a.served.ahead_us) simulated.served_ahead = from_ns(1e3 * *a.served.ahead_us);
  simulated.served_persistent = a.served.persistent;
  if (a.served.look_us) simulated.served_look = from_ns(1e3 * *a.served.look_us);
  return run(plan, simulated);
}

int run_and_show(const Plan& plan, const Arguments& a, const Profiles* profiles,
                 const EngineOptions& engine) {
  if (a.outputs.level == "cta" && a.outputs.window.empty() &&
      plan.recorded.run.duration.value_or(Time{}) > from_ns(1e8))
    fmt::print(
        stderr,
        "note: at level cta a second of a busy GPU makes gigabytes; --trace-window=0ms-20ms keeps a part\n");
  OutputOptions wanted = a.outputs;
  std::optional<TemporaryFolder> folder;  // without --out
  if (!a.report.empty()) {
    check_report_can_be_made();
    wanted.for_page = true;
    if (wanted.directory.empty()) wanted.directory = folder.emplace("report").path().string();
  }
  RunResult result;
  bool stopped = false;
  {
    ProgressBar bar;
    Outputs outputs(wanted, plan.trace(), plan.gpu);
    result = run_plan(plan, a,
                      {.policy = a.policy,
                       .sinks = outputs.sinks(),
                       .progress = [&](const char* stage, double done) { bar.show(stage, done); },
                       .profiles = profiles,
                       .resources = !a.report.empty() || a.resources},
                      engine, stopped);
    outputs.finish(result);
  }
  if (!a.report.empty()) make_report(wanted.directory, a.report);
  if (a.json)
    write_summary(result, std::cout);
  else
    std::cout << format_report(result, a.comparison.notes)
              << (a.comparison.where || a.resources ? "\n" + format_parts({&result, 1}) : "");
  if (!a.json && !a.outputs.directory.empty())
    fmt::print(
        "wrote    {}/ summary.json, requests.csv, kernels.csv, timeline.pftrace (ui.perfetto.dev), "
        "occupancy.svg\n",
        a.outputs.directory);
  if (!a.json && !a.report.empty()) fmt::print("wrote    {}\n", a.report);
  return stopped ? 130 : 0;
}

int simulate(const Arguments& a, Task task) {
  // Errors in options come before the slow steps.
  if (task == Task::compare) (void)specs_of(a.comparison);
  std::shared_ptr<Policy> policy = task == Task::run ? make_policy(a.policy) : nullptr;
  refuse_what_does_not_go_together(a);
  const Trace trace = load(a);
  const EngineOptions engine{!a.plain, a.audit || std::getenv("CORUN_AUDIT") != nullptr,
                             a.comparison.contention.modelled()};
  if (task == Task::compare && !a.comparison.gpus.empty()) {
    if (!a.profiles.empty() || a.cuda.backend != "sim" || a.memory != 0 || a.comparison.oracle ||
        !engine.contention || !a.comparison.seeds.empty() || !a.comparison.until.empty())
      throw InputError(
          "", "--gpus",
          "it goes with none of --profiles, --memory, --oracle, --contention=none, --seeds, --until and --backend=cuda",
          "leave these out, or compare on one GPU");
    return compare_gpus(trace, a.trace, a.comparison, engine, a.json);
  }
  Gpu gpu = read_gpu(trace.gpu, std::filesystem::path(a.trace).parent_path());
  if (a.memory != 0) gpu.memory_bytes = a.memory;
  const std::optional<Profiles> measured = profiles_for(a, gpu);
  const Profiles* profiles = measured ? &*measured : nullptr;
  if (measured && measured->host && a.cuda.backend == "sim") gpu = through(*measured->host, gpu);
  if (task == Task::advise) return advise(trace, gpu, a.advice, engine, a.json);
  if (task == Task::compare) return compare(trace, gpu, a.comparison, engine, profiles, a.json);
  Plan plan{trace, gpu, a.policy, std::move(policy)};
  return run_and_show(a.cuda.backend == "sim" ? simulated(std::move(plan)) : plan, a, profiles, engine);
}

int list_policies() {
  for (const PolicyInfo& p : policies()) {
    fmt::print("{:<14}{}\n", p.name, p.summary);
    if (!p.also_called.empty()) fmt::print("{:14}also: {}\n", "", fmt::join(p.also_called, ", "));
    fmt::print("{:14}source: {}\n", "", p.source);
    if (!p.unverified.empty()) fmt::print("{:14}unverified: {}\n", "", p.unverified);
    for (const Parameter& q : p.parameters)
      fmt::print("{:16}{}={}  {}\n", "", q.name, q.default_value, q.meaning);
  }
  return 0;
}

void add_run_options(CLI::App& app, Arguments& a) {
  app.add_option("--client", a.clients,
                 "in the place of a trace, once for each client: NAME=FILE[,SETTING...] with a trace or a recording,\n"
                 "as cam=resnet.json.gz,rt,rate=50,slo=20ms; settings:" +
                     client_settings_help(true))
      ->allow_extra_args(false);
  app.add_option("--gpu", a.gpu,
                 "GPU to simulate: a name of `sim gpus` or a description's path (default: the trace's);\n"
                 "times that were recorded on another card are carried over");
  app.add_option("--duration", a.duration, "length of the run, as 200ms (default: the trace's)");
  app.add_option("--seed", a.seed, "seed of the arrivals (default: the trace's)");
  app.add_option("--issue", a.issue, "hand every request over by single calls (eager) or at once (graph)")
      ->check(CLI::IsMember({"eager", "graph"}));
  app.add_option("--profiles", a.profiles,
                 "times of the kernels alone (`sim profile`) in the place of simulated ones");
  app.add_option("--memory", a.memory, "device memory to use, as 4GB (default: all that the GPU has)")
      ->transform(CLI::AsSizeValue(true));
  app.add_flag("--json", a.json, "print the result as JSON");
  app.add_flag("--where", a.comparison.where, "print where each client's latency goes");
  app.add_flag_callback("--notes", [&a] { a.comparison.notes = Notes::all; }, "print all notes, not the first ones");
  app.add_flag("--audit", a.audit, "check the invariants after every event (slow)");
  app.add_flag("--no-shortcuts", a.plain, "simulate block by block throughout (slow, same result)");
  app.add_option("--backend", a.cuda.backend, "sim: simulate; cuda: run on the NVIDIA GPU of this machine")
      ->check(CLI::IsMember({"sim", "cuda"}))
      ->capture_default_str();
  app.add_flag("--verify", a.cuda.verify, "cuda: fail if a result is not the plain kernel's, bit by bit");
  app.add_flag("--no-alone", a.cuda.no_alone,
               "cuda: do not run each client alone, for latencies and throughput only");
  app.add_option("--record", a.cuda.record, "cuda: write notices and decisions here, for replay");
  app.add_option("--store", a.cuda.store, "cuda: folder that keeps compiled kernels between runs");
}

int command(int argc, char** argv) {
  Arguments a;
  CLI::App app{
      "Simulates how programs share a GPU, block by block.\n"
      "  sim --policy=greedy trace.json        one run\n"
      "  sim compare --policies=fcfs,greedy trace.json\n"
      "A PyTorch profiler trace can take the place of trace.json."};
  app.set_version_flag("--version", CORUN_VERSION);
  app.get_formatter()->column_width(34);
  app.add_option("trace", a.trace, "trace to run (JSON, may be gzip-compressed)");
  app.add_option("--policy", a.policy, "name[:key=value,...]; `help` lists the policies")
      ->capture_default_str();
  add_run_options(app, a);
  a.comparison.contention.add_to(app);
  app.add_option("--as-served", a.served.ahead_us,
                 "as sim serve --ahead-us=this, usually 8, runs programs as they are: kernels run to their ends, and one\n"
                 "that the policy may hold back goes so long before those before it end")
      ->check(CLI::Range(0.0, 1e6));
  app.add_flag("--persistent", a.served.persistent,
               "with --as-served: kernels that bring their PTX (traces/FORMAT.md: ptx) can be stopped and sized, as under\n"
               "sim serve --persistent; policies that give sizes have it anyway");
  app.add_option("--look-us", a.served.look_us,
                 "with --as-served, of a policy that looks ahead: microseconds from asking for a forecast to hearing it, which is\n"
                 "made of what a service knows of its programs (sim top --json has its mean: looks; default: at once)")
      ->check(CLI::Range(0.0, 1e6));
  app.add_option("--out", a.outputs.directory,
                 "write summary.json, requests.csv, kernels.csv, timeline.pftrace, occupancy.svg here");
  app.add_flag("--resources", a.resources,
               "with --where, --json, --out: tell what clients lose to each other by resource (slow)");
  app.add_option("--report", a.report, "write one page: summary, where latency goes, timeline, occupancy, with the data");
  app.add_option("--trace-level", a.outputs.level, "what the timeline shows: request, kernel or cta")
      ->check(CLI::IsMember({"request", "kernel", "cta"}))
      ->capture_default_str();
  app.add_option("--trace-window", a.outputs.window,
                 "part of the run that the timeline shows, as 0ms-20ms (default: all)");
  app.add_option(
      "--block-log", a.outputs.block_log,
      "write PREFIX1.json, PREFIX2.json, ...: a block log per stream, as cuda_scheduling_examiner does");

  CLI::App* comparer = app.add_subcommand("compare", "run policies side by side");
  add_compare(*comparer, a.comparison);
  comparer->add_option("trace", a.trace, "trace to run");
  add_run_options(*comparer, a);
  a.comparison.contention.add_to(*comparer);
  CLI::App* adviser = app.add_subcommand("advise", "which way to share the GPU keeps what was promised");
  add_advise(*adviser, a.advice);
  adviser->add_option("trace", a.trace, "trace to run");
  add_run_options(*adviser, a);
  SweepArguments many;
  CLI::App* sweeper = add_sweep(app, many);
  ValidateArguments validation;
  CLI::App* validates = add_validate(app, validation);
  PapersArguments figures;
  CLI::App* scoreboard = add_papers(app, figures);
  ImportArguments imports;
  CLI::App* importer = add_import(app, imports);
  CaptureArguments captures;
  CLI::App* capturer = add_capture(app, captures);
  ProfileArguments profiling;
  CLI::App* profiles = add_profile(app, profiling);
  RecordArguments recording;
  CLI::App* recorder = add_record(app, recording);
  CalibrateArguments calibration;
  CLI::App* calibrates = add_calibrate(app, calibration);
  LiveArguments live;
  const LiveCommands lives = add_live(app, live);
  CLI::App* schemas = app.add_subcommand("schema", "print the JSON Schema of a file format");
  schemas->add_option("name", a.schema, "which format")
      ->type_name("{trace,gpu,profile,sweep,reference,figure,runs,networks}")
      ->required();
  GpusArguments described;
  CLI::App* gpus = add_gpus(app, described);
  std::string shell;
  CLI::App* completer = add_completion(app, shell);
  CLI::App* manuals = app.add_subcommand("man", "print the manual page, for man -l -");
  app.require_subcommand(0, 1);

  refuse_empty_values(app, argc, argv);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {  // --help, --version
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    if (app.get_subcommands().empty() && !a.trace.empty()) check_subcommand(app, a.trace);
    const auto called = app.get_subcommands();
    std::string remedy = fmt::format("`sim {}--help` shows the options",
                                     called.empty() ? "" : called.front()->get_name() + " ");
    if (!a.trace.empty() && names_a_file(app))
      remedy = "of several programs give each with --client NAME=FILE; " + remedy;
    fmt::print(stderr, "sim: {}{}\n  remedy: {}\n", error.what(), meant(app), remedy);
    return 2;
  }
  if (*schemas) return (std::cout << schema(a.schema)), 0;
  if (*completer) return (std::cout << completion(describe(app), shell)), 0;
  if (*manuals) return (std::cout << manual(describe(app))), 0;
  if (*gpus) return show_gpus(described);
  if (*importer) return import(imports);
  if (*capturer) return capture(captures);
  if (*calibrates) return calibrate(calibration);
  if (*lives.serve) return serve(live);
  if (*lives.run) return run_steered(live);
  if (*lives.top) return top(live);
  if (*profiles) return profile(profiling);
  if (*recorder) return record(recording);
  if (*validates) return validate(validation);
  if (*scoreboard) return papers(figures);
  if (*comparer) return simulate(a, Task::compare);
  if (*adviser) return simulate(a, Task::advise);
  if (*sweeper) return sweep(many);
  if (a.policy == "help") return list_policies();
  if (a.clients.empty() && !a.trace.empty()) check_subcommand(app, a.trace);
  a.outputs.command_line = fmt::format("sim --policy={} {}", a.policy, a.trace);
  for (const std::string& client : a.clients) a.outputs.command_line += " --client " + client;
  return simulate(a, Task::run);
}

}  // namespace
}  // namespace corun::sim

int main(int argc, char** argv) {
  try {
    if (corun::hw::is_worker(argc, argv)) return corun::hw::worker_main();
    return corun::sim::command(argc, argv);
  } catch (const corun::InputError& error) {
    fmt::print(stderr, "sim: {}\n", error.what());
    return 2;
  } catch (const corun::hw::Interrupted&) {
    fmt::print(stderr, "sim: interrupted; nothing is left on the GPU\n");
    return 130;
  } catch (const corun::hw::DriverError& error) {
    fmt::print(stderr, "sim: the GPU run failed: {}\n  remedy: check the GPU with nvidia-smi\n",
               error.what());
    return 3;
  } catch (const corun::hw::Stalled& error) {
    fmt::print(stderr, "sim: the GPU run failed: {}\n  remedy: check the GPU with nvidia-smi\n",
               error.what());
    return 3;
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "sim: out of memory\n  remedy: run a shorter --duration or a --trace-window\n");
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "sim: this is a defect of corun: {}\n", error.what());
    return 1;
  }
}
