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

/// Forecast for the clients of a trace; null where the policy's requirements name no forecast.  `shapes`: shared by several runs,
/// must outlive the forecast; null: it makes its own.  `host`: costs of a single host thread that issues all launches; null: each
/// client has its own thread, at no cost.
std::unique_ptr<Forecast> make_forecast(const Trace& trace, const Gpu& gpu, const Requirements& needed,
                                        Shapes* shapes = nullptr, const HostCosts* host = nullptr);

/// Forecast for programs without a trace, from Snapshots alone (unknown_forecast.cpp).
std::unique_ptr<Forecast> make_forecast(const Gpu& gpu, const Requirements& needed, bool contention = true);

}  // namespace corun::sim
