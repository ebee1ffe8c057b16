// What the library has of the program's contexts goes with them: a context may be made again at the same address, and its streams too.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace corun::live {

/// How many have ended so far: what was made before the last one did may be gone.
std::uint32_t contexts_ended();

void context_ends(CUcontext context);
void context_ended(CUcontext context);
/// Allocations stay until the driver has destroyed their context, which it may refuse: before the call, and after it.
void memory_of_context_may_end(CUcontext context);
void memory_of_context(CUcontext context, bool gone);

/// The program destroys a context: `destroy` does it.
template <class Destroy>
CUresult with_end_of(CUcontext context, Destroy destroy) {
  context_ends(context);
  memory_of_context_may_end(context);
  const CUresult result = destroy();
  if (result == CUDA_SUCCESS) context_ended(context);
  memory_of_context(context, result == CUDA_SUCCESS);
  return result;
}

/// Of the calling thread; null: there is none.
CUcontext current_context();
/// That of a device which the runtime uses; null: there is none.
CUcontext primary_context(CUdevice device);
bool primary_context_is_there(CUdevice device);

}  // namespace corun::live
