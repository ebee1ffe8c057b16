// The backend as policies use it: a real-time client that stops a best-effort one with a long queue.
#include <fmt/format.h>

#include "hw/backend/cuda_backend.h"
#include "hw/measure/jobs.h"
#include "policies/api/registry.h"
#include "policies/session/session.h"
#include "traces/json/trace_json.h"
#include "traces/model/error.h"

namespace corun::hw {
namespace {

/// Whenever the first client has launches, all others are off the GPU.  Of the others, a few launches of each
/// are handed over at a time: the rest waits here, and costs nothing when they come off.
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
    constexpr std::size_t kDepth = 3;
    std::size_t ahead = static_cast<std::size_t>(
        std::count_if(now.running.begin(), now.running.end(), [&](LaunchId id) { return !first(id); }));
    for (LaunchId id : now.pending)
      if (first(id))
        decisions.push_back(decide::Launch{id, -5, {}, 0});
      else if (!urgent && ahead < kDepth)
        ++ahead, decisions.push_back(decide::Launch{id, 0, {}, 0});
  }
};

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
};

class Waits final : public Sink {
 public:
  using Sink::record;
  void record(const KernelRecord& r) override {
    if (r.client.value != 0 || r.finished == kNever) return;
    from_call.push_back(to_ns(r.finished - r.ready) / 1000);
    ended = r.finished;
  }
  void record(const RequestRecord& r) override {
    if (r.client.value == 0 && r.finished != kNever) from_arrival.push_back(to_ns(ended - r.arrival) / 1000);
  }
  std::vector<double> from_call, from_arrival;
  Time ended{};
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
  for (const std::uint32_t queue : {1u, 3u, 10u, 30u, 100u, 300u})
    for (const std::string name : {"stop-and-go", "reef-n", "wait", "plainly"}) {
      Trace trace;
      trace.name = "stop and go", trace.gpu = "h200";
      trace.kernels = {kernel_of("tick", 3), kernel_of("wait10", 414)};
      Program urgent{"urgent", Issue::eager, {{"main"}}, {}, {}},
          long_queue{"queue", Issue::eager, {{"main"}}, {}, {}};
      urgent.ops.push_back(Op{corun::Launch{KernelId{0}, {}, {}}, StreamId{0}, Time{}, {}, {}, {}});
      for (std::uint32_t i = 0; i < queue; ++i)
        long_queue.ops.push_back(Op{corun::Launch{KernelId{1}, {}, {}}, StreamId{0}, Time{}, {}, {}, {}});
      trace.programs = {urgent, long_queue};
      Client a, b;
      a.name = a.process = "urgent", a.program = ProgramId{0}, a.streams.resize(1),
      a.arrivals = Poisson{500, 1}, a.priority = -5, a.service_class = ServiceClass::real_time;
      b.name = b.process = "queue", b.program = ProgramId{1}, b.streams.resize(1);
      trace.clients = {a, b};
      trace.run.duration = from_ns((name == "stop-and-go" ? 2.4e9 : 6e8) * bench.scale);
      const std::unique_ptr<Policy> policy = name == "stop-and-go" ? std::make_unique<StopAndGo>()
                                             : name == "plainly"   ? std::unique_ptr<Policy>(new Plainly)
                                                                   : make_policy(name);
      Timeline timeline;
      Waits waits;
      timeline.attach(waits);
      CudaBackend backend(trace, gpu, policy->requirements(), timeline, bench.work, {});
      Session session(trace, *policy, backend, timeline, {});
      backend.start();
      const SessionOutcome outcome = session.run();
      backend.close();
      const std::vector<std::string> wrong = backend.verify();
      fmt::print(
          "queue of {:>3}, {:<12}: arrival to end p50 {:.1f} p99 {:.1f} us, call to end {:.1f} {:.1f}, {} "
          "requests; {} decisions, {} "
          "refused; {} results verified, {} wrong {}\n",
          queue, name, median(waits.from_arrival), quantile(waits.from_arrival, 0.99),
          median(waits.from_call), quantile(waits.from_call, 0.99), waits.from_call.size(), outcome.decisions,
          outcome.refusals, backend.kernels_verified(), wrong.size(), wrong.empty() ? "" : wrong.front());
      rows.push_back({{"queue", queue},
                      {"policy", name},
                      {"arrival_to_end_us", summary(waits.from_arrival)},
                      {"call_to_end_us", summary(waits.from_call)},
                      {"decisions", outcome.decisions},
                      {"refused", outcome.refusals},
                      {"verified", backend.kernels_verified()},
                      {"wrong", wrong}});
    }
  return rows;
}

}  // namespace corun::hw
