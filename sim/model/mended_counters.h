// A kernel's counters as the contention model takes them.  A profiler takes them in several passes, so small
// contradictions are normal and are left to the model; what cannot be is mended, and said.
#pragma once

#include <string>
#include <vector>

#include "traces/model/gpu.h"
#include "traces/model/kernel.h"

namespace corun::sim {

struct MendedCounters {
  Counters counters;
  std::vector<std::string> said;  // one for each that was off by more than a tenth
};

/// `solo_time`: of the launch on the whole GPU; 0: not known, so that nothing is too much for it.
MendedCounters mend_counters(const Kernel& kernel, Time solo_time, const Gpu& gpu);

}  // namespace corun::sim
