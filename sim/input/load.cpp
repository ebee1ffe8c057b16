#include "sim/input/load.h"

#include <fmt/format.h>

#include "sim/input/carry.h"
#include "sim/input/fit_host.h"
#include "traces/import/join_parts.h"
#include "traces/import/recording.h"
#include "traces/json/duration.h"
#include "traces/json/trace_json.h"
#include "traces/model/error.h"

namespace corun::sim {
namespace {

void join(Trace& trace, const std::string& by_sms) {
  const PartRecording part = part_recording(by_sms, "by-sms");
  trace.notes.push_back(join_recording(trace, part, "by-sms", [&](const std::string& gpu, std::uint32_t sms) {
    ImportOptions options;
    options.gpu = gpu, options.sms = sms;
    if (std::optional<Trace> there = import_recording(part.file, options)) return *std::move(there);
    throw InputError(part.file.string(), "by-sms", "is no recording of a profiler", "record the program on a part of the GPU");
  }));
}

std::optional<Trace> recording(const std::filesystem::path& file, const ImportOptions& options, const std::string& by_sms = {}) {
  RecordedTimes times;
  std::optional<Trace> trace = import_recording(file, options, &times);
  if (!trace) return trace;
  if (!by_sms.empty() && !trace->gpu.empty()) join(*trace, by_sms);
  fit_host_as_recorded(*trace, times);
  return trace;
}

}  // namespace

Trace read_input(const std::string& file, const std::string& gpu, const std::string& counters, const std::string& by_sms) {
  ImportOptions options;
  options.counters = counters;
  if (std::optional<Trace> recorded = recording(file, options, by_sms)) {
    if (recorded->gpu.empty() && gpu.empty() && !by_sms.empty()) join(*recorded, by_sms);  // which says that the GPU is not known
    if (!recorded->gpu.empty() || gpu.empty()) return std::move(*recorded);
    options.gpu = gpu;
    return std::move(*recording(file, options, by_sms));
  }
  if (!by_sms.empty())
    throw InputError(part_recording(by_sms, "by-sms").file.string(), "by-sms",
                     fmt::format("{} is no recording, to which one on a part of the GPU can be joined", file),
                     "give both recordings; a trace has times by SMs in its kernels");
  if (!counters.empty())
    throw InputError(counters, "",
                     fmt::format("{} is no PyTorch profiler trace, which counters are joined to", file),
                     "give counters with the profiler trace; a trace has them in its kernels");
  return read_trace(file, [](const auto& included) { return recording(included, {}); });
}

void adjust(Trace& trace, const std::string& file, const Adjustments& how) {
  if (!how.duration.empty()) {
    trace.run.duration = parse_duration(how.duration, "--duration");
    if (*trace.run.duration <= trace.run.warm_up)
      throw InputError("", "--duration", "the run would end within its warm-up", "make it longer");
  }
  if (how.seed) trace.run.seed = *how.seed;
  if (!how.gpu.empty()) put_on(trace, file, how.gpu);
  if (!how.issue.empty()) {
    if (how.issue != "eager" && how.issue != "graph")
      throw InputError("", "--issue", fmt::format("'{}' is no way to hand requests over", how.issue),
                       "use eager or graph");
    for (Client& client : trace.clients) client.issue = how.issue == "graph" ? Issue::graph : Issue::eager;
  }
  if (trace.gpu.empty())
    throw InputError(file, "/gpu", "the trace names no GPU", "pass --gpu=NAME; `sim gpus` lists the names");
  if (trace.clients.empty())
    throw InputError(file, "/clients", "the trace has no clients, so there is nothing to run",
                     "add a client, or include this trace in one that has clients");
}

}  // namespace corun::sim
