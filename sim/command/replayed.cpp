#include "sim/command/replayed.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "sim/model/kernel_prior.h"
#include "sim/run/run.h"
#include "traces/import/join_parts.h"
#include "traces/import/median.h"
#include "traces/json/spelling.h"
#include "traces/json/trace_json.h"
#include "traces/model/error.h"
#include "traces/timeline/timeline.h"

namespace corun::sim {
namespace {

constexpr double kWarnFrom = 0.1;
constexpr std::size_t kCauses = 3;

/// Of the one request, by op.
class OneRequest final : public Sink {
 public:
  explicit OneRequest(std::size_t count) : ops(count) {}
  using Sink::record;
  void record(const RequestRecord& r) override {
    if (r.finished != kNever) began = std::min(began, r.arrival);
  }
  void record(const KernelRecord& r) override {
    ops[r.op.value] = {r.started, r.finished};
    kernels += r.finished - r.started;
    last = std::max(last, r.finished);
  }
  void record(const CopyRecord& r) override {
    ops[r.op.value] = {r.started, r.finished};
    last = std::max(last, r.finished);
  }

  std::vector<RecordedTimes::Interval> ops;
  Time began = kNever, last{}, kernels{};
};

class Ends final : public Sink {
 public:
  using Sink::record;
  void record(const RequestRecord& r) override {
    if (r.finished != kNever) all.push_back(r.finished), took.push_back(r.finished - r.arrival);
  }
  std::vector<Time> all, took;
};

/// The latency of requests that the client sends as it does; 0: too few ended.
struct Loop {
  Time period{};  // between their ends
  Time latency{};  // the median
};
Loop loop_of(Trace trace, const Gpu& gpu, RunOptions options, Time recorded) {
  constexpr std::size_t kRequests = 12;
  const std::size_t first = 4 + std::get<ClosedLoop>(trace.clients.front().arrivals).in_flight;  // then as many are in flight
  Ends ends;
  trace.run = {};
  trace.run.duration = recorded * static_cast<std::int64_t>(2 * (kRequests + first));
  options.sinks = {&ends};
  run(trace, gpu, options);
  if (ends.all.size() < first + 2) return {};
  ends.took.erase(ends.took.begin(), ends.took.begin() + static_cast<std::ptrdiff_t>(first));
  return {(ends.all.back() - ends.all[first]) / static_cast<std::int64_t>(ends.all.size() - 1 - first), lower_median(std::move(ends.took))};
}

std::string name_of(const Trace& trace, const Op& op) {
  if (const auto* launch = std::get_if<Launch>(&op.what)) return trace.kernels[launch->kernel.value].name;
  return std::holds_alternative<Copy>(op.what) ? "a copy" : "an operation";
}

struct Cause {
  Time idle{};  // more of it before these operations in the recording than in the replay
  Time busy{};  // and while they run
};

/// The time of the GPU, given to operations in the order of their starts: what lies before each, since the last end
/// of those before it, and what each adds to that end.
void give(const Trace& trace, const std::vector<RecordedTimes::Interval>& ops, int sign,
          std::map<std::string, Cause>& causes) {
  const std::vector<Op>& program = trace.programs.front().ops;
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < ops.size(); ++i)
    if (ops[i].end > ops[i].start) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return ops[a].start < ops[b].start; });
  Time end{};
  for (const std::size_t i : order) {
    Cause& cause = causes[name_of(trace, program[i])];
    cause.idle += sign * std::max(Time{}, ops[i].start - end);
    cause.busy += sign * std::max(Time{}, ops[i].end - std::max(end, ops[i].start));
    end = std::max(end, ops[i].end);
  }
}

std::string ms(Time time) { return fmt::format("{:.4g} ms", to_ms(time)); }

}  // namespace

std::string prior_note(const Trace& trace) {
  double bare = 0, known = 0;
  for (const Program& program : trace.programs)
    for (const Op& op : program.ops) {
      const auto* launch = std::get_if<Launch>(&op.what);
      if (launch == nullptr) continue;
      const Kernel& kernel = trace.kernels[launch->kernel.value];
      if (kernel.counters.warp_instructions || kernel.counters.issue_active_pct) continue;
      const double time = to_ns(launch->solo_time.value_or(kernel.solo_time.value_or(Time{})));
      bare += time;
      if (prior_for(kernel) != nullptr) known += time;
    }
  if (bare <= 0) return {};
  return fmt::format(
      "Of the time of kernels without counters {:.1f} % is of a known class: a simulation takes these to do "
      "what kernels of "
      "their class did in measured networks{}.",
      100 * known / bare, known < bare ? ", and guesses what the rest does from its shape" : "");
}

