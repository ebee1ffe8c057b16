// What a kernel's work takes beside the idle GPU, by its counters: pJ an instruction, a column of a wgmma, a
// byte of DRAM.  Constants of the GPU, fitted to what networks draw alone (experiments/h200/networks, power.py).
//
// Leaves out: L1, L2 and mma.sync, which the fit could not tell from the instructions.
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
