// The best fixed division of a GPU among the clients of a trace, found by search with hindsight: what
// policies are measured against.  The search sees the whole run, so no policy has to reach it; one that
// adapts to the load may surpass it.
//
// Leaves out: divisions that leave TPCs idle or overlap, other orders of the clients on the chip, divisions
// that change during the run.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/run/run.h"

namespace corun::sim {

enum class Objective : std::uint8_t {
  stp,   // largest system throughput
  antt,  // smallest mean normalised turnaround
  p99    // smallest worst p99 latency of a real-time client; of any client, where none is real-time
};

double value_of(const RunResult& result, Objective objective);
/// By how much `value` misses `best`: not negative for a policy that does no better.
double regret(double value, double best, Objective objective);

struct OracleOptions {
  Objective objective = Objective::stp;
  EngineOptions engine;
  unsigned threads = 0;  // 0: one a core
  std::function<void(const char* stage, double fraction)>
      progress;  // may be empty; from one thread at a time
  Memory* memory = nullptr;
  std::function<bool()> stop{};  // the search ends, with what it has; may be empty
};

struct Oracle {
  RunResult best;
  double value = 0;
  std::size_t tried = 0;  // divisions simulated; none: `best` is empty, as the search was stopped before
};

/// `units` of something in as many parts as there are clients, each at least 1, all used.  The best of a
/// coarse grid, then steps of half the size around it, down to `finest`.  Ties go to the division that was
/// tried first; the order of trying does not depend on threads.  `values` gives the values of several
/// divisions, in their order, larger is better.
using Division = std::vector<std::uint32_t>;
using Values = std::function<std::vector<double>(const std::vector<Division>&)>;
Division search(std::uint32_t clients, std::uint32_t units, std::uint32_t finest, const Values& values);

/// Divisions into instances of MIG, one a client; nothing where the GPU cannot be divided so.
std::optional<Oracle> find_best_instances(const Trace& trace, const Gpu& gpu, const OracleOptions& options);

/// Divisions of the TPCs, and of the places for CTAs as persistent kernels.  Throws InputError if the GPU has
/// fewer TPCs than there are clients.
Oracle find_oracle(const Trace& trace, const Gpu& gpu, const OracleOptions& options);

}  // namespace corun::sim
