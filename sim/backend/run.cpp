#include "sim/backend/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "policies/api/registry.h"
#include "policies/session/session.h"
#include "sim/backend/profile.h"
#include "sim/backend/sim_backend.h"
#include "traces/model/error.h"

namespace corun::sim {
namespace {

class Requests final : public Sink {
 public:
  using Sink::record;
  void record(const RequestRecord& r) override { all.push_back(r); }
  std::vector<RequestRecord> all;
};

struct OneRun {
  std::vector<RequestRecord> requests;
  Time end{};
  std::uint64_t blocks = 0, events = 0;
  double sm_ps = 0, warp_ps = 0;
};

OneRun run_once(const Trace& trace, const Gpu& gpu, Shapes& shapes, const std::string& policy_spec,
                EngineOptions engine, std::span<Sink* const> sinks,
                const std::function<void(Time)>& progress) {
  Timeline timeline;
  Requests requests;
  timeline.attach(requests);
  for (Sink* sink : sinks) timeline.attach(*sink);
  const std::unique_ptr<Policy> policy = make_policy(policy_spec);
  SimBackend backend(trace, gpu, policy->requirements(), timeline, engine, &shapes);
  Session session(trace, *policy, backend, timeline,
                  [&](KernelId kernel) { return profile_kernel(trace.kernels[kernel.value], gpu); });
  const SessionOutcome outcome = session.run(progress);
  backend.close();
  timeline.flush();
  if (!outcome.stuck.empty())
    throw InputError(trace.name, "",
                     fmt::format("the run cannot go on under {}: {}", policy_spec, outcome.stuck),
                     "a reservation or mask may leave a client without SMs; check the trace and the policy");
  return {std::move(requests.all),
          outcome.end,
          backend.blocks_run(),
          backend.events(),
          static_cast<double>(backend.sm_ps()),
          static_cast<double>(backend.warp_ps())};
}

/// What a reader must know before believing how much the clients slow each other.
std::string contention_warning(const Trace& trace) {
  if (trace.clients.size() < 2) return {};
  const auto bare = std::count_if(trace.kernels.begin(), trace.kernels.end(), [](const Kernel& k) {
    return !k.counters.issue_active_pct && !k.counters.warp_instructions;
  });
  if (bare == 0) return {};
  return fmt::format(
      "{} of {} kernels have no counters: they are taken to fill the issue slots by their warps and not to "
      "use the "
      "memory, so how much clients slow each other may be far off",
      bare, trace.kernels.size());
}

}  // namespace

RunResult run(const Trace& trace, const Gpu& gpu, const RunOptions& options) {
  const auto began = std::chrono::steady_clock::now();
  const std::string* stage = nullptr;
  const std::string together_stage = options.policy;
  const auto tell = [&](Time now) {
    if (options.progress && trace.run.duration)
      options.progress(stage->c_str(), to_seconds(now) / to_seconds(*trace.run.duration));
  };
  stage = &together_stage;
  Shapes shapes(gpu);
  const OneRun together = run_once(trace, gpu, shapes, options.policy, options.engine, options.sinks, tell);
  const Window window = window_of(trace, together.requests);

  std::vector<std::vector<RequestRecord>> alone;
  for (const Client& client : trace.clients) {
    Trace one = trace;
    one.clients = {client};
    if (!window.fixed_work) one.run.duration = window.end;
    const std::string alone_stage = client.name + " alone";
    stage = &alone_stage;
    alone.push_back(
        run_once(one, gpu, shapes, "fcfs", {options.engine.shortcuts, options.engine.audit}, {}, tell)
            .requests);
  }

  RunResult result = measure(trace, window, together.requests, alone);
  result.gpu = gpu.name;
  result.policy = options.policy;
  result.alone = "each client simulated alone on the same GPU under fcfs, with the same arrivals and seed";
  const double span = static_cast<double>(together.end.count()) * gpu.sms;
  if (span > 0) {
    result.sm_busy = together.sm_ps / span;
    result.occupancy = together.warp_ps / span / gpu.sm.max_warps;
  }
  if (const std::string warning = contention_warning(trace); !warning.empty())
    result.notes.insert(result.notes.begin(), warning);
  result.blocks = together.blocks;
  result.events = together.events;
  result.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  return result;
}

}  // namespace corun::sim
