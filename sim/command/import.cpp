#include "sim/command/import.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iostream>

#include "sim/command/replayed.h"
#include "sim/input/fit_host.h"
#include "traces/import/captured.h"
#include "traces/import/foreign_file.h"
#include "traces/import/join_parts.h"
#include "traces/import/kineto.h"
#include "traces/import/nsight_compute.h"
#include "traces/import/nsys.h"
#include "traces/import/rocprof.h"
#include "traces/import/table.h"
#include "traces/json/duration.h"
#include "traces/json/output_file.h"
#include "traces/json/trace_json.h"
#include "traces/model/error.h"

namespace corun::sim {
namespace {

/// What a request is called that is none of the program's own ranges (repetition.cpp).
constexpr const char* kRepetition = "repetition ";
/// Offered where a recording tells nothing of its card.
constexpr const char* kLikelyGpu = "h100-sxm";

/// Recordings on parts that `sim capture --keep` put beside the one of the whole GPU.
std::vector<ImportArguments::Part> kept_parts(const std::string& folder) {
  std::vector<ImportArguments::Part> parts;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder, none))
    if (entry.is_directory() && entry.path().filename().string().starts_with(kPartFolder)) parts.push_back({entry.path().string(), false});
  std::ranges::sort(parts, {}, &ImportArguments::Part::folder);
  return parts;
}

/// No request takes no time, and the least that a host issues is not nothing.
Time some_time(const std::string& text, const char* option) {
  const Time time = parse_duration(text, option);
  if (time <= Time{})
    throw InputError("", option, fmt::format("'{}' is no time in which a request is done", text),
                     "give what was measured, as 3.2ms");
  return time;
}

/// Options that a table cannot follow are refused.
void refuse_of_table(const ImportArguments& a) {
  for (const auto& [option, given] : {std::pair{"--counters", !a.counters.empty()}, {"--by-sms", !a.by_sms.empty()}, {"--range", !a.range.empty()},
                                      {"--step", a.step.has_value()}, {"--process", !a.process.empty()}, {"--device", a.device.has_value()},
                                      {"--host-time", !a.host_time.empty()}, {"--request-time", !a.request_time.empty()}, {"--sms", a.sms != 0},
                                      {"--repeats", a.repeats}, {"--assume-shapes", a.assume_shapes}, {"--no-host-stalls", a.no_host_stalls}})
    if (given) throw InputError("", option, "it is not of a table", "leave it out; the table's columns say all (docs/formats.md)");
}

Trace read(const ImportArguments& a, RecordedTimes& recorded) {
  ImportOptions options;
  options.gpu = a.gpu, options.counters = a.counters, options.sms = a.sms;
  if (!a.host_time.empty()) options.host_time = parse_duration(a.host_time, "--host-time");
  options.device = a.device, options.range = a.range, options.step = a.step;
  options.name = a.name, options.assume_shapes = a.assume_shapes, options.repeats = a.repeats;
  options.host_stalls = !a.no_host_stalls;
  if (a.format != "capture") refuse_foreign(a.input);
  if (a.format == "kineto") return import_kineto(a.input, options, &recorded);
  if (a.format == "table") return refuse_of_table(a), import_table(a.input, options);
  if (a.format == "capture") return import_captured(a.input, options, a.process, &recorded);
  if (a.format == "rocprof") {
    if (looks_like_nsys(a.input))
      throw InputError(a.input, "", "is an SQLite database, as rocprofv3 writes where no format is asked for",
                       "record with rocprofv3 --output-format json");
    return import_rocprof(a.input, options, a.process, &recorded);
  }
  if (a.format != "nsys")
    throw InputError("", "import", fmt::format("there is no importer for '{}'", a.format),
                     "use kineto, nsys, rocprof, capture or table");
  if (!looks_like_nsys(a.input))
    throw InputError(a.input, "", "is no SQLite database, as Nsight Systems exports", "export the report first: nsys export --type sqlite report.nsys-rep");
  return import_nsys(a.input, options, a.process, &recorded);
}

