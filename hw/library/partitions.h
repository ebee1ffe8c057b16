// Sets of TPCs as the driver gives them to a program: green contexts of single TPCs.  Which of the driver's groups is which TPC
// is asked of the GPU once, by a kernel in each that says where it runs: about a millisecond a TPC.
//
// Leaves out: kernels in clusters that need more SMs of a GPC than the set has there, which the driver refuses.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "hw/live/wire.h"

namespace corun::live {

/// A new stream whose kernels run on these TPCs.  Null: the driver or the GPU cannot.
CUstream stream_on(const Tpcs& tpcs, std::int32_t priority);

}  // namespace corun::live
