// The driver's functions that touch device memory, make it, or tell of it, where the service decides about memory (blocks.h).
// A call that touches memory is the driver's as it is, behind a Touch; one that makes memory which cannot be steered is
// counted.
#define __CUDA_API_VERSION_INTERNAL  // names as the library has them
#include <cuda.h>

#include <atomic>
#include <string_view>
#include <type_traits>

#include "hw/live/system.h"
#include "hw/shim/blocks.h"
#include "hw/shim/captures.h"
#include "hw/shim/client.h"
#include "hw/shim/contexts.h"
#include "hw/shim/driver.h"
#include "hw/shim/hooks.h"
#include "hw/shim/leave.h"

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

/// What makes memory that cannot be steered is one only where memory is.
constexpr bool makes_memory(std::string_view call) {
  for (const char* kind : {"cuMemAlloc", "cuMemCreate", "cuArray", "cuMipmappedArray"})
    if (call.starts_with(kind)) return true;
  return false;
}

template <class Function, class Of>
struct Counted;
template <class... A, class Of>
struct Counted<CUresult(A...), Of> {
  static inline CUresult (*real)(A...) = nullptr;
  static CUresult call(A... arguments) {
    look_up();
    if (real == nullptr) return CUDA_ERROR_NOT_FOUND;
    if constexpr (makes_memory(Of::name)) {
      const CUresult result = real(arguments...);
      if (Blocks* blocks = Blocks::in_charge(); blocks != nullptr && result == CUDA_SUCCESS)
        blocks->count_passed(), not_steered(Of::name);
      return result;
    } else {
      not_steered(Of::name);
      const Touch touch;
      return real(arguments...);
    }
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
  CUstream own = stream == nullptr && K == Default::of_thread ? CU_STREAM_PER_THREAD : stream;
  if (capturing(own) != Capturing::no) return free(at);  // later, once nothing is captured
  if (const CUresult r = wait(own); r != CUDA_SUCCESS) return r;
  return free(at);
}

/// What the program may have, and what of it is left.
CUresult tell(size_t* left, size_t* all) {
  const CUresult result = real<&tell>(left, all);
  Blocks* blocks = Blocks::in_charge();
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
    os::complain("corun: this program shares device memory, which the service moves; start it with sim run --own-memory\n");
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

/// `Version`: two of the driver's.
template <int Version>
CUresult destroy_context(CUcontext context) {
  return with_end_of(context, [&] { return real<&destroy_context<Version>>(context); });
}
template <int Version>
CUresult reset_primary(CUdevice device) {
  return with_end_of(primary_context(device), [&] { return real<&reset_primary<Version>>(device); });
}

template <auto Own>
Hook hook(std::string_view symbol) {
  return {symbol, reinterpret_cast<void*>(Own), reinterpret_cast<void**>(&real<Own>)};
}

}  // namespace
}  // namespace corun::live

