// Two ordinary CUDA kernels, as source text, become one grid: a padded launch (padding.cuh), in which the
// first has some SMs and blocks of the second fill the others.
//
// Each file's contents go into a namespace of its own, without its kernels; macros end with it.  A kernel's
// threads are the first of the grid's, in its own shape.  Static shared memory is the sum of both, where one
// kernel could reuse the other's; registers are what the larger takes.
//
// Refused, beside what make_persistent refuses: array parameters.
#pragma once

#include <string>
#include <string_view>

#include "hw/transform/transform.h"
#include "traces/model/kernel.h"

namespace corun::hw {

struct PaddingSource {
  std::string_view source;
  std::string file, kernel;
  Dim3 block;
};

inline constexpr const char* kPaddedEntry = "corun_padded";

/// To be compiled with CORUN_THREADS, CORUN_RESIDENT and CORUN_FIRST_ONCE (1: a worker for each of its
/// blocks).  The parameters: each kernel's, as a structure of them in order, and PaddedParameters.  Throws
/// InputError.
std::string make_padded(const PaddingSource& first, const PaddingSource& second);

}  // namespace corun::hw
