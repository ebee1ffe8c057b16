#include "sim/run/alone.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "policies/api/registry.h"
#include "policies/session/run.h"
#include "policies/session/workload.h"
#include "sim/backend/sim_backend.h"
#include "traces/timeline/latency_parts.h"

namespace corun::sim {
namespace {

/// Of the power limit: what sums of doubles in another order may differ by, and more.
constexpr double kRounding = 1e-6;
/// Instants between two calls of `progress`.
constexpr std::uint64_t kSeldom = 1 << 8;

using Course = std::vector<KernelRecord>;  // of a request, in the order of their ends

KernelRecord shifted(KernelRecord r, Time by) {
  for (Time* t : {&r.ready, &r.submitted, &r.queued, &r.slotted, &r.started, &r.last_block, &r.finished}) *t += by;
  return r;
}

bool same(const KernelRecord& a, const KernelRecord& b) {
  return a.op == b.op && a.ready == b.ready && a.submitted == b.submitted && a.queued == b.queued &&
         a.slotted == b.slotted && a.started == b.started && a.last_block == b.last_block &&
         a.finished == b.finished;
}

/// The courses of the last two requests, counted from their first call.
class Learner final : public Sink {
 public:
  using Sink::record;
  void record(const KernelRecord& r) override { now_.push_back(r); }
  void record(const RequestRecord& r) override {
    if (r.dropped || r.finished == kNever || now_.empty()) return;
    const Time first = std::ranges::min(now_, {}, &KernelRecord::ready).ready;
    for (KernelRecord& kernel : now_) kernel = shifted(kernel, -first);
    before_ = std::exchange(last_, std::exchange(now_, {}));
    called_ = first - r.started;
  }
  bool repeats() const { return !before_.empty() && std::ranges::equal(before_, last_, same); }
  const Course& course() const { return last_; }
  /// From the beginning of a request until its first call.
  Time called() const { return called_; }

 private:
  Course before_, last_, now_;
  Time called_{};
};

/// Whether nothing of a request reaches into the next one: it is known to have ended when the next one's first
/// launch is called, which then has to travel to the GPU.
bool stands_alone(const Trace& trace, const Gpu& gpu) {
  const Client& client = trace.clients.front();
  const Program& program = trace.programs[client.program.value];
  const auto* loop = std::get_if<ClosedLoop>(&client.arrivals);
  if (client.host_stalls && !client.host_stalls->stalls.empty()) return false;
  if (client.serving || client.memory_bytes != 0 || program.streams.size() != 1) return false;
  if (loop != nullptr && loop->in_flight != 1) return false;
  for (const Op& op : program.ops)
    if (!std::holds_alternative<Launch>(op.what) && !std::holds_alternative<Sync>(op.what)) return false;
  const Time between = gpu.completion_notice + std::min(gpu.launch_latency, gpu.graph_launch_latency);
  const Time dispatcher_ahead = gpu.dispatch_interval * (std::int64_t{gpu.sms} * gpu.sm.max_blocks);
  return std::max({gpu.stream_gap, gpu.graph_gap, dispatcher_ahead}) <= between;
}

/// Of a request that repeats, counted from its beginning: when its kernels end, and the energy that they
/// take.
class Repetition {
 public:
  /// `whole`: the last request that was simulated, with its parts.
  Repetition(const Course& course, Time called, const RequestRecord& whole, const Trace& trace,
             const Gpu& gpu, Shapes& shapes)
      : whole_(whole), power_(gpu.power) {
    double energy = 0;
    Time work{};
    for (const KernelRecord& r : course) {
      const Shape shape = shapes.of(trace.kernels[r.kernel.value], r.solo, gpu.sms);
      energy += shape.load.sm.energy_pj * static_cast<double>(r.blocks);
      work += r.solo;
      kernels_.push_back({called + r.started, called + r.finished,
                          called + r.finished + gpu.completion_notice, work, energy});
    }
  }
  Time length() const { return whole_.finished - whole_.started; }
  /// Of a request that ended: the parts of its latency.
  LatencyParts parts(const RequestRecord& r) const {
    LatencyParts parts = whole_.parts;
    parts.queue = r.started - r.arrival;
    return parts;
  }
  /// Solo time of the kernels that are known to have ended so long after the beginning.
  Time work_done(Time after) const {
    const auto known = std::ranges::upper_bound(kernels_, after, {}, &Step::known);
    return known == kernels_.begin() ? Time{} : std::prev(known)->work;
  }
  Time work() const { return kernels_.back().work; }

