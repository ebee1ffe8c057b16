// A small GPU's device memory, and a run with every move of it kept.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "policies/api/registry.h"
#include "sim/backend/sim_backend.h"
#include "sim/run/profile.h"
#include "tests/support/run_trace.h"

namespace corun::sim {

inline Gpu gpu_with(std::uint64_t bytes) {
  Gpu gpu = small_gpu(4);
  gpu.memory_bytes = bytes;
  return gpu;
}

/// The simulated GPU, with every move of memory kept.
struct Watched : Backend {
  explicit Watched(SimBackend& watched) : backend(watched) {}
  const Topology& topology() const override { return backend.topology(); }
  Time now() const override { return backend.now(); }
  void wait(Time until, std::vector<Notice>& notices) override { backend.wait(until, notices); }
  Outcome apply(const Decision& d, const LaunchView& l, std::span<const LaunchId> follows) override {
    if (const auto* out = std::get_if<decide::Checkpoint>(&d)) moves.push_back({now(), true, out->buffer});
    if (const auto* back = std::get_if<decide::Restore>(&d)) moves.push_back({now(), false, back->buffer});
    return backend.apply(d, l, follows);
  }
  Outcome copy(const LaunchView& c, std::span<const LaunchId> follows) override {
    return backend.copy(c, follows);
  }
  struct Move {
    Time at;
    bool out;
    BufferId buffer;
  };
  SimBackend& backend;
  std::vector<Move> moves;
};

struct WatchedRun : Ran {
  std::vector<Watched::Move> ordered;
};

inline WatchedRun watch(const Trace& trace, const Gpu& gpu, Policy& policy) {
  WatchedRun ran;
  Timeline timeline;
  timeline.attach(ran);
  SimBackend simulated(trace, gpu, policy.requirements(), timeline, {true, true});
  Watched backend(simulated);
  Session session(trace, policy, backend, timeline,
                  [&](KernelId k) { return profile_kernel(trace.kernels[k.value], gpu); });
  session.audit(true);
  ran.outcome = session.run();
  simulated.close();
  ran.ordered = backend.moves;
  return ran;
}

inline WatchedRun watch(const Trace& trace, const Gpu& gpu, const std::string& policy) {
  return watch(trace, gpu, *make_policy(policy));
}

}  // namespace corun::sim
