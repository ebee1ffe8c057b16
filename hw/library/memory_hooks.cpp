// The driver's functions that touch device memory, make it, or tell of it, where the service decides about memory (blocks.h).
// A call that touches memory is the driver's as it is, behind a Touch; one that makes memory which cannot be steered is
// counted.
#define __CUDA_API_VERSION_INTERNAL  // names as the library has them
#include <cuda.h>

#include <atomic>
#include <cstdio>
#include <type_traits>

#include "hw/library/blocks.h"
#include "hw/library/captures.h"
#include "hw/library/client.h"
#include "hw/library/driver.h"
#include "hw/library/hooks.h"
#include "hw/library/stoppable.h"

namespace corun::live {
namespace {

template <auto Own>
inline decltype(Own) real = nullptr;

/// `Of` tells functions of one type from each other.
template <class Function, class Of>
struct Touching;
template <class... A, class Of>
struct Touching<CUresult(A...), Of> {
  static inline CUresult (*real)(A...) = nullptr;
  static CUresult call(A... arguments) {
    look_up();
    if (real == nullptr) return CUDA_ERROR_NOT_FOUND;
    const Touch touch;
    return real(arguments...);
  }
};

template <class Function, class Of>
struct Passing;
template <class... A, class Of>
struct Passing<CUresult(A...), Of> {
  static inline CUresult (*real)(A...) = nullptr;
  static CUresult call(A... arguments) {
    look_up();
    if (real == nullptr) return CUDA_ERROR_NOT_FOUND;
    const CUresult result = real(arguments...);
    if (Blocks* blocks = Client::get() != nullptr ? Blocks::get() : nullptr;
        blocks != nullptr && result == CUDA_SUCCESS)
      blocks->count_passed();
    return result;
  }
};

CUresult allocate(CUdeviceptr* at, size_t bytes) {
  if (Blocks* blocks = Blocks::get())
    if (const auto answer = blocks->allocate(at, bytes)) return *answer;
  return real<&allocate>(at, bytes);
}

CUresult free(CUdeviceptr at) {
  if (Blocks* blocks = Blocks::get())
    if (const auto answer = blocks->free(at)) return *answer;
  return real<&free>(at);
}

/// Of a block, too: when what is in the stream has ended.
template <Default K>
CUresult free_async(CUdeviceptr at, CUstream stream) {
  Blocks* blocks = Blocks::get();
  if (blocks == nullptr || !blocks->find(at)) return real<&free_async<K>>(at, stream);
  static const auto wait = driver<CUresult (*)(CUstream)>("cuStreamSynchronize");
  if (const CUresult r = wait(stream == nullptr && K == Default::of_thread ? CU_STREAM_PER_THREAD : stream);
      r != CUDA_SUCCESS)
    return r;
  return free(at);
}

/// What the program may have, and what of it is left.
CUresult tell(size_t* left, size_t* all) {
  const CUresult result = real<&tell>(left, all);
  Blocks* blocks = Client::get() != nullptr ? Blocks::get() : nullptr;
  if (blocks == nullptr || result != CUDA_SUCCESS) return result;
  const std::uint64_t cap = blocks->cap();
  if (all != nullptr) *all = std::min<std::uint64_t>(*all, cap);
  if (left != nullptr) *left = cap - std::min(cap, blocks->own());
  return result;
}

CUresult range(CUdeviceptr* at, size_t* bytes, CUdeviceptr address) {
  Blocks* blocks = Blocks::get();
  const auto found = blocks != nullptr ? blocks->find(address) : std::nullopt;
  if (!found) return real<&range>(at, bytes, address);
  if (at != nullptr) *at = found->at;
  if (bytes != nullptr) *bytes = found->bytes;
  return CUDA_SUCCESS;
}

/// A block cannot be another's: its physical memory changes.
bool refused(CUdeviceptr address) {
  Blocks* blocks = Blocks::get();
  if (blocks == nullptr || !blocks->find(address)) return false;
  blocks->count_passed();
  static std::atomic<bool> said{false};
  if (!said.exchange(true))
    std::fputs(
        "corun: this program shares device memory, which the service moves; start it with sim run "
        "--own-memory\n",
        stderr);
  return true;
}

CUresult ipc_handle(CUipcMemHandle* handle, CUdeviceptr address) {
  return refused(address) ? CUDA_ERROR_NOT_SUPPORTED : real<&ipc_handle>(handle, address);
}
CUresult range_handle(void* handle, CUdeviceptr address, size_t bytes, CUmemRangeHandleType type,
                      unsigned long long flags) {
  return refused(address) ? CUDA_ERROR_NOT_SUPPORTED
                          : real<&range_handle>(handle, address, bytes, type, flags);
}
/// As of what cuMemAlloc gives.
CUresult retain_handle(CUmemGenericAllocationHandle* handle, void* address) {
  Blocks* blocks = Blocks::get();
  if (blocks != nullptr && blocks->find(reinterpret_cast<CUdeviceptr>(address)))
    return CUDA_ERROR_INVALID_VALUE;
  return real<&retain_handle>(handle, address);
}

CUresult destroy_context(CUcontext context) {
  captures().context_ended(context);
  stoppable_kernels().context_ended();
  if (Blocks* blocks = Blocks::get()) blocks->forget(context);
  return real<&destroy_context>(context);
}
CUresult reset_primary(CUdevice device) {
  stoppable_kernels().context_ended();
  static const auto retain = driver<CUresult (*)(CUcontext*, CUdevice)>("cuDevicePrimaryCtxRetain");
  static const auto release = driver<CUresult (*)(CUdevice)>("cuDevicePrimaryCtxRelease_v2");
  CUcontext context = nullptr;
  if (Blocks* blocks = Blocks::get(); blocks != nullptr && retain != nullptr && release != nullptr &&
                                      retain(&context, device) == CUDA_SUCCESS) {
    blocks->forget(context);
    captures().context_ended(context);
    release(device);
  }
  return real<&reset_primary>(device);
}

template <auto Own>
Hook hook(std::string_view symbol, int since = 0, std::string_view asked = {}) {
  return {symbol, since, kAlways, reinterpret_cast<void*>(Own), reinterpret_cast<void**>(&real<Own>), asked};
}

}  // namespace
}  // namespace corun::live

