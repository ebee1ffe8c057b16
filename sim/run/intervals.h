// How sure the numbers of a run are: between what nine of ten measured values lie, by how its clients share the GPU and
// by what is known of their kernels (interval_table.h, which experiments/intervals wrote from measurements in view).
//
// A client is no faster than alone.  Leaves out: what another seed of random arrivals gives, and cards other than an H200.
#pragma once

#include <cstdint>
#include <vector>

#include "policies/api/policy.h"
#include "traces/model/gpu.h"
#include "traces/model/trace.h"
#include "traces/timeline/metrics.h"

namespace corun::sim {

/// How a client shares: the GPU to itself; in turns; its SMs with others, or by priority; a part of the SMs; kernels that the
/// policy sizes or stops.
enum class Sharing : std::uint8_t { alone, turns, together, ranked, part, resized };
/// Of the kernels in which a client spends its time: launch shape and time; counters too; times on parts of the GPU too.
enum class Known : std::uint8_t { time, counters, part };
enum class Measure : std::uint8_t { latency, tail, throughput, stp };

/// The basis of a client's numbers.
struct Basis {
  Sharing sharing = Sharing::alone;
  bool one_kernel = false;  // in which it spends most of its time
  Known known = Known::time;
};
/// One of each client, under a policy that needs this.
std::vector<Basis> bases_of(const Trace& trace, const Requirements& needed);

/// The same as factors of the simulated value.
Interval factors(const Basis& basis, Measure measure);

/// Intervals of a client's numbers.
ClientIntervals intervals_of(const ClientResult& client, const Client& of, const Basis& basis);

/// To a result whose numbers are complete.
void add_intervals(RunResult& result, const Trace& trace, const Requirements& needed);

}  // namespace corun::sim
