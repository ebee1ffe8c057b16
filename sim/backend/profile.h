// Solo time of a kernel as a persistent kernel by number of CTAs, from the simulator itself: what a profiler
// would measure on the card, as Bashizade et al. (2018, section 3.5) use it.
#pragma once

#include "policies/api/snapshot.h"
#include "traces/model/gpu.h"
#include "traces/model/kernel.h"

namespace corun::sim {

/// Points at 1, 2, 4, ... CTAs below one per SM, then at whole numbers of CTAs per SM, up to what the GPU
/// holds or the kernel has blocks; fewest first.
Profile profile_kernel(const Kernel& kernel, const Gpu& gpu);

}  // namespace corun::sim
