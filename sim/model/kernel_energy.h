// What a kernel's work takes beside the idle GPU, by its counters: so many pJ an instruction, a wgmma, a byte of DRAM.
#pragma once

#include "traces/model/gpu.h"
#include "traces/model/kernel.h"

namespace corun::sim {

/// pJ of a launch at the highest clock.  0: the GPU's power or the kernel's counters are not known.
double energy_of(const Kernel& kernel, const Counters& counters, const Gpu& gpu);

}  // namespace corun::sim
