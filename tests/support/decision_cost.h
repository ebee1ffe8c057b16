// What a policy's decisions cost the host: every call of decide() in a simulated run of many clients, timed.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "policies/api/registry.h"
#include "policies/session/session.h"
#include "sim/backend/sim_backend.h"
#include "sim/forecast/forecast.h"
#include "sim/run/profile.h"
#include "traces/json/trace_json.h"

namespace corun::sim {

class TimedPolicy final : public Policy {
 public:
  explicit TimedPolicy(Policy& policy) : policy_(policy) {}
  std::string_view name() const override { return policy_.name(); }
  Requirements requirements() const override { return policy_.requirements(); }
  void look_ahead(Forecast& forecast) override { policy_.look_ahead(forecast); }
  void start(const Topology& topology, std::span<const ClientView> clients) override {
    policy_.start(topology, clients);
  }
  void decide(const Snapshot& now, std::vector<Decision>& decisions) override {
    const auto began = std::chrono::steady_clock::now();
    policy_.decide(now, decisions);
    const auto ended = std::chrono::steady_clock::now();
    us.push_back(std::chrono::duration<double, std::micro>(ended - began).count());
  }
  std::vector<double> us;  // of each call

 private:
  Policy& policy_;
};

/// Clients in closed loops, half of them real-time, each with a kernel of its own shape that the GPU could
/// give many numbers of CTAs; at every instant as many launches as clients are pending or running.
inline Trace crowd(std::uint32_t clients) {
  Trace trace;
  trace.name = "crowd";
  for (std::uint32_t i = 0; i < clients; ++i) {
    Kernel k;
    k.name = "kernel" + std::to_string(i);
    k.grid = {400 + 50 * i, 1, 1};
    k.block = {64 * (1 + i % 8), 1, 1};
    k.registers_per_thread = 32;
    k.block_times = {from_ns(20000 + 1000 * i)};
    k.solo_time = from_ns(20000 + 1000 * i);
    k.counters.issue_active_pct = 0.0;  // no contention: only the policy is timed
    k.idempotent = true;
    trace.kernels.push_back(k);
    Program program;
    program.name = k.name;
    program.streams.push_back({"main"});
    Op op;
    op.what = Launch{KernelId{i}, {}, {}};
    program.ops.push_back(op);
    trace.programs.push_back(program);
    Client c;
    c.name = c.process = k.name;
    c.program = ProgramId{i};
    c.service_class = i % 2 == 0 ? ServiceClass::real_time : ServiceClass::best_effort;
    c.priority = i % 2 == 0 ? -1 : 0;
    c.streams.resize(1);
    c.arrivals = ClosedLoop{};
    trace.clients.push_back(c);
  }
  trace.run.duration = from_ns(4e6);
  return trace;
}

/// us of each call of decide() in a run of `crowd`.  The same run up to `repeats` times, which takes the same
/// decisions: of each call the shortest time, so that what else the machine did is left out.  Since a further run
/// only makes these shorter, a test of a bound says when they are short `enough`.
inline std::vector<double> decision_costs(const std::string& spec, std::uint32_t clients, int repeats,
                                          const std::function<bool(const std::vector<double>&)>& enough = {}) {
  static const Gpu gpu = read_gpu("h200");
  static Shapes shapes(gpu);
  const Trace trace = crowd(clients);
  static std::vector<Profile> profiles;
  profiles.resize(std::max<std::size_t>(profiles.size(), clients));
  std::vector<double> least;
  for (int i = 0; i < repeats && !(!least.empty() && enough && enough(least)); ++i) {
    Timeline nobody;
    const std::unique_ptr<Policy> policy = make_policy(spec);
    TimedPolicy timed(*policy);
    SimBackend backend(trace, gpu, policy->requirements(), nobody, {}, &shapes);
    backend.offer(make_forecast(trace, gpu, policy->requirements(), &shapes));
    Session session(trace, timed, backend, nobody, [&](KernelId k) {
      if (profiles[k.value].empty()) profiles[k.value] = profile_kernel(trace.kernels[k.value], gpu);
      return profiles[k.value];
    });
    session.run();
    backend.close();
    if (least.empty()) least = timed.us;
    for (std::size_t c = 0; c < std::min(least.size(), timed.us.size()); ++c)
      least[c] = std::min(least[c], timed.us[c]);
  }
  return least;
}

}  // namespace corun::sim
