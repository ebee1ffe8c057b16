// The copy engines: one queue to the device, one from it, one within it (which costs a pass of reading and
// writing), each first in, first out, one copy at a time.  A copy whose host gives its bytes more slowly leaves the
// engine to others in between.
//
// Leaves out: copies sharing PCIe or DRAM bandwidth with each other and with kernels.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "traces/model/gpu.h"
#include "traces/model/trace.h"

namespace corun::sim {

class CopyEngines {
 public:
  explicit CopyEngines(const Gpu& gpu) : gpu_(gpu) {}

  struct Slot {
    std::uint32_t engine;
    Time start, end;
  };
  /// Books the next free time of the engine of this direction.
  Slot accept(const Copy& copy, Time now) {
    const auto wanted = static_cast<std::uint32_t>(copy.direction);
    const std::uint32_t engine = std::min(wanted, std::max(gpu_.copy_engines, 1u) - 1);
    const bool inside = copy.direction == CopyDirection::device_to_device;
    const double rate = inside ? gpu_.dram_bytes_per_second / 2 : gpu_.copy_bytes_per_second;
    const Time start = std::max(now, free_at_[engine]);
    const auto at_rate = [&](double bytes_per_second) { return start + from_ns(static_cast<double>(copy.bytes) / bytes_per_second * 1e9); };
    free_at_[engine] = at_rate(rate);
    if (inside) free_at_[engine] += copy.bytes < gpu_.copy_kernel_bytes ? gpu_.device_copy : gpu_.copy_kernel;
    const Time end = copy.host_bytes_per_second == 0 || inside ? free_at_[engine]
                                                               : std::max(free_at_[engine], at_rate(static_cast<double>(copy.host_bytes_per_second)));
    return {engine, start, end};
  }

 private:
  const Gpu& gpu_;
  std::array<Time, 3> free_at_{};
};

}  // namespace corun::sim