// What a program finds that is linked with the driver: a jump to the library's function, whatever the arguments are.
#define CORUN_LINKED(NAME)                                                                                             \
  asm(".pushsection .text\n.globl " #NAME "\n.type " #NAME ", @function\n" #NAME ":\n\tjmp *corun_in_place_of_" #NAME  \
      "(%rip)\n.size " #NAME ", .-" #NAME "\n.popsection\n")
#define CORUN_IN_PLACE(HOW, NAME)                                                                                      \
  namespace corun::live {                                                                                              \
  namespace {                                                                                                          \
  struct Of_##NAME;                                                                                                    \
  using In_place_of_##NAME = HOW<decltype(::NAME), Of_##NAME>;                                                         \
  }                                                                                                                    \
  }                                                                                                                    \
  extern "C" {                                                                                                         \
  extern decltype(&::NAME) const corun_in_place_of_##NAME [[gnu::visibility("hidden")]];                               \
  [[gnu::used]] constinit decltype(&::NAME) const corun_in_place_of_##NAME = &corun::live::In_place_of_##NAME::call;   \
  }                                                                                                                    \
  CORUN_LINKED(NAME)

// NAME, and since and until which version of CUDA cuGetProcAddress means it.
#define CORUN_TOUCHING(X)                                                                                              \
  X(cuMemcpy, 4000, kAlways) X(cuMemcpy_ptds, 7000, kAlways)                                                           \
  X(cuMemcpyAsync, 4000, kAlways) X(cuMemcpyAsync_ptsz, 7000, kAlways)                                                 \
  X(cuMemcpyPeer, 4000, kAlways) X(cuMemcpyPeer_ptds, 7000, kAlways)                                                   \
  X(cuMemcpyPeerAsync, 4000, kAlways) X(cuMemcpyPeerAsync_ptsz, 7000, kAlways)                                         \
  X(cuMemcpyHtoD_v2, 3020, kAlways) X(cuMemcpyHtoD_v2_ptds, 7000, kAlways)                                             \
  X(cuMemcpyHtoDAsync_v2, 3020, kAlways) X(cuMemcpyHtoDAsync_v2_ptsz, 7000, kAlways)                                   \
  X(cuMemcpyDtoHAsync_v2, 3020, kAlways) X(cuMemcpyDtoHAsync_v2_ptsz, 7000, kAlways)                                   \
  X(cuMemcpyDtoD_v2, 3020, kAlways) X(cuMemcpyDtoD_v2_ptds, 7000, kAlways)                                             \
  X(cuMemcpyDtoDAsync_v2, 3020, kAlways) X(cuMemcpyDtoDAsync_v2_ptsz, 7000, kAlways)                                   \
  X(cuMemcpyDtoA_v2, 3020, kAlways) X(cuMemcpyDtoA_v2_ptds, 7000, kAlways)                                             \
  X(cuMemcpyAtoD_v2, 3020, kAlways) X(cuMemcpyAtoD_v2_ptds, 7000, kAlways)                                             \
  X(cuMemcpy2D_v2, 3020, kAlways) X(cuMemcpy2D_v2_ptds, 7000, kAlways)                                                 \
  X(cuMemcpy2DUnaligned_v2, 3020, kAlways) X(cuMemcpy2DUnaligned_v2_ptds, 7000, kAlways)                               \
  X(cuMemcpy2DAsync_v2, 3020, kAlways) X(cuMemcpy2DAsync_v2_ptsz, 7000, kAlways)                                       \
  X(cuMemcpy3D_v2, 3020, kAlways) X(cuMemcpy3D_v2_ptds, 7000, kAlways)                                                 \
  X(cuMemcpy3DAsync_v2, 3020, kAlways) X(cuMemcpy3DAsync_v2_ptsz, 7000, kAlways)                                       \
  X(cuMemcpy3DPeer, 4000, kAlways) X(cuMemcpy3DPeer_ptds, 7000, kAlways)                                               \
  X(cuMemcpy3DPeerAsync, 4000, kAlways) X(cuMemcpy3DPeerAsync_ptsz, 7000, kAlways)                                     \
  X(cuMemsetD8_v2, 3020, kAlways) X(cuMemsetD8_v2_ptds, 7000, kAlways)                                                 \
  X(cuMemsetD16_v2, 3020, kAlways) X(cuMemsetD16_v2_ptds, 7000, kAlways)                                               \
  X(cuMemsetD32_v2, 3020, kAlways) X(cuMemsetD32_v2_ptds, 7000, kAlways)                                               \
  X(cuMemsetD2D8_v2, 3020, kAlways) X(cuMemsetD2D8_v2_ptds, 7000, kAlways)                                             \
  X(cuMemsetD2D16_v2, 3020, kAlways) X(cuMemsetD2D16_v2_ptds, 7000, kAlways)                                           \
  X(cuMemsetD2D32_v2, 3020, kAlways) X(cuMemsetD2D32_v2_ptds, 7000, kAlways)                                           \
  X(cuMemsetD8Async, 3020, kAlways) X(cuMemsetD8Async_ptsz, 7000, kAlways)                                             \
  X(cuMemsetD16Async, 3020, kAlways) X(cuMemsetD16Async_ptsz, 7000, kAlways)                                           \
  X(cuMemsetD32Async, 3020, kAlways) X(cuMemsetD32Async_ptsz, 7000, kAlways)                                           \
  X(cuMemsetD2D8Async, 3020, kAlways) X(cuMemsetD2D8Async_ptsz, 7000, kAlways)                                         \
  X(cuMemsetD2D16Async, 3020, kAlways) X(cuMemsetD2D16Async_ptsz, 7000, kAlways)                                       \
  X(cuMemsetD2D32Async, 3020, kAlways) X(cuMemsetD2D32Async_ptsz, 7000, kAlways)                                       \
  X(cuStreamWriteValue32, 8000, 11069) X(cuStreamWriteValue32_ptsz, 8000, 11069)                                       \
  X(cuStreamWriteValue64, 9000, 11069) X(cuStreamWriteValue64_ptsz, 9000, 11069)                                       \
  X(cuStreamWaitValue32, 8000, 11069) X(cuStreamWaitValue32_ptsz, 8000, 11069)                                         \
  X(cuStreamWaitValue64, 9000, 11069) X(cuStreamWaitValue64_ptsz, 9000, 11069)                                         \
  X(cuStreamBatchMemOp, 8000, 11069) X(cuStreamBatchMemOp_ptsz, 8000, 11069)                                           \
  X(cuStreamWriteValue32_v2, 11070, kAlways) X(cuStreamWriteValue32_v2_ptsz, 11070, kAlways)                           \
  X(cuStreamWriteValue64_v2, 11070, kAlways) X(cuStreamWriteValue64_v2_ptsz, 11070, kAlways)                           \
  X(cuStreamWaitValue32_v2, 11070, kAlways) X(cuStreamWaitValue32_v2_ptsz, 11070, kAlways)                             \
  X(cuStreamWaitValue64_v2, 11070, kAlways) X(cuStreamWaitValue64_v2_ptsz, 11070, kAlways)                             \
  X(cuStreamBatchMemOp_v2, 11070, kAlways) X(cuStreamBatchMemOp_v2_ptsz, 11070, kAlways)                               \
  X(cuLaunch, 2000, kAlways) X(cuLaunchGrid, 2000, kAlways) X(cuLaunchGridAsync, 2000, kAlways)                        \
  X(cuLaunchCooperativeKernelMultiDevice, 9000, kAlways)                                                               \
  X(cuPointerGetAttribute, 4000, kAlways) X(cuPointerGetAttributes, 7000, kAlways)                                     \
  X(cuPointerSetAttribute, 6000, kAlways)
#if CUDA_VERSION >= 12080
#define CORUN_TOUCHING_12080(X)                                                                                        \
  X(cuMemcpyBatchAsync, 12080, 12999) X(cuMemcpyBatchAsync_ptsz, 12080, 12999)                                         \
  X(cuMemcpy3DBatchAsync, 12080, 12999) X(cuMemcpy3DBatchAsync_ptsz, 12080, 12999)                                     \
  X(cuMemBatchDecompressAsync, 12060, kAlways) X(cuMemBatchDecompressAsync_ptsz, 12060, kAlways)
#else
#define CORUN_TOUCHING_12080(X)
#endif
#if CUDA_VERSION >= 13000
#define CORUN_TOUCHING_13000(X)                                                                                        \
  X(cuMemcpyBatchAsync_v2, 13000, kAlways) X(cuMemcpyBatchAsync_v2_ptsz, 13000, kAlways)                               \
  X(cuMemcpy3DBatchAsync_v2, 13000, kAlways) X(cuMemcpy3DBatchAsync_v2_ptsz, 13000, kAlways)
#else
#define CORUN_TOUCHING_13000(X)
#endif
#define CORUN_PASSING(X)                                                                                               \
  X(cuMemAllocAsync, 11020, kAlways) X(cuMemAllocAsync_ptsz, 11020, kAlways)                                           \
  X(cuMemAllocFromPoolAsync, 11020, kAlways) X(cuMemAllocFromPoolAsync_ptsz, 11020, kAlways)                           \
  X(cuMemAllocPitch_v2, 3020, kAlways) X(cuMemAllocManaged, 6000, kAlways) X(cuMemCreate, 10020, kAlways)

#define X(NAME, SINCE, UNTIL) CORUN_IN_PLACE(Touching, NAME);
#pragma GCC visibility push(default)
CORUN_TOUCHING(X)
CORUN_TOUCHING_12080(X)
CORUN_TOUCHING_13000(X)
#undef X
#define X(NAME, SINCE, UNTIL) CORUN_IN_PLACE(Passing, NAME);
CORUN_PASSING(X)
#undef X

namespace {
template <class F, class... Arguments>
auto linked_memory(F* function, Arguments... arguments) {
  corun::live::look_up();
  return function(arguments...);
}
}  // namespace

extern "C" {
CUresult cuMemAlloc_v2(CUdeviceptr* at, size_t bytes) { return linked_memory(corun::live::allocate, at, bytes); }
CUresult cuMemFree_v2(CUdeviceptr at) { return linked_memory(corun::live::free, at); }
CUresult cuMemFreeAsync(CUdeviceptr at, CUstream stream) {
  return linked_memory(corun::live::free_async<corun::live::Default::common>, at, stream);
}
CUresult cuMemFreeAsync_ptsz(CUdeviceptr at, CUstream stream) {
  return linked_memory(corun::live::free_async<corun::live::Default::of_thread>, at, stream);
}
CUresult cuMemGetInfo_v2(size_t* left, size_t* all) { return linked_memory(corun::live::tell, left, all); }
CUresult cuMemGetAddressRange_v2(CUdeviceptr* at, size_t* bytes, CUdeviceptr address) {
  return linked_memory(corun::live::range, at, bytes, address);
}
CUresult cuIpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr address) { return linked_memory(corun::live::ipc_handle, handle, address); }
CUresult cuMemGetHandleForAddressRange(void* handle, CUdeviceptr address, size_t bytes, CUmemRangeHandleType type, unsigned long long flags) {
  return linked_memory(corun::live::range_handle, handle, address, bytes, type, flags);
}
CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* address) {
  return linked_memory(corun::live::retain_handle, handle, address);
}
CUresult cuCtxDestroy_v2(CUcontext context) { return linked_memory(corun::live::destroy_context, context); }
CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) { return linked_memory(corun::live::reset_primary, device); }
}
#pragma GCC visibility pop

