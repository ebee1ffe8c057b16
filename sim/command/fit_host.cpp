#include "sim/command/fit_host.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <vector>

#include "sim/backend/run.h"
#include "traces/import/host_gaps.h"
#include "traces/json/trace_json.h"
#include "traces/model/error.h"
#include "traces/timeline/timeline.h"

namespace corun::sim {
namespace {

constexpr int kSteps = 12;
/// What the host adds to the GPU's own time is no more than this where it does not matter.
constexpr double kHidden = 1.005;

class RequestTime final : public Sink {
 public:
  using Sink::record;
  void record(const RequestRecord& r) override {
    if (r.finished != kNever) time = r.finished - r.arrival;
  }
  Time time = kNever;
};

Program& program_of(Trace& trace, std::size_t client) { return trace.programs[trace.clients[client].program.value]; }

/// Those of the client's program; no kernel loses more than half.
void shorten_kernels(Trace& trace, std::size_t client, Time less) {
  const auto shorten = [&](Time& time) { time = std::max(time / 2, time - less); };
  std::set<std::size_t> launched;
  for (Op& op : program_of(trace, client).ops) {
    auto* launch = std::get_if<Launch>(&op.what);
    if (launch == nullptr) continue;
    launched.insert(launch->kernel.value);
    if (launch->solo_time) shorten(*launch->solo_time);
  }
  for (const std::size_t i : launched) {
    Kernel& kernel = trace.kernels[i];
    if (kernel.solo_time) shorten(*kernel.solo_time);
    for (auto& [sms, time] : kernel.solo_time_by_sms) shorten(time);
  }
}

Time alone(Trace trace, std::size_t client, const Gpu& gpu, double share, Time less = {}) {
  shorten_kernels(trace, client, less);
  scale_host_gaps(program_of(trace, client), share);
  trace.clients = {trace.clients[client]};
  trace.clients.front().arrivals = Once{};
  trace.run = {};
  RequestTime request;
  RunOptions options;
  options.policy = "fcfs";
  options.alone = false;
  options.sinks = {&request};
  run(trace, gpu, options);
  return request.time;
}

/// Tracing adds to each node of a graph: as much is taken off each, until a request takes no longer than `wanted`.
std::string fit_nodes(Trace& trace, std::size_t client, const Gpu& gpu, Time recorded, Time wanted) {
  Time most{};
  for (const Kernel& kernel : trace.kernels) most = std::max(most, kernel.solo_time.value_or(Time{}));
  Time low{}, high = most / 2;  // `high` is enough
  for (int i = 0; i < 2 * kSteps; ++i) {
    const Time middle = low + (high - low) / 2;
    (alone(trace, client, gpu, 1, middle) <= wanted ? high : low) = middle;
  }
  shorten_kernels(trace, client, high);
  return fmt::format("{:.3f} us are taken off each kernel, as tracing adds to a graph's nodes: so a request takes {:.4g} ms instead of {:.4g}; "
                     "without the profiler it takes {:.4g}.",
                     to_ns(high) / 1e3, to_ms(alone(trace, client, gpu, 1)), to_ms(recorded), to_ms(wanted));
}

std::string fit(Trace& trace, std::size_t client, Time wanted) {
  const Gpu gpu = read_gpu(trace.gpu);
  const Time recorded = alone(trace, client, gpu, 1), gpu_alone = alone(trace, client, gpu, 0);
  if (recorded <= wanted)
    return fmt::format("A request replays in {:.4g} ms, no longer than the {:.4g} ms that it takes without the profiler: host gaps are as "
                       "recorded.",
                       to_ms(recorded), to_ms(wanted));
  if (program_of(trace, client).issue == Issue::graph) return fit_nodes(trace, client, gpu, recorded, wanted);
  const Time limit = std::max(wanted, from_ns(kHidden * to_ns(gpu_alone)));
  double low = 0, high = 1;
  for (int i = 0; i < kSteps; ++i) {
    const double middle = (low + high) / 2;
    (alone(trace, client, gpu, middle) <= limit ? low : high) = middle;
  }
  scale_host_gaps(program_of(trace, client), low);
  return fmt::format("Host gaps are {:.3f} of the recorded ones: so a request takes {:.4g} ms instead of {:.4g}; without the profiler it "
                     "takes {:.4g}{}.",
                     low, to_ms(alone(trace, client, gpu, 1)), to_ms(recorded), to_ms(wanted),
                     gpu_alone > wanted ? ", less than its work on the GPU as recorded" : "");
}

}  // namespace

std::string fit_host(Trace& trace, Time wanted) {
  const auto refuse = [](const char* problem, const char* remedy) { throw InputError("", "--request-time", problem, remedy); };
  if (trace.clients.size() != 1) refuse("goes with one program, and several were recorded", "choose one with --process");
  if (trace.gpu.empty()) refuse("needs a GPU that is known", "name it: --gpu, as sim gpus lists them");
  return fit(trace, 0, wanted);
}

bool fit_host_as_recorded(Trace& trace, const RecordedTimes& recorded) {
  bool told = false;
  for (std::size_t client = 0; client < recorded.without_profiler.size(); ++client) {
    if (!recorded.without_profiler[client]) continue;
    told = true;
    const Time wanted = *recorded.without_profiler[client];
    const std::string of = trace.clients.size() == 1 ? "" : trace.clients[client].name + ": ";
    trace.notes.push_back(fmt::format("{}The recording says that a request takes {:.4g} ms without the profiler ({}).", of, to_ms(wanted), recorded.told_by));
    trace.notes.push_back(of + (trace.gpu.empty() ? "Host gaps are as recorded: they are fitted to that where the GPU is known (--gpu)."
                                                  : fit(trace, client, wanted)));
  }
  return told;
}

}  // namespace corun::sim
