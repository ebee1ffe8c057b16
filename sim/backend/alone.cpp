#include "sim/backend/alone.h"

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
constexpr std::uint64_t kSeldom = 1 << 14;

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
  }
  bool repeats() const { return !before_.empty() && std::ranges::equal(before_, last_, same); }
  const Course& course() const { return last_; }

 private:
  Course before_, last_, now_;
};

/// Whether nothing of a request reaches into the next one: it is known to have ended when the next one's first
/// launch is called, which then has to travel to the GPU.
bool stands_alone(const Trace& trace, const Gpu& gpu) {
  const Client& client = trace.clients.front();
  const Program& program = trace.programs[client.program.value];
  const auto* loop = std::get_if<ClosedLoop>(&client.arrivals);
  if (client.serving || client.memory_bytes != 0 || program.streams.size() != 1) return false;
  if (loop != nullptr && loop->in_flight != 1) return false;
  for (const Op& op : program.ops)
    if (!std::holds_alternative<Launch>(op.what) && !std::holds_alternative<Sync>(op.what)) return false;
  const Time between = gpu.completion_notice + std::min(gpu.launch_latency, gpu.graph_launch_latency);
  const Time dispatcher_ahead = gpu.dispatch_interval * (std::int64_t{gpu.sms} * gpu.sm.max_blocks);
  return std::max({gpu.stream_gap, gpu.graph_gap, dispatcher_ahead}) <= between;
}

/// What kernels draw between two looks of the governor, at most.
class PowerBound {
 public:
  explicit PowerBound(const Power& power) : power_(power) {}
  void add(const KernelRecord& r, double energy) {
    if (power_.limit_w <= 0) return;
    const auto last = static_cast<std::size_t>(r.finished / power_.interval);
    if (last >= drawn_.size()) drawn_.resize(last + 1);
    for (auto i = static_cast<std::size_t>(r.started / power_.interval); i <= last; ++i) drawn_[i] += energy;
  }
  bool keeps_the_limit() const {
    const double most = (power_.limit_w - power_.idle_w) * static_cast<double>(power_.interval.count());
    return std::ranges::all_of(drawn_, [&](double energy) { return energy <= most * (1 - kRounding); });
  }

 private:
  const Power& power_;
  std::vector<double> drawn_;  // pJ, by interval
};

/// A client whose operations go as they did before.
class Repeated {
 public:
  Repeated(const Trace& trace, const Gpu& gpu, const Course& course, Timeline& timeline)
      : trace_(trace), gpu_(gpu), timeline_(timeline), workload_(trace, gpu, timeline), power_(gpu.power) {
    of_op_.resize(trace.programs[trace.clients.front().program.value].ops.size());
    for (const KernelRecord& r : course) of_op_[r.op.value].record = r;
  }
  void learn_energies(Shapes& shapes) {
    for (Step& step : of_op_) {
      const KernelRecord& r = step.record;
      if (r.blocks == 0) continue;  // no launch
      const Shape shape = shapes.of(trace_.kernels[r.kernel.value], r.solo, gpu_.sms);
      step.energy = shape.load.energy * static_cast<double>(r.blocks);
    }
  }

  /// In the order of `Session::run`.  False: not all went as before.
  bool play(const std::function<void(Time)>& progress) {
    const Time end = trace_.run.duration.value_or(kNever);
    std::vector<RequestArrived> arrived;
    std::vector<HostCall> calls;
    Time now{};
    for (std::uint64_t instants = 0;; ++instants) {
      arrived.clear();
      calls.clear();
      workload_.advance(now, arrived, calls);
      for (const HostCall& call : calls)
        if (call.kind == HostCall::Kind::operation && !launch(call, now)) return false;
      if (trace_.run.duration ? now >= end : workload_.every_client_finished_once()) break;
      Time next = std::min(workload_.next_event(), end);
      if (!under_way_.empty()) next = std::min(next, known(under_way_.front()));
      if (next == kNever) break;
      now = std::max(now, next);
      for (; !under_way_.empty() && known(under_way_.front()) == now; under_way_.pop_front()) {
        const KernelRecord& r = under_way_.front();
        timeline_.record(r);
        workload_.finished(r.client, r.request, now, r.solo);
      }
      if (instants % kSeldom == kSeldom - 1 && progress) progress(now);
    }
    workload_.close();
    timeline_.flush();
    return power_.keeps_the_limit();
  }

 private:
  struct Step {
    KernelRecord record;  // counted from the request's first call
    double energy = 0;    // pJ
  };
  Time known(const KernelRecord& r) const { return r.finished + gpu_.completion_notice; }

  bool launch(const HostCall& call, Time now) {
    if (under_way_.empty() && call.request != request_) {
      request_ = call.request;
      first_call_ = now;
    }
    const Step& step = of_op_[call.op.value];
    if (call.request != request_ || step.record.blocks == 0) return false;
    if (first_call_ + step.record.ready != now) return false;
    KernelRecord r = shifted(step.record, first_call_);
    r.request = call.request;
    power_.add(r, step.energy);
    const auto place = std::ranges::upper_bound(under_way_, r.finished, {}, &KernelRecord::finished);
    under_way_.insert(place, r);
    return true;
  }

  const Trace& trace_;
  const Gpu& gpu_;
  Timeline& timeline_;
  Workload workload_;
  PowerBound power_;
  std::vector<Step> of_op_;
  std::deque<KernelRecord> under_way_;  // in the order of their ends
  std::uint64_t request_ = ~std::uint64_t{0};
  Time first_call_{};
};

}  // namespace

std::optional<std::vector<RequestRecord>> repeat_alone(const Trace& trace, const Gpu& gpu,
                                                       const std::shared_ptr<Shapes>& shapes,
                                                       const std::function<void(Time)>& progress) {
  if (!stands_alone(trace, gpu)) return std::nullopt;
  Learner learner;
  {
    Timeline timeline;
    PartsMeter requests(trace, false);
    timeline.attach(requests);
    timeline.attach(learner);
    const std::unique_ptr<Policy> fcfs = make_policy("fcfs");
    SimBackend backend(trace, gpu, fcfs->requirements(), timeline, {}, shapes.get());
    const SessionOutcome outcome =
        play(trace, *fcfs, backend, timeline, {}, {false, progress, [&] { return learner.repeats(); }});
    if (!outcome.stuck.empty()) return std::nullopt;
    if (!outcome.stopped) return requests.requests();  // it is over already
  }
  Timeline timeline;
  PartsMeter requests(trace, false);
  timeline.attach(requests);
  Repeated repeated(trace, gpu, learner.course(), timeline);
  repeated.learn_energies(*shapes);
  if (!repeated.play(progress)) return std::nullopt;
  return requests.requests();
}

}  // namespace corun::sim