namespace corun::live {

std::vector<Hook> with_memory(std::vector<Hook> hooks) {
  using enum Default;
  const std::vector<Hook> own = {
      hook<&allocate>("cuMemAlloc_v2", 3020),
      hook<&free>("cuMemFree_v2", 3020),
      hook<&free_async<common>>("cuMemFreeAsync", 11020),
      hook<&free_async<of_thread>>("cuMemFreeAsync_ptsz", 11020),
      hook<&tell>("cuMemGetInfo_v2", 3020),
      hook<&range>("cuMemGetAddressRange_v2", 3020),
      hook<&ipc_handle>("cuIpcGetMemHandle", 4010),
      hook<&range_handle>("cuMemGetHandleForAddressRange", 11070),
      hook<&retain_handle>("cuMemRetainAllocationHandle", 11000),
      hook<&destroy_context>("cuCtxDestroy_v2", 4000),
      hook<&reset_primary>("cuDevicePrimaryCtxReset_v2", 11000),
#define X(NAME, SINCE, UNTIL)                                                                                    \
  {#NAME, SINCE, UNTIL, reinterpret_cast<void*>(&In_place_of_##NAME::call), reinterpret_cast<void**>(&In_place_of_##NAME::real)},
      CORUN_TOUCHING(X) CORUN_TOUCHING_12080(X) CORUN_TOUCHING_13000(X) CORUN_PASSING(X)
#undef X
  };
  hooks.insert(hooks.end(), own.begin(), own.end());
  return hooks;
}

}  // namespace corun::live