// What a program finds that is linked with the driver: a jump to the library's function, whatever the arguments are.
#if defined(__x86_64__)
#define CORUN_JUMP(TO) "\tjmp *" TO "(%rip)\n"
#elif defined(__aarch64__)  // by a register that calls may change
#define CORUN_JUMP(TO) "\tadrp x16, " TO "\n\tldr x16, [x16, :lo12:" TO "]\n\tbr x16\n"
#else
#error "nobody has written down how to jump on this machine"
#endif
#define CORUN_LINKED(NAME)                                                                                             \
  asm(".pushsection .text\n.globl " #NAME "\n.type " #NAME ", %function\n" #NAME ":\n"                               \
      CORUN_JUMP("corun_in_place_of_" #NAME) ".size " #NAME ", .-" #NAME "\n.popsection\n")
#define CORUN_IN_PLACE(HOW, NAME)                                                                                      \
  namespace corun::live {                                                                                              \
  namespace {                                                                                                          \
  struct Of_##NAME { static constexpr const char* name = #NAME; };                                                                                                  \
  using In_place_of_##NAME = HOW<decltype(::NAME), Of_##NAME>;                                                         \
  }                                                                                                                    \
  }                                                                                                                    \
  extern "C" {                                                                                                         \
  extern decltype(&::NAME) const corun_in_place_of_##NAME [[gnu::visibility("hidden")]];                               \
  [[gnu::used]] constinit decltype(&::NAME) const corun_in_place_of_##NAME = &corun::live::In_place_of_##NAME::call;   \
  }                                                                                                                    \
  CORUN_LINKED(NAME)

#define CORUN_TOUCHING(X)                                                                                              \
  X(cuMemcpy) X(cuMemcpy_ptds)                                                           \
  X(cuMemcpyAsync) X(cuMemcpyAsync_ptsz)                                                 \
  X(cuMemcpyPeer) X(cuMemcpyPeer_ptds)                                                   \
  X(cuMemcpyPeerAsync) X(cuMemcpyPeerAsync_ptsz)                                         \
  X(cuMemcpyHtoD_v2) X(cuMemcpyHtoD_v2_ptds)                                             \
  X(cuMemcpyHtoDAsync_v2) X(cuMemcpyHtoDAsync_v2_ptsz)                                   \
  X(cuMemcpyDtoHAsync_v2) X(cuMemcpyDtoHAsync_v2_ptsz)                                   \
  X(cuMemcpyDtoD_v2) X(cuMemcpyDtoD_v2_ptds)                                             \
  X(cuMemcpyDtoDAsync_v2) X(cuMemcpyDtoDAsync_v2_ptsz)                                   \
  X(cuMemcpyDtoA_v2) X(cuMemcpyDtoA_v2_ptds)                                             \
  X(cuMemcpyAtoD_v2) X(cuMemcpyAtoD_v2_ptds)                                             \
  X(cuMemcpy2D_v2) X(cuMemcpy2D_v2_ptds)                                                 \
  X(cuMemcpy2DUnaligned_v2) X(cuMemcpy2DUnaligned_v2_ptds)                               \
  X(cuMemcpy2DAsync_v2) X(cuMemcpy2DAsync_v2_ptsz)                                       \
  X(cuMemcpy3D_v2) X(cuMemcpy3D_v2_ptds)                                                 \
  X(cuMemcpy3DAsync_v2) X(cuMemcpy3DAsync_v2_ptsz)                                       \
  X(cuMemcpy3DPeer) X(cuMemcpy3DPeer_ptds)                                               \
  X(cuMemcpy3DPeerAsync) X(cuMemcpy3DPeerAsync_ptsz)                                     \
  X(cuMemsetD8_v2) X(cuMemsetD8_v2_ptds)                                                 \
  X(cuMemsetD16_v2) X(cuMemsetD16_v2_ptds)                                               \
  X(cuMemsetD32_v2) X(cuMemsetD32_v2_ptds)                                               \
  X(cuMemsetD2D8_v2) X(cuMemsetD2D8_v2_ptds)                                             \
  X(cuMemsetD2D16_v2) X(cuMemsetD2D16_v2_ptds)                                           \
  X(cuMemsetD2D32_v2) X(cuMemsetD2D32_v2_ptds)                                           \
  X(cuMemsetD8Async) X(cuMemsetD8Async_ptsz)                                             \
  X(cuMemsetD16Async) X(cuMemsetD16Async_ptsz)                                           \
  X(cuMemsetD32Async) X(cuMemsetD32Async_ptsz)                                           \
  X(cuMemsetD2D8Async) X(cuMemsetD2D8Async_ptsz)                                         \
  X(cuMemsetD2D16Async) X(cuMemsetD2D16Async_ptsz)                                       \
  X(cuMemsetD2D32Async) X(cuMemsetD2D32Async_ptsz)                                       \
  X(cuStreamWriteValue32) X(cuStreamWriteValue32_ptsz)                                       \
  X(cuStreamWriteValue64) X(cuStreamWriteValue64_ptsz)                                       \
  X(cuStreamWaitValue32) X(cuStreamWaitValue32_ptsz)                                         \
  X(cuStreamWaitValue64) X(cuStreamWaitValue64_ptsz)                                         \
  X(cuStreamBatchMemOp) X(cuStreamBatchMemOp_ptsz)                                           \
  X(cuStreamWriteValue32_v2) X(cuStreamWriteValue32_v2_ptsz)                           \
  X(cuStreamWriteValue64_v2) X(cuStreamWriteValue64_v2_ptsz)                           \
  X(cuStreamWaitValue32_v2) X(cuStreamWaitValue32_v2_ptsz)                             \
  X(cuStreamWaitValue64_v2) X(cuStreamWaitValue64_v2_ptsz)                             \
  X(cuStreamBatchMemOp_v2) X(cuStreamBatchMemOp_v2_ptsz)                               \
  X(cuPointerGetAttribute) X(cuPointerGetAttributes)                                     \
  X(cuPointerSetAttribute)
#if CUDA_VERSION >= 12080
#define CORUN_TOUCHING_12080(X)                                                                                        \
  X(cuMemcpyBatchAsync) X(cuMemcpyBatchAsync_ptsz)                                         \
  X(cuMemcpy3DBatchAsync) X(cuMemcpy3DBatchAsync_ptsz)                                     \
  X(cuMemBatchDecompressAsync) X(cuMemBatchDecompressAsync_ptsz)
#else
#define CORUN_TOUCHING_12080(X)
#endif
#if CUDA_VERSION >= 13000
#define CORUN_TOUCHING_13000(X)                                                                                        \
  X(cuMemcpyBatchAsync_v2) X(cuMemcpyBatchAsync_v2_ptsz)                               \
  X(cuMemcpy3DBatchAsync_v2) X(cuMemcpy3DBatchAsync_v2_ptsz)
#else
#define CORUN_TOUCHING_13000(X)
#endif
#include <counted_calls.inc>  // CORUN_COUNTED_CALLS of driver_calls.txt, by hw/CMakeLists.txt

#define X(NAME) CORUN_IN_PLACE(Touching, NAME);
#pragma GCC visibility push(default)
CORUN_TOUCHING(X)
CORUN_TOUCHING_12080(X)
CORUN_TOUCHING_13000(X)
#undef X
#define X(NAME) CORUN_IN_PLACE(Counted, NAME);
CORUN_COUNTED_CALLS(X)
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
CUresult cuCtxDestroy(CUcontext context) { return linked_memory(corun::live::destroy_context<1>, context); }
CUresult cuCtxDestroy_v2(CUcontext context) { return linked_memory(corun::live::destroy_context<2>, context); }
CUresult cuDevicePrimaryCtxReset(CUdevice device) { return linked_memory(corun::live::reset_primary<1>, device); }
CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) { return linked_memory(corun::live::reset_primary<2>, device); }
}
#pragma GCC visibility pop

