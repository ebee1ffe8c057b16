// A kernel of which the tests of fits and laws know every number.
#pragma once

#include "traces/model/kernel.h"
#include "traces/model/time.h"

namespace corun::sim {

/// 100,000 blocks of 4 warps, of which an SM of an H200 holds 16, that take 1 ms; bytes of a block, instructions of a warp.
inline Kernel kernel_moving(double bytes, double instructions = 100) {
  Kernel k;
  k.name = "k";
  k.grid = {100'000, 1, 1}, k.block = {128, 1, 1};
  k.registers_per_thread = 32;
  k.solo_time = from_ns(1e6);
  k.counters.warp_instructions = 4e5 * instructions;
  k.counters.dram_read_bytes = 1e5 * bytes;
  k.counters.dram_write_bytes = 0;
  k.counters.l2_bytes = 1.5e5 * bytes;
  return k;
}

}  // namespace corun::sim
