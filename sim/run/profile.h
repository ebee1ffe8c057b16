// Solo time of a kernel as a persistent kernel by number of CTAs, from the simulator itself: what a profiler
// would measure on the card, as Bashizade et al. (2018, section 3.5) use it.
#pragma once

#include "policies/api/snapshot.h"
#include "sim/backend/shapes.h"
#include "traces/model/gpu.h"
#include "traces/model/kernel.h"

namespace corun::sim {

/// Points at 1, 2, 4, ... CTAs below one per SM, then at whole numbers of CTAs per SM, up to what the GPU
/// holds or the kernel has blocks; fewest first.  Those that `known` has are not simulated, and left out.
/// `shape`: of the kernel on an instance; null: as the whole GPU's times tell.
Profile profile_kernel(const Kernel& kernel, const Gpu& gpu, const Profile& known = {},
                       const Shape* shape = nullptr, bool contention = true);

/// By number of SMs and of CTAs on each, as Chen (2020, section 4.3.3) and Allen et al. (2019) use it: SM
/// counts 1, 2, 4, ..., the multiples of 5 (of an eighth of the GPU where 5 does not divide it), all; on each
/// 1, 2, 3, 4, 6, 8, 12, ... (on all SMs every number), what it holds, or until the kernel has no more
/// blocks; fewest CTAs first.  Of a kernel of more than 48 rounds, 16 and 32 rounds are simulated and the
/// rest is as long as the second 16.
Profile profile_by_sm(const Kernel& kernel, const Gpu& gpu, const Shape* shape = nullptr, bool contention = true);

}  // namespace corun::sim
