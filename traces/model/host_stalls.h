// When a recorded program's host stood still: other work on its cores, a hypervisor, memory that is reclaimed.  A trace has
// the median of each request, so it has none of them; and they come in clusters, so a rate and a mean would not do.
#pragma once

#include <vector>

#include "traces/model/time.h"

namespace corun {

struct HostStalls {
  struct Stall {
    Time at{}, lasting{};
    bool operator==(const Stall&) const = default;
  };
  Time observed{};            // how long the host was watched
  std::vector<Stall> stalls;  // in order, apart, within `observed`, and not all of it
  bool operator==(const HostStalls&) const = default;
};

}  // namespace corun
