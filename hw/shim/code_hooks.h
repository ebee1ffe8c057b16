// The driver's calls that load code, find a kernel in it, or end with it, or with a stream: what
// StoppableKernels must know of.  They do what the driver does, and where the service asks for no kernels
// that can be stopped nothing else.
//
// Leaves out: modules read by the driver from files or linked by it, whose kernels run plainly.
#pragma once

#include <string_view>

namespace corun::live {

/// What the program gets in place of the driver's function of this name (a symbol); null: that one.
void* code_hook(std::string_view name);

}  // namespace corun::live
