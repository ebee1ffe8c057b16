// An ordinary CUDA kernel, as source text, becomes one that runs as persistent workers (persistent.cuh).
//
// The kernel's body turns into a device function, so that a `return` in it ends a block and not the worker;
// `blockIdx` and `gridDim` become values of the block that the worker has taken, in all three dimensions and
// in the device functions that the file defines too.  Text in, text out: compiling is hw/driver's.
//
// Refused, with the reason: templates (name an instance), clusters and groups over the grid, block indices
// read in assembly, returns beside warp-wide operations (a returned lane would be waited for).
#pragma once

#include <string>
#include <string_view>

namespace corun::hw {

/// What the transform found, and what the variants to compile depend on.
struct Traits {
  bool barriers = false;            // __syncthreads or its like
  bool returns = false;             // in the kernel's own body
  bool shared_memory = false;       // or barriers: a block must be over before its worker goes on
  bool helpers_read_index = false;  // device functions read blockIdx or gridDim
  bool returns_before_barriers() const { return returns && barriers; }
};

struct Transformed {
  std::string text;   // to be compiled with the definitions of `variant_definitions`
  std::string entry;  // extern "C"
  Traits traits;
};

/// `file` names the source in messages and in what the compiler says.  Throws InputError.
Transformed make_persistent(std::string_view source, std::string_view file, std::string_view kernel);

}  // namespace corun::hw
