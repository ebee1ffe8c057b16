// A kernel that is launched again and again in its stream: how long its places on the SMs are free in each
// period, beside the gap between two launches, and the simulator has blocks there.  In the simulator the blocks
// of few waves start and end together, and each has memory at the same rate all the time.  On the card they
// drift apart, so that places are left one after the other; and where DRAM bounds them all, the first of them
// wait for their first bytes together, and the last for their last.
//
// Leaves out: launches of more waves, whose blocks the simulator lets drift apart itself.
#pragma once

#include <cstdint>

#include "traces/model/gpu.h"
#include "traces/model/kernel.h"
#include "traces/model/time.h"

namespace corun::sim {

/// Of a launch alone on `sms` SMs; the kernel's solo time is what a period on the whole GPU has beside the gap.
Time places_free(const Kernel& kernel, const Gpu& gpu, std::uint32_t sms);

}  // namespace corun::sim
