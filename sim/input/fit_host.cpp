#include "sim/input/fit_host.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "sim/run/run.h"
#include "traces/import/host_gaps.h"
#include "traces/json/trace_json.h"
#include "traces/model/error.h"
#include "traces/timeline/timeline.h"

namespace corun::sim {
namespace {

constexpr int kSteps = 12;
/// What the host adds to the GPU's own time is no more than this where it does not matter.
constexpr double kHidden = 1.005;

constexpr std::uint32_t kInARow = 8;  // requests
/// Records of kernels add 1.2 us to a graph's node (`overhead.json` in experiments/h200/capture); more than
/// this is the host's.
constexpr Time kMostOfNode{2'000'000};

class Requests final : public Sink {
 public:
  using Sink::record;
  void record(const RequestRecord& r) override {
    if (r.finished == kNever) return;
    took = r.finished - r.arrival;
    if (first == kNever) first = r.finished;
    last = r.finished, ++ended;
  }
  Time period() const { return ended < 2 ? took : (last - first) / (ended - 1); }
  Time took = kNever, first = kNever, last{};
  std::int64_t ended = 0;
};

Program& program_of(Trace& trace, std::size_t client) { return trace.programs[trace.clients[client].program.value]; }

/// The client's program, and the same as recorded on parts of the GPU, to which tracing has done the same.
std::vector<Program*> recordings_of(Trace& trace, std::size_t client) {
  std::vector<Program*> all = {&program_of(trace, client)};
  for (const auto& [sms, there] : all.front()->on_sms) all.push_back(&trace.programs[there.value]);
  return all;
}

void scale_all_host_gaps(Trace& trace, std::size_t client, double share) {
  for (Program* program : recordings_of(trace, client)) scale_host_gaps(*program, share);
}

/// Those of the client's program; no kernel loses more than half.
void shorten_kernels(Trace& trace, std::size_t client, Time less) {
  const auto shorten = [&](Time& time) { time = std::max(time / 2, time - less); };
  std::set<std::size_t> launched;
  for (Program* program : recordings_of(trace, client))
    for (Op& op : program->ops) {
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

/// The host waits for nothing: in a row it issues a request while the GPU is at the one before, so what a
/// request was measured to take is the time from one's end to the next one's.
bool works_ahead(const Trace& trace, std::size_t client) {
  const Program& program = trace.programs[trace.clients[client].program.value];
  return program.issue != Issue::graph && std::ranges::all_of(program.ops, [&](const Op& op) {
           return op.stream == program.ops.front().stream &&
                  (std::holds_alternative<Launch>(op.what) || std::holds_alternative<Copy>(op.what));
         });
}

Time alone(Trace trace, std::size_t client, const Gpu& gpu, double share, Time less = {}) {
  shorten_kernels(trace, client, less);
  scale_host_gaps(program_of(trace, client), share);
  const bool in_a_row = works_ahead(trace, client);
  trace.clients = {trace.clients[client]};
  trace.clients.front().arrivals = Once{};
  trace.clients.front().host_stalls.reset();  // what a request takes is measured in the median
  trace.run = {};
  Requests request, row;
  RunOptions options;
  options.policy = "fcfs";
  options.alone = false;
  options.sinks = {&request};
  run(trace, gpu, options);
  if (!in_a_row || request.took == kNever) return request.took;
  trace.clients.front().arrivals = ClosedLoop{Time{}, kInARow};
  trace.run.duration = request.took * kInARow;
  options.sinks = {&row};
  run(trace, gpu, options);
  return row.period();
}

/// The largest share of the host gaps with which a request takes no longer than `limit`.
double share_within(const Trace& trace, std::size_t client, const Gpu& gpu, Time limit, double low,
                    double high) {
  for (int i = 0; i < kSteps; ++i) {
    const double middle = (low + high) / 2;
    (alone(trace, client, gpu, middle) <= limit ? low : high) = middle;
  }
  return low;
}

/// Tracing adds to each node of a graph: as much is taken off each, until a request takes no longer than
/// `wanted`; and, where that is not enough, off the host's work.
std::string fit_nodes(Trace& trace, std::size_t client, const Gpu& gpu, Time recorded, Time wanted) {
  Time most{};
  for (const Kernel& kernel : trace.kernels) most = std::max(most, kernel.solo_time.value_or(Time{}));
  Time low{}, high = std::min(most / 2, kMostOfNode);
  for (int i = 0; i < 2 * kSteps; ++i) {
    const Time middle = low + (high - low) / 2;
    (alone(trace, client, gpu, 1, middle) <= wanted ? high : low) = middle;
  }
  shorten_kernels(trace, client, high);
  std::string host;
  if (alone(trace, client, gpu, 1) > wanted) {
    const double share = share_within(trace, client, gpu, wanted, 0, 1);
    scale_all_host_gaps(trace, client, share);
    host = fmt::format(", and host gaps are {:.3f} of the recorded ones", share);
  }
  return fmt::format(
      "{:.3f} us are taken off each kernel, as tracing adds to a graph's nodes{}: so a request takes {:.4g} "
      "ms instead of {:.4g}; "
      "without the profiler it takes {:.4g}.",
      to_ns(high) / 1e3, host, to_ms(alone(trace, client, gpu, 1)), to_ms(recorded), to_ms(wanted));
}

/// `polls`: it waits for the GPU by no call.
std::string fit(Trace& trace, std::size_t client, const WithoutProfiler& told, bool polls) {
  const Gpu gpu = read_gpu(trace.gpu);
  const Time recorded = alone(trace, client, gpu, 1), gpu_alone = alone(trace, client, gpu, 0), wanted = told.request - told.nodes;
  const Time hidden = from_ns(kHidden * to_ns(gpu_alone));
  const bool graph = program_of(trace, client).issue == Issue::graph;
  const char* row = works_ahead(trace, client) ? " in a row, as its host waits for nothing" : "";
  Time gaps{};
  for (const Op& op : program_of(trace, client).ops) gaps += op.host_gap;
  double share = 1;
  if (recorded > wanted && graph) return fit_nodes(trace, client, gpu, recorded, wanted);
  if (const Time missing = wanted - told.calls - recorded; graph && polls && missing > Time{}) {
    // From the GPU's end to the mark's the recording has no call of the host, and tracing may have lengthened it.
    for (Program* program : recordings_of(trace, client)) program->ops.front().host_gap += missing;
    return fmt::format(
        "The program waits for the GPU by no call, so what its host does after that is not recorded: {:.4g} ms are added to its work, and a request takes {:.4g} ms.",
        to_ms(missing), to_ms(alone(trace, client, gpu, 1)));
  }
  if (recorded > wanted) {
    share = share_within(trace, client, gpu, std::max(wanted, hidden), 0, 1);
  } else if (told.tool_away && trace.clients.size() == 1 && !graph && recorded > hidden && gaps > Time{}) {
    // What requests took without the tool is what they take: the host had a faster pace where kernels were
    // recorded.  Of several processes one may have waited for another's work on the GPU.
    share = share_within(trace, client, gpu, wanted, 1, std::max(1.0, to_ns(wanted) / to_ns(gaps)));
  } else {
    return fmt::format(
        "A request replays in {:.4g} ms{}, no longer than the {:.4g} ms that it takes without the profiler: "
        "host gaps are as "
        "recorded.",
        to_ms(recorded), row, to_ms(wanted));
  }
  if (gaps > Time{}) share = std::max(0.0, share - to_ns(told.calls) / to_ns(gaps));
  scale_all_host_gaps(trace, client, share);
  return fmt::format(
      "Host gaps are {:.3f} of the recorded ones: so a request takes {:.4g} ms instead of {:.4g}{}; without "
      "the profiler it "
      "takes {:.4g}{}.",
      share, to_ms(alone(trace, client, gpu, 1)), to_ms(recorded), row, to_ms(wanted - told.calls),
      gpu_alone > wanted ? ", less than its work on the GPU as recorded" : "");
}

/// What requests took without tracing, beside each other.
std::string paces(const WithoutProfiler& without) {
  constexpr double kOne = 1.25;
  const double low = to_ms(without.tenth), high = to_ms(without.nine_tenths);
  std::string text = fmt::format(
      "Of {} requests {} a tenth took less than {:.4g} ms and a tenth more than {:.4g}", without.requests,
      without.tool_away ? "without tracing" : "without records of kernels", low, high);
  if (high > kOne * low)
    text += ": their pace changed, and the trace has what half of them took; --request-time takes another";
  return text + ".";
}

/// The replay beside requests to which it was not fitted.
std::string judged(const Trace& trace, std::size_t client, Time kept_back) {
  const Time replayed = alone(trace, client, read_gpu(trace.gpu), 1);
  const double off = std::round(1000 * (to_ns(replayed) / to_ns(kept_back) - 1)) / 10;
  return fmt::format(
      "It replays in {:.4g} ms; every second request without tracing was kept back for that, and takes "
      "{:.4g} ms (median): {:+.1f} %.",
      to_ms(replayed), to_ms(kept_back), off + 0.0);  // no minus before zero
}

bool polls(const RecordedTimes& recorded, std::size_t client) { return client < recorded.polls.size() && recorded.polls[client]; }

/// The pause between steps is the profiler's too, and nothing tells what it is without.
void without_pause(Trace& trace, const RecordedTimes& recorded) {
  for (Client& client : trace.clients)
    if (auto* loop = std::get_if<ClosedLoop>(&client.arrivals); loop != nullptr && recorded.period > Time{}) loop->think_time = {};
}

}  // namespace

std::string fit_host(Trace& trace, Time wanted, const RecordedTimes& recorded) {
  const auto refuse = [](const char* problem, const char* remedy) { throw InputError("", "--request-time", problem, remedy); };
  if (trace.clients.size() != 1) refuse("goes with one program, and several were recorded", "choose one with --process");
  if (trace.gpu.empty()) refuse("needs a GPU that is known", "name it: --gpu, as sim gpus lists them");
  without_pause(trace, recorded);
  return fit(trace, 0, {wanted}, polls(recorded, 0));
}

bool fit_host_as_recorded(Trace& trace, const RecordedTimes& recorded) {
  bool told = false;
  if (std::ranges::any_of(recorded.without_profiler, [](const auto& one) { return one.has_value(); })) without_pause(trace, recorded);
  for (std::size_t client = 0; client < recorded.without_profiler.size(); ++client) {
    if (!recorded.without_profiler[client]) continue;
    told = true;
    const WithoutProfiler& without = *recorded.without_profiler[client];
    const std::string of = trace.clients.size() == 1 ? "" : trace.clients[client].name + ": ";
    const Time added = without.calls + without.nodes;
    trace.notes.push_back(fmt::format("{}The recording says that a request takes {:.4g} ms without the profiler ({}){}.", of, to_ms(without.request),
                                      recorded.told_by,
                                      added == Time{} ? "" : fmt::format("; {:.4g} ms of that are taken off, which the tool adds all the same", to_ms(added))));
    trace.notes.push_back(of + (trace.gpu.empty() ? "Host gaps are as recorded: they are fitted to that where the GPU is known (--gpu)."
                                                  : fit(trace, client, without, polls(recorded, client))));
    if (without.requests != 0) trace.notes.push_back(of + paces(without));
    if (without.kept_back && !trace.gpu.empty())
      trace.notes.push_back(of + judged(trace, client, *without.kept_back));
  }
  return told;
}

}  // namespace corun::sim
