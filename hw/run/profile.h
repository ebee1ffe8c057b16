// Solo time of a kernel as a persistent kernel by number of CTAs, measured: the simulator's profile
// (sim/backend/profile.h), with the same points.
#pragma once

#include <map>

#include "hw/kernels/workbench.h"
#include "policies/api/snapshot.h"
#include "traces/model/gpu.h"
#include "traces/model/trace.h"

namespace corun::hw {

/// By KernelId, of every kernel that a client's program launches.
std::map<std::uint32_t, Profile> measure_profiles(const Trace& trace, const Gpu& gpu, Workbench& work);

}  // namespace corun::hw
