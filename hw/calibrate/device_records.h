// The host's side of what work.cuh and launch_kernels.cuh declare for the device.
#pragma once

#include <cstdint>

namespace corun::hw {

struct Stamp {
  std::uint64_t start = 0, end = 0;  // of the GPU's timer, ns
  std::int64_t start_cycle = 0, end_cycle = 0;
  std::uint32_t sm = 0, unused = 0;
};
static_assert(sizeof(Stamp) == 40);

struct WarpLog {
  std::uint64_t start = 0, first = 0, last = 0;
  std::int64_t first_cycle = 0, last_cycle = 0;
  std::uint32_t sm = 0, slot = 0, block = 0, units = 0;
};
static_assert(sizeof(WarpLog) == 56);

struct Pause {
  std::uint64_t from = 0, to = 0;
};

/// The parameter of a client's kernel.
struct Work {
  std::uint64_t release = 0, begin = 0, end = 0, leave = 0;
  std::uint64_t data = 0, bytes = 0;
  std::uint32_t warps = 0, stride = 0;
  std::int32_t idle_cycles = 0, block_units = 0;
  std::uint64_t wanted = 0;
  std::int32_t per_sm = 0;
  std::uint64_t claimed = 0, units = 0, logs = 0;
};
static_assert(sizeof(Work) == 104);

inline constexpr std::uint32_t kMostSmsOfClients = 256;

}  // namespace corun::hw