std::vector<std::string> replay_notes(const Trace& trace, const RecordedTimes& recorded) {
  if (trace.gpu.empty()) return {};
  const Gpu gpu = read_gpu(trace.gpu);
  Trace once = trace;
  once.clients.front().arrivals = Once{};
  once.clients.front().host_stalls.reset();
  once.run = {};
  OneRequest replay(trace.programs.front().ops.size());
  RunOptions options;
  options.policy = "fcfs";
  const std::uint32_t sms = recorded_sms(trace);
  if (sms != 0 && sms < gpu.sms) {
    options.policy = "tpc-mask";
    once.clients.front().tpc_mask = TpcMask::range(0, (sms + gpu.sms_per_tpc - 1) / gpu.sms_per_tpc);
  }
  options.alone = false;
  options.sinks = {&replay};
  Loop loop;
  try {
    run(once, gpu, options);
    if (recorded.period > Time{}) {
      once.clients.front().arrivals = trace.clients.front().arrivals;
      loop = loop_of(std::move(once), gpu, options, recorded.period);
    }
  } catch (const InputError& error) {
    return {fmt::format("It cannot be replayed on {}: {}.", gpu.name, error.problem())};
  }
  if (replay.began == kNever) return {"Its one request did not end when replayed."};
  for (auto& op : replay.ops)
    if (op.end > op.start) op.start -= replay.began, op.end -= replay.began;
  // With several in flight each waits for those before it, which one alone does not.
  const std::uint32_t in_flight = loop.period > Time{} ? std::get<ClosedLoop>(trace.clients.front().arrivals).in_flight : 1;
  const Time span = in_flight > 1 ? loop.latency : replay.last - replay.began;
  const double ratio = to_ns(span) / std::max(1.0, to_ns(recorded.span));
  std::vector<std::string> notes = {
      fmt::format("recorded {}, replayed {} ({:.2f}){}; kernels {}, replayed {} ({:.2f}).", ms(recorded.span), ms(span),
                  ratio, in_flight > 1 ? fmt::format(" with {} in flight", in_flight) : "", ms(recorded.kernels), ms(replay.kernels),
                  to_ns(replay.kernels) / std::max(1.0, to_ns(recorded.kernels)))};
  if (loop.period > Time{}) {
    const double slower = to_ns(loop.period) / to_ns(recorded.period);
    notes.front() += fmt::format(" A request every {}, replayed every {} ({:.2f}).", ms(recorded.period), ms(loop.period), slower);
    if (std::abs(slower - 1) > kWarnFrom)
      notes.push_back(fmt::format("warning: a loop of such requests takes {:.2f} times as long a request as recorded: what it does in a second is as far off.", slower));
  }
  if (std::abs(ratio - 1) <= kWarnFrom) return notes;
  if (in_flight > 1) {
    notes.push_back(fmt::format("warning: with {} in flight a request takes {:.2f} times as long as recorded.", in_flight, ratio));
    return notes;
  }

  std::map<std::string, Cause> causes;
  give(trace, recorded.ops, 1, causes);
  give(trace, replay.ops, -1, causes);
  struct Named {
    std::string text;
    Time more;  // in the recording
  };
  std::vector<Named> all;
  for (const auto& [name, cause] : causes) {
    all.push_back({fmt::format("the GPU idle before {}", in_quotes(name)), cause.idle});
    all.push_back({fmt::format("{} at work", in_quotes(name)), cause.busy});
  }
  const Time missing = recorded.span - span;
  std::erase_if(all, [&](const Named& n) { return (n.more > Time{}) != (missing > Time{}); });
  std::stable_sort(all.begin(), all.end(), [&](const Named& a, const Named& b) {
    return missing > Time{} ? a.more > b.more : a.more < b.more;
  });
  std::string text = fmt::format("warning: the replay is {} {} than the recording; most of it: ", ms(missing < Time{} ? -missing : missing),
                                 missing > Time{} ? "shorter" : "longer");
  Time named{};
  std::size_t shown = 0;
  for (; shown < all.size() && (shown < kCauses || std::abs(to_ns(named)) < 0.9 * std::abs(to_ns(missing))) && shown < 12; ++shown) {
    text += fmt::format("{}{} {}", shown == 0 ? "" : ", ", ms(all[shown].more < Time{} ? -all[shown].more : all[shown].more),
                        all[shown].text);
    named += all[shown].more;
  }
  text += fmt::format(" ({:.0f} % of it).", 100 * to_ns(named) / to_ns(missing));
  notes.push_back(std::move(text));
  return notes;
}

}  // namespace corun::sim
