// The simulator as a Forecast: each look makes a small simulation from the Snapshot alone, plays it on under
// the given way of deciding and says when what ends.  What kernels are like is fitted once, for all looks.
//
// Leaves out: what the session leaves out that goes on from a snapshot (policies/session/resume.cpp), what L2
// holds at the snapshot, and the power limit: the clock is the highest.
#pragma once

#include <memory>

#include "policies/api/forecast.h"
#include "policies/api/policy.h"
#include "policies/session/profile_file.h"
#include "sim/backend/shapes.h"
#include "traces/model/gpu.h"
#include "traces/model/trace.h"

namespace corun::sim {

/// For the clients of this trace under a policy that needs this; null where it needs no forecast.  `shapes`: which runs share, and
/// outlive it; null: of its own.  `host`: of the thread that issues for all; null: one for each client.
std::unique_ptr<Forecast> make_forecast(const Trace& trace, const Gpu& gpu, const Requirements& needed,
                                        Shapes* shapes = nullptr, const HostCosts* host = nullptr);

/// For programs that are known by what a Snapshot shows alone (unknown_forecast.cpp).
std::unique_ptr<Forecast> make_forecast(const Gpu& gpu, const Requirements& needed, bool contention = true);

}  // namespace corun::sim
