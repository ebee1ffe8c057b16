// Random small workloads from explicit seeds.
#pragma once

#include <random>

#include "tests/support/build.h"

namespace corun::sim {

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : engine_(seed) {}
  /// Uniform within [least, most], the same on every machine.
  std::uint32_t any(std::uint32_t least, std::uint32_t most) {
    return least + static_cast<std::uint32_t>(engine_() % (std::uint64_t{most} - least + 1));
  }
  bool one_in(std::uint32_t n) { return any(1, n) == 1; }
  template <class T>
  const T& one_of(const std::vector<T>& values) {
    return values[any(0, static_cast<std::uint32_t>(values.size()) - 1)];
  }

 private:
  std::mt19937_64 engine_;
};

struct Scenario {
  Gpu gpu;
  Trace trace;
};

enum class Requests {
  one,       // each client sends one: the run ends when all kernels have
  repeated,  // all kinds of arrivals, for a time
};

/// 1 to 6 SMs, few slots and channels, up to 4 clients with programs of up to 6 operations: kernels of all
/// shapes, from one block to dozens of waves, with equal and unequal blocks, with and without contention;
/// copies, syncs, events, masks, priorities, graphs.
Scenario random_scenario(std::uint64_t seed, Requests requests);

}  // namespace corun::sim
