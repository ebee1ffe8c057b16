// A client that has the GPU to itself.  Its requests find the GPU idle, one after the other, so that each
// goes as the one before did: two are simulated, and the others follow as wholes, exact to the picosecond.
// What the client does between them, as arrivals and the queue, is played as ever (`Workload`).
//
// Leaves out, so that the run is simulated whole: clients of several streams, copies or allocations, servers,
// several requests in flight, hosts that stand still now and then, and runs in which the power limit may lower the clock.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "sim/backend/shapes.h"
#include "traces/model/gpu.h"
#include "traces/model/trace.h"
#include "traces/timeline/timeline.h"

namespace corun::sim {

/// The requests of the only client of a trace under fcfs, or nothing where they have to be simulated whole.
/// `progress` is told the time now and then, and may throw to end the run.
std::optional<std::vector<RequestRecord>> repeat_alone(const Trace& trace, const Gpu& gpu, Shapes& shapes,
                                                       const std::function<void(Time)>& progress);

}  // namespace corun::sim
