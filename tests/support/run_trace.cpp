#include "tests/support/run_trace.h"

#include "policies/api/registry.h"
#include "policies/session/run.h"
#include "sim/backend/sim_backend.h"
#include "sim/forecast/forecast.h"
#include "sim/run/profile.h"

namespace corun::sim {

Ran run_trace(const Trace& trace, const Gpu& gpu, const std::string& policy_spec, Record what,
              EngineOptions options) {
  Ran ran(what == Record::blocks);
  Timeline timeline;
  timeline.attach(ran);
  const std::unique_ptr<Policy> policy = make_policy(policy_spec);
  SimBackend backend(trace, gpu, policy->requirements(), timeline, options);
  backend.offer(make_forecast(trace, gpu, policy->requirements()));
  const bool by_sm = policy->requirements().capabilities.has(Capability::sm_quota);
  const auto profile = [&](KernelId kernel) {
    return by_sm ? profile_by_sm(trace.kernels[kernel.value], gpu)
                 : profile_kernel(trace.kernels[kernel.value], gpu);
  };
  ran.outcome = play(trace, *policy, backend, timeline, profile, {options.audit, {}});
  ran.blocks_run = backend.blocks_run();
  ran.events = backend.events();
  ran.sm_ps = backend.sm_ps();
  ran.warp_ps = backend.warp_ps();
  return ran;
}

}  // namespace corun::sim
