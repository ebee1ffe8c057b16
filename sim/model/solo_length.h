// How long a kernel alone lasts whose blocks all take the same, and the other way round: from the dispatch rate
// and the waves that its residency makes.
#pragma once

#include <cstdint>

#include "traces/model/gpu.h"
#include "traces/model/kernel.h"
#include "traces/model/time.h"

namespace corun::sim {

/// Time of one block such that the kernel alone on `sms` SMs lasts `solo_time`.  At least 1 ps: a kernel that
/// ends faster than its blocks can be dispatched is dispatch-bound.
Time solo_block_time(const Kernel& kernel, Time solo_time, const Gpu& gpu, std::uint32_t sms);

/// Length of a kernel alone whose blocks all take `block`: the inverse of the above.
Time solo_length(std::uint64_t blocks, std::uint64_t places, Time block, Time dispatch_interval);

}  // namespace corun::sim
