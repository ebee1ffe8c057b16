// A profiler slows the host by a factor that a recording does not tell: gaps shrink alike.
#pragma once

#include <cmath>

#include "traces/model/trace.h"

namespace corun {

inline void scale_host_gaps(Program& program, double share) {
  for (Op& op : program.ops) op.host_gap = Time{std::llround(share * static_cast<double>(op.host_gap.count()))};
}

}  // namespace corun
