// The backend as policies use it: a real-time client that stops a best-effort one with a long queue.
#include <fmt/format.h>

#include "hw/backend/cuda_backend.h"
#include "hw/measure/jobs.h"
#include "policies/session/session.h"
#include "traces/json/trace_json.h"
#include "traces/model/error.h"

namespace corun::hw {
namespace {

/// Whenever the first client has launches, all others are off the GPU.
class StopAndGo final : public Policy {
 public:
  std::string_view name() const override { return "stop-and-go"; }
  Requirements requirements() const override {
    return {{Capability::order, Capability::priority, Capability::preempt_at_block}, Contexts::one, false};
  }
  void decide(const Snapshot& now, std::vector<Decision>& decisions) override {
    const auto first = [&](LaunchId id) { return now.launch(id).client.value == 0; };
    const bool urgent = std::any_of(now.pending.begin(), now.pending.end(), first) ||
                        std::any_of(now.running.begin(), now.running.end(), first);
    if (urgent)
      for (LaunchId id : now.running)
        if (const LaunchView& l = now.launch(id);
            !first(id) && l.kernel != nullptr && l.state != LaunchState::stopping) {
          const bool head = std::none_of(now.running.begin(), now.running.end(), [&](LaunchId other) {
            const LaunchView& o = now.launch(other);
            return o.client == l.client && o.stream == l.stream && o.state != LaunchState::stopping &&
                   other.serial < id.serial;
          });
          if (head) decisions.push_back(decide::Preempt{id, decide::Stop::at_block});
        }
    for (LaunchId id : now.pending)
      if (first(id) || !urgent) decisions.push_back(decide::Launch{id, first(id) ? -5 : 0, {}, 0});
  }
};

class Waits final : public Sink {
 public:
  using Sink::record;
  void record(const KernelRecord& r) override {
    if (r.client.value == 0 && r.finished != kNever) from_call.push_back(to_ns(r.finished - r.ready) / 1000);
  }
  std::vector<double> from_call;
};

Kernel kernel_of(const std::string& name, double solo_us) {
  const LibraryKernel& k = *find_kernel(name);
  Kernel kernel;
  kernel.name = name, kernel.grid = k.grid, kernel.block = k.block;
  kernel.solo_time = from_ns(solo_us * 1000);
  return kernel;
}

}  // namespace

Json measure_backend(Bench& bench) {
  Json rows = Json::array();
  const Gpu gpu = read_gpu("h200");
  for (const std::uint32_t queue : {1u, 10u, 100u, 300u})
    for (const bool preempts : {true, false}) {
      Trace trace;
      trace.name = "stop and go", trace.gpu = "h200";
      trace.kernels = {kernel_of("copy_small", 18), kernel_of("spin10", 400)};
      Program urgent{"urgent", Issue::eager, {{"main"}}, {}},
          long_queue{"queue", Issue::eager, {{"main"}}, {}};
      urgent.ops.push_back(Op{corun::Launch{KernelId{0}, {}, {}}, StreamId{0}, Time{}, {}, {}});
      for (std::uint32_t i = 0; i < queue; ++i)
        long_queue.ops.push_back(Op{corun::Launch{KernelId{1}, {}, {}}, StreamId{0}, Time{}, {}, {}});
      trace.programs = {urgent, long_queue};
      Client a, b;
      a.name = a.process = "urgent", a.program = ProgramId{0}, a.streams.resize(1),
      a.arrivals = Poisson{500, 1}, a.priority = -5;
      b.name = b.process = "queue", b.program = ProgramId{1}, b.streams.resize(1);
      trace.clients = {a, b};
      trace.run.duration = from_ns(6e8);
      StopAndGo policy;
      Timeline timeline;
      Waits waits;
      timeline.attach(waits);
      const Requirements needed =
          preempts ? policy.requirements()
                   : Requirements{{Capability::order, Capability::priority}, Contexts::one, false};
      CudaBackend backend(trace, gpu, needed, timeline, bench.work, {});
      class Plainly final : public Policy {
       public:
        std::string_view name() const override { return "plainly"; }
        Requirements requirements() const override {
          return {{Capability::order, Capability::priority}, Contexts::one, false};
        }
        void decide(const Snapshot& now, std::vector<Decision>& decisions) override {
          for (LaunchId id : now.pending)
            decisions.push_back(decide::Launch{id, now.launch(id).client.value == 0 ? -5 : 0, {}, 0});
        }
      } plainly;
      Session session(trace, preempts ? static_cast<Policy&>(policy) : plainly, backend, timeline, {});
      backend.start();
      const SessionOutcome outcome = session.run();
      backend.close();
      const std::vector<std::string> wrong = backend.verify();
      fmt::print(
          "queue of {:>3}, {}: request to its end p50 {:.1f} p99 {:.1f} us, {} requests; {} decisions, {} "
          "refused; {} results verified, {} wrong {}\n",
          queue, preempts ? "stopped     " : "priorities  ", median(waits.from_call),
          quantile(waits.from_call, 0.99), waits.from_call.size(), outcome.decisions, outcome.refusals,
          backend.kernels_verified(), wrong.size(), wrong.empty() ? "" : wrong.front());
      rows.push_back({{"queue", queue},
                      {"policy", preempts ? "stop-and-go" : "priorities"},
                      {"call_to_end_us", summary(waits.from_call)},
                      {"decisions", outcome.decisions},
                      {"refused", outcome.refusals},
                      {"verified", backend.kernels_verified()},
                      {"wrong", wrong}});
    }
  return rows;
}

}  // namespace corun::hw