  /// It is done once more, from then on.
  void draw(Time began) {
    if (power_.limit_w <= 0) return;
    const auto first = static_cast<std::size_t>((began + kernels_.front().started) / power_.interval);
    const auto last = static_cast<std::size_t>((began + kernels_.back().finished) / power_.interval);
    if (last >= drawn_.size()) drawn_.resize(last + 1);
    for (std::size_t i = first; i <= last; ++i) {  // all of each kernel that runs in the interval
      const Time from = power_.interval * static_cast<std::int64_t>(i) - began;
      const auto begun = std::ranges::lower_bound(kernels_, from + power_.interval, {}, &Step::started);
      const auto over = std::ranges::lower_bound(kernels_, from, {}, &Step::finished);
      drawn_[i] += energy_before(begun) - energy_before(over);
    }
  }
  /// What kernels have drawn between two looks of the governor, at most.
  bool keeps_the_limit() const {
    const double most = (power_.limit_w - power_.idle_w) * static_cast<double>(power_.interval.count());
    return std::ranges::all_of(drawn_, [&](double energy) { return energy <= most * (1 - kRounding); });
  }

 private:
  struct Step {
    Time started, finished, known;
    Time work;      // solo time and
    double energy;  // pJ, of it and those before
  };
  double energy_before(std::vector<Step>::const_iterator step) const {
    return step == kernels_.begin() ? 0 : std::prev(step)->energy;
  }

  RequestRecord whole_;
  const Power& power_;
  std::vector<Step> kernels_;  // in the order of their ends, which is that of their starts
  std::vector<double> drawn_;  // pJ, by interval
};

/// The client, whose requests are one operation each.
Trace by_requests(const Trace& trace) {
  const std::vector<Op>& ops = trace.programs[trace.clients.front().program.value].ops;
  Trace whole;
  whole.clients = trace.clients;
  whole.run = trace.run;
  whole.clients.front().program = ProgramId{0};
  whole.clients.front().issue = Issue::eager;
  Program& program = whole.programs.emplace_back();
  program.streams.resize(1);
  program.ops.emplace_back().what = Launch{};
  if (std::holds_alternative<Sync>(ops.back().what))
    program.ops.emplace_back().what = Sync{};  // the host ends it
  return whole;
}

class Requests final : public Sink {
 public:
  using Sink::record;
  void record(const RequestRecord& r) override { all.push_back(r); }
  std::vector<RequestRecord> all;
};

/// In the order of `Session::run`.
std::vector<RequestRecord> play_requests(const Trace& trace, const Gpu& gpu, Repetition& repetition,
                                         const std::function<void(Time)>& progress) {
  const Trace whole = by_requests(trace);
  Timeline timeline;
  Requests requests;
  timeline.attach(requests);
  Workload workload(whole, gpu, timeline);
  const Time end = trace.run.duration.value_or(kNever);
  std::vector<RequestArrived> arrived;
  std::vector<HostCall> calls;
  Time now{}, over = kNever;  // the request under way is
  std::uint64_t request = 0;
  for (std::uint64_t instants = 0;; ++instants) {
    arrived.clear();
    calls.clear();
    workload.advance(now, arrived, calls);
    for (const HostCall& call : calls)
      if (call.kind == HostCall::Kind::operation) {
        repetition.draw(now);
        over = now + repetition.length();
        request = call.request;
      }
    if (trace.run.duration ? now >= end : workload.every_client_finished_once()) break;
    const Time next = std::min({workload.next_event(), over, end});
    if (next == kNever) break;
    now = std::max(now, next);
    if (over == now) {
      over = kNever;
      workload.finished(ClientId{0}, request, now, repetition.work());
    }
    if (instants % kSeldom == kSeldom - 1 && progress) progress(now);
  }
  workload.close();
  for (RequestRecord& r : requests.all) {
    if (r.dropped) continue;
    if (r.finished != kNever)
      r.parts = repetition.parts(r);
    else if (r.started != kNever)
      r.work_done = repetition.work_done(now - r.started);
  }
  return std::move(requests.all);
}

}  // namespace

std::optional<std::vector<RequestRecord>> repeat_alone(const Trace& trace, const Gpu& gpu, Shapes& shapes,
                                                       const std::function<void(Time)>& progress) {
  if (!stands_alone(trace, gpu)) return std::nullopt;
  Learner learner;
  Timeline timeline;
  PartsMeter meter(trace, false);
  timeline.attach(meter);
  timeline.attach(learner);
  const std::unique_ptr<Policy> fcfs = make_policy("fcfs");
  SimBackend backend(trace, gpu, fcfs->requirements(), timeline, {.contention = shapes.contention()},
                     &shapes);
  const SessionOutcome outcome =
      play(trace, *fcfs, backend, timeline, {}, {false, progress, [&] { return learner.repeats(); }});
  if (!outcome.stuck.empty()) return std::nullopt;
  std::vector<RequestRecord> simulated = meter.requests();
  if (!outcome.stopped) return simulated;  // it is over already
  const auto whole = std::ranges::find_if(simulated.rbegin(), simulated.rend(), [](const RequestRecord& r) {
    return !r.dropped && r.finished != kNever;
  });
  Repetition repetition(learner.course(), learner.called(), *whole, trace, gpu, shapes);
  std::vector<RequestRecord> requests = play_requests(trace, gpu, repetition, progress);
  if (!repetition.keeps_the_limit()) return std::nullopt;
  return requests;
}

}  // namespace corun::sim
