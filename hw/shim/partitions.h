// Sets of TPCs as the driver gives them to a program: green contexts, each of whole groups of SMs (hw/live/groups.h).
#pragma once

#include <cuda.h>

#include <cstdint>

#include "hw/live/wire.h"

namespace corun::live {

/// A new stream whose kernels run on these TPCs.  Null: the driver or the GPU cannot, or no group is in the set.
CUstream stream_on(const Tpcs& tpcs, std::int32_t priority);

/// Those of a context that has ended are gone; others are made anew when they are asked for.
void forget_partitions();

}  // namespace corun::live