/// `request`: the range that is the request; empty: it is none, or not known.
void join(const PartRecording& part, const ImportArguments& a, const std::string& request, Trace& trace) {
  trace.notes.push_back(join_recording(trace, part, "--by-sms", [&](const std::string& gpu, std::uint32_t sms) {
    ImportArguments there = a;
    there.input = part.file.string(), there.gpu = gpu, there.sms = sms, there.counters.clear();
    if (there.range.empty()) there.range = request;
    RecordedTimes ignored;
    return read(there, ignored);
  }));
}

/// What a result lacks without a second run.
void tell_without_part(const std::string& why) {
  fmt::print(stderr, "note: Not run on a part of the GPU ({}): times there tell bandwidth from latency; without them partitions are guessed.\n",
             why);
}

void join_parts(const ImportArguments& a, const RecordedTimes& recorded, Trace& trace) {
  // One process, whose range was chosen: the request on the part is that, and not what holds most there.
  const bool ranges = a.format == "capture" && trace.clients.size() == 1 && !recorded.request.starts_with(kRepetition);
  const std::string request = ranges ? recorded.request : "";
  for (const std::string& text : a.by_sms) join(part_recording(text, "--by-sms"), a, request, trace);
  const bool kept = a.format == "capture" && a.by_sms.empty() && a.parts.empty();
  for (const ImportArguments::Part& part : kept ? kept_parts(a.input) : a.parts) try {
      join({part.folder, 0, true}, a, request, trace);
    } catch (const InputError& error) {
      if (part.asked) throw;
      tell_without_part(error.problem());
    }
  if (!a.no_part.empty()) tell_without_part(a.no_part);
}

/// Options that every recording knows.
void add_common(CLI::App& command, ImportArguments& a) {
  command.add_option("--gpu", a.gpu, "GPU on which it was recorded (default: as the recording says)");
  command.add_option("--name", a.name, "of the program (default: the recording's)");
  command.add_option("--process", a.process, "of several, only this process (default: a client for each)");
  command.add_option("--device", a.device, "of several GPUs in it (default: the one with most kernels)");
  command.add_option("--host-time", a.host_time,
                     "time in which the host issues the request without the profiler, as 5.9ms\n"
                     "(default: as recorded, which the profiler slows)");
  command.add_option("--request-time", a.request_time,
                     "what a request takes without the profiler, as 3.2ms: the host's gaps are fitted to it\n"
                 "(default: what the recording says)");
  command
      .add_option("--sms", a.sms,
                  "SMs that the program had, of a GPU that has more (default: as the recording says,\n"
                  "which does not see green contexts)")
      ->check(CLI::Range(1, 65535));
  command.add_flag("--no-host-stalls", a.no_host_stalls,
                   "leave out when the host stood still (default: of a capture, as its requests show it)");
}

}  // namespace

CLI::App* add_import(CLI::App& app, ImportArguments& a) {
  CLI::App* command = app.add_subcommand("import", "make a trace of another tool's recording");
  command->add_option("format", a.format,
                      "kineto: a PyTorch profiler trace; nsys: Nsight Systems' SQLite; rocprof: rocprofv3's JSON;\n"
                      "capture: what sim capture kept; table: latencies on shares of the SMs, in CSV (docs/formats.md)")
      ->type_name("{kineto,nsys,rocprof,capture,table}")
      ->required();
  command->add_option("input", a.input, "file to import")->required();
  command->add_option("-o,--output", a.output, "trace to write (default: standard output)");
  add_common(*command, a);
  command->add_option("--step", a.step, "which ProfilerStep or range is the request, from 0 (default: the median)");
  command->add_option("--range", a.range, "a request is a range of this name (default: a ProfilerStep)");
  command->add_flag("--repeats", a.repeats, "where no step is marked, a request is what repeats (default: the whole recording)");
  command->add_flag("--assume-shapes", a.assume_shapes,
                    "kernels without a recorded shape, as in HIP graphs, get one block of 256 threads an SM");
  command
      ->add_option("--by-sms", a.by_sms,
                   "a second recording of the program, on a part of the GPU; times there tell bandwidth from latency:\n"
                   "FILE, or 33=FILE where it does not say on how many SMs; once for each part")
      ->allow_extra_args(false);
  command->add_option("--counters", a.counters,
                      "what `ncu --csv` printed of the same program: counters and cluster dimensions\n(metrics: " +
                          nsight_compute_metrics() + ")");
  return command;
}

