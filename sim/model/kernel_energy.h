// What a kernel's work takes beside the idle GPU, by its counters: so many pJ an instruction, a wgmma, a byte of DRAM.
#pragma once

#include <string_view>

#include "traces/model/gpu.h"
#include "traces/model/kernel.h"

namespace corun::sim {

/// Columns of the wgmma that a kernel of this name uses, whose rows are 64; 128 where it does not say.
double wgmma_columns(std::string_view name);

/// pJ of a launch at the highest clock.  0: the GPU's power or the kernel's counters are not known.
double energy_of(const Kernel& kernel, const Counters& counters, const Gpu& gpu);

}  // namespace corun::sim
