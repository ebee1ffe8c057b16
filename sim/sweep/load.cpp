#include "sim/sweep/load.h"

#include <fmt/format.h>

#include "sim/sweep/carry.h"
#include "sim/sweep/fit_host.h"
#include "traces/json/duration.h"
#include "traces/import/recording.h"
#include "traces/json/trace_json.h"
#include "traces/model/error.h"

namespace corun::sim {
namespace {

std::optional<Trace> recording(const std::filesystem::path& file, const ImportOptions& options) {
  RecordedTimes times;
  std::optional<Trace> trace = import_recording(file, options, &times);
  if (trace) fit_host_as_recorded(*trace, times);
  return trace;
}

}  // namespace

Trace read_input(const std::string& file, const std::string& gpu, const std::string& counters) {
  ImportOptions options;
  options.counters = counters;
  if (std::optional<Trace> recorded = recording(file, options)) {
    if (!recorded->gpu.empty() || gpu.empty()) return std::move(*recorded);
    options.gpu = gpu;
    return std::move(*recording(file, options));
  }
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