CLI::App* add_capture(CLI::App& app, CaptureArguments& a) {
  CLI::App* command = app.add_subcommand("capture", "make a trace of a program as it runs on the GPU of this machine");
  command->add_option("-o,--output", a.import.output, "trace to write")->required();
  command->add_option("program", a.program, "the program and its arguments, after --: -- python serve.py")->required();
  add_common(*command, a.import);
  command->add_option("--step", a.import.step, "which repetition or range is the request, from 0 (default: the median)");
  command->add_option("--range", a.import.range,
                      "a request is an NVTX range of this name (default: the program's own that holds most, else what repeats)");
  command->add_flag("--twice", a.twice, "run it first without tracing, for the time of its NVTX ranges: the host's gaps are fitted to it");
  command->add_flag("--all", a.all,
                    "record the kernels of the whole run (default: of segments, as that slows the host; between them only calls,\n"
                    "which tell what a request takes without: host gaps are fitted to that)");
  command->add_flag("--counters", a.counters, "run it again under Nsight Compute (ncu), for counters of every launch");
  CLI::Option* by_sms =
      command
          ->add_option("--by-sms", a.by_sms,
                       "percentages of the GPU on which it runs again under MPS, as 25,50 (default: 25, where MPS starts);\n"
                       "times there tell bandwidth from latency")
          ->delimiter(',')
          ->allow_extra_args(false)  // the program's words are behind it
          ->check(CLI::Range(1, 99));
  command->add_flag("--once", a.once, "run it on the whole GPU only")->excludes(by_sms);
  command->add_option("--keep", a.import.input, "folder that keeps the recording, for `sim import capture`");
  return command;
}

int import(const ImportArguments& a) {
  RecordedTimes recorded;
  Trace trace = read(a, recorded);
  join_parts(a, recorded, trace);
  if (std::string note = prior_note(trace); !note.empty()) trace.notes.push_back(std::move(note));
  bool fitted = true;
  if (!a.request_time.empty())
    trace.notes.push_back(fit_host(trace, some_time(a.request_time, "--request-time"), recorded));
  else if (!a.untraced.empty()) trace.notes.push_back(fit_host(trace, untraced_range(a.untraced, recorded.request), recorded));
  else fitted = a.host_time.empty() && fit_host_as_recorded(trace, recorded);
  if (trace.clients.size() == 1 && a.format != "table") {
    if (fitted) recorded.period = {};
    std::vector<std::string> notes = replay_notes(trace, recorded);
    if (fitted) notes.resize(std::min<std::size_t>(notes.size(), 1));  // it is shorter on purpose
    trace.notes.insert(trace.notes.end(), notes.begin(), notes.end());
  }
  if (!a.gpu.empty() && !locate_gpu(a.gpu).empty() && std::filesystem::exists(a.gpu))  // a trace's starts beside it
    trace.gpu =
        std::filesystem::relative(a.gpu, std::filesystem::absolute(a.output).parent_path()).string();
  for (const std::string& note : trace.notes) fmt::print(stderr, "note: {}\n", note);
  if (a.output.empty()) {
    write_trace(trace, std::cout);
    return 0;
  }
  OutputFile out(a.output);
  write_trace(trace, out.stream(), schema_from(a.output, "trace"));
  out.close();
  const std::string card = recorded.nearest_gpu.empty() ? kLikelyGpu : recorded.nearest_gpu;
  fmt::print(stderr, "{}: {} kernels, {} operations; run it with `sim {}{}`{}\n", a.output, trace.kernels.size(),
             trace.programs.empty() ? 0 : trace.programs.front().ops.size(), trace.gpu.empty() ? "--gpu=" + card + " " : "", a.output,
             trace.gpu.empty() && recorded.nearest_gpu.empty() ? ", or another card of `sim gpus`" : "");
  return 0;
}

}  // namespace corun::sim