namespace corun::live {

std::vector<Hook> with_memory(std::vector<Hook> hooks) {
  using enum Default;
  const std::vector<Hook> own = {
      hook<&allocate>("cuMemAlloc_v2"),
      hook<&free>("cuMemFree_v2"),
      hook<&free_async<common>>("cuMemFreeAsync"),
      hook<&free_async<of_thread>>("cuMemFreeAsync_ptsz"),
      hook<&tell>("cuMemGetInfo_v2"),
      hook<&range>("cuMemGetAddressRange_v2"),
      hook<&ipc_handle>("cuIpcGetMemHandle"),
      hook<&range_handle>("cuMemGetHandleForAddressRange"),
      hook<&retain_handle>("cuMemRetainAllocationHandle"),
      hook<&destroy_context<1>>("cuCtxDestroy"),
      hook<&destroy_context<2>>("cuCtxDestroy_v2"),
      hook<&reset_primary<1>>("cuDevicePrimaryCtxReset"),
      hook<&reset_primary<2>>("cuDevicePrimaryCtxReset_v2"),
#define X(NAME)                                                                                    \
  {#NAME, reinterpret_cast<void*>(&In_place_of_##NAME::call), reinterpret_cast<void**>(&In_place_of_##NAME::real)},
      CORUN_TOUCHING(X) CORUN_TOUCHING_12080(X) CORUN_TOUCHING_13000(X) CORUN_COUNTED_CALLS(X)
#undef X
  };
  hooks.insert(hooks.end(), own.begin(), own.end());
  return hooks;
}

}  // namespace corun::live
