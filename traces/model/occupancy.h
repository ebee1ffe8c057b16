// What a block takes from its SM, with the allocation granularity of the architecture, and how many fit.
//
// The rules of the vendor's occupancy calculator (cuda_occupancy.h, CUDA 13.0), which is the oracle of a
// test.
//
// Leaves out: barriers, cluster scheduling, and which partition of the register file a warp is in: different
// kernels share it as if it were one.
#pragma once

#include <cstdint>
#include <string>

#include "traces/model/gpu.h"
#include "traces/model/kernel.h"

namespace corun {

/// Resources of one SM, or a block's share of them, in allocation units.
struct SmResources {
  std::uint32_t blocks = 0;
  std::uint32_t warps = 0;
  std::uint32_t threads = 0;
  std::uint32_t registers = 0;
  std::uint32_t shared_memory = 0;  // bytes

  SmResources& operator+=(const SmResources& o) {
    blocks += o.blocks, warps += o.warps, threads += o.threads, registers += o.registers,
        shared_memory += o.shared_memory;
    return *this;
  }
  SmResources& operator-=(const SmResources& o) {
    blocks -= o.blocks, warps -= o.warps, threads -= o.threads, registers -= o.registers,
        shared_memory -= o.shared_memory;
    return *this;
  }
  friend SmResources operator*(std::uint32_t n, const SmResources& r) {
    return {n * r.blocks, n * r.warps, n * r.threads, n * r.registers, n * r.shared_memory};
  }
  bool operator==(const SmResources&) const = default;
};

SmResources capacity_of(const SmLimits& sm);
SmResources demand_of(const Kernel& kernel, const SmLimits& sm);

/// How many blocks of `demand` fit into `free`.
inline std::uint32_t max_active_blocks(const SmResources& free, const SmResources& demand) {
  std::uint32_t n = free.blocks / demand.blocks;
  const auto limit = [&n](std::uint32_t have, std::uint32_t need) {
    if (need != 0 && have / need < n) n = have / need;
  };
  limit(free.warps, demand.warps);
  limit(free.threads, demand.threads);
  limit(free.registers, demand.registers);
  limit(free.shared_memory, demand.shared_memory);
  return n;
}

/// Whether one does.
inline bool fits(const SmResources& free, const SmResources& demand) {
  return free.blocks >= demand.blocks && free.warps >= demand.warps && free.threads >= demand.threads &&
         free.registers >= demand.registers && free.shared_memory >= demand.shared_memory;
}

/// What a block needs that may turn out to be either.
inline SmResources larger_of(const SmResources& a, const SmResources& b) {
  const auto larger = [](std::uint32_t x, std::uint32_t y) { return x > y ? x : y; };
  return {larger(a.blocks, b.blocks), larger(a.warps, b.warps), larger(a.threads, b.threads),
          larger(a.registers, b.registers), larger(a.shared_memory, b.shared_memory)};
}

/// The shared-memory carveout that a kernel needs of an SM, in bytes: the least that holds its full residency.
/// Blocks join an SM in use only if theirs is not larger than the SM's present one; an empty SM takes that of
/// its first block.  As measured on an H200 (experiments/h200/contention, `carveouts`).
inline std::uint32_t carveout_of(const SmResources& demand, const SmLimits& sm) {
  const std::uint64_t bytes =
      std::uint64_t{max_active_blocks(capacity_of(sm), demand)} * demand.shared_memory;
  for (const std::uint32_t carveout : sm.shared_memory_carveouts)
    if (carveout >= bytes) return carveout;
  return sm.shared_memory_carveouts.empty() ? 0 : sm.shared_memory_carveouts.back();
}

/// Why no block of the kernel fits an empty SM ("needs 300000 bytes of shared memory, an SM gives 232448"),
/// or empty.
std::string misfit(const Kernel& kernel, const SmLimits& sm);

}  // namespace corun
