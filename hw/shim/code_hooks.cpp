#include "hw/shim/code_hooks.h"

#define __CUDA_API_VERSION_INTERNAL  // names as the library has them
#include <cuda.h>

#include <algorithm>
#include <array>
#include <utility>

#include "hw/shim/captures.h"
#include "hw/shim/client.h"
#include "hw/shim/contexts.h"
#include "hw/shim/driver.h"
#include "hw/shim/shadow_streams.h"
#include "hw/shim/stoppable.h"

namespace corun::live {
namespace {

template <class Function, class... Arguments>
CUresult real(const char* name, Arguments... arguments) {
  // In each function below it is another type or name, and looked up once.
  auto* const function = driver<Function*>(name);
  return function != nullptr ? function(arguments...) : CUDA_ERROR_NOT_SUPPORTED;
}

/// Null: nobody asks for kernels that can be stopped.
Client* asking() {
  Client* client = Client::get();
  return client != nullptr && client->persistent() ? client : nullptr;
}

void loaded(const void* module, const void* image) {
  if (asking() != nullptr) stoppable_kernels().loaded(module, image);
}

void stream_ends(CUstream stream) {
  captures().destroyed(stream);
  forget_shadow_streams(stream);
  if (Client* client = asking()) client->destroyed(stream);
}

/// The primary context, by whichever call: it ends with the last that holds it.
template <class Release>
CUresult release_primary(CUdevice device, Release release) {
  CUcontext context = primary_context(device);
  stoppable_kernels().context_ended();
  memory_of_context_may_end(context);
  const CUresult result = release();
  const bool gone = result == CUDA_SUCCESS && context != nullptr && !primary_context_is_there(device);
  if (gone) context_ended(context);
  memory_of_context(context, gone);
  return result;
}

/// Options that leave what the driver makes as it is.
bool plain_options(unsigned n, const CUjit_option* options) {
  constexpr std::array kPlain{CU_JIT_WALL_TIME,
                              CU_JIT_INFO_LOG_BUFFER,
                              CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
                              CU_JIT_ERROR_LOG_BUFFER,
                              CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
                              CU_JIT_TARGET_FROM_CUCONTEXT,
                              CU_JIT_LOG_VERBOSE,
                              CU_JIT_CACHE_MODE};
  return std::all_of(options, options + n, [&](CUjit_option o) {
    return std::find(kPlain.begin(), kPlain.end(), o) != kPlain.end();
  });
}

}  // namespace
}  // namespace corun::live

#pragma GCC visibility push(default)
extern "C" {
using namespace corun::live;

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  const CUresult result = real<decltype(cuModuleLoadData)>("cuModuleLoadData", module, image);
  if (result == CUDA_SUCCESS) loaded(*module, image);
  return result;
}
CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned n, CUjit_option* options,
                            void** values) {
  const CUresult result =
      real<decltype(cuModuleLoadDataEx)>("cuModuleLoadDataEx", module, image, n, options, values);
  if (result == CUDA_SUCCESS) loaded(*module, plain_options(n, options) ? image : nullptr);
  return result;
}
CUresult cuModuleLoadFatBinary(CUmodule* module, const void* image) {
  const CUresult result = real<decltype(cuModuleLoadFatBinary)>("cuModuleLoadFatBinary", module, image);
  if (result == CUDA_SUCCESS) loaded(*module, image);
  return result;
}
CUresult cuModuleUnload(CUmodule module) {
  if (Client* client = Client::get()) client->forget_kernels();
  if (asking() != nullptr) stoppable_kernels().unloaded(module);
  return real<decltype(cuModuleUnload)>("cuModuleUnload", module);
}
CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  const CUresult result = real<decltype(cuModuleGetFunction)>("cuModuleGetFunction", function, module, name);
  if (result == CUDA_SUCCESS && asking() != nullptr) stoppable_kernels().found(*function, module, name);
  return result;
}
CUresult cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option* options, void** values,
                           unsigned n, CUlibraryOption* library_options, void** library_values,
                           unsigned library_n) {
  const CUresult result = real<decltype(cuLibraryLoadData)>(
      "cuLibraryLoadData", library, code, options, values, n, library_options, library_values, library_n);
  if (result == CUDA_SUCCESS) loaded(*library, plain_options(n, options) ? code : nullptr);
  return result;
}
CUresult cuLibraryUnload(CUlibrary library) {
  if (Client* client = Client::get()) client->forget_kernels();
  if (asking() != nullptr) stoppable_kernels().unloaded(library);
  return real<decltype(cuLibraryUnload)>("cuLibraryUnload", library);
}
CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary library, const char* name) {
  const CUresult result = real<decltype(cuLibraryGetKernel)>("cuLibraryGetKernel", kernel, library, name);
  if (result == CUDA_SUCCESS && asking() != nullptr) stoppable_kernels().found(*kernel, library, name);
  return result;
}
CUresult cuLibraryGetModule(CUmodule* module, CUlibrary library) {
  const CUresult result = real<decltype(cuLibraryGetModule)>("cuLibraryGetModule", module, library);
  if (result == CUDA_SUCCESS && asking() != nullptr) stoppable_kernels().is_of(*module, library);
  return result;
}
CUresult cuKernelGetFunction(CUfunction* function, CUkernel kernel) {
  const CUresult result = real<decltype(cuKernelGetFunction)>("cuKernelGetFunction", function, kernel);
  if (result == CUDA_SUCCESS && asking() != nullptr) stoppable_kernels().is_kernels(*function, kernel);
  return result;
}
CUresult cuStreamDestroy_v2(CUstream stream) {
  stream_ends(stream);
  return real<decltype(cuStreamDestroy_v2)>("cuStreamDestroy_v2", stream);
}
CUresult cuStreamDestroy(CUstream stream) {  // as until CUDA 4
  stream_ends(stream);
  return real<decltype(cuStreamDestroy)>("cuStreamDestroy", stream);
}
CUresult cuDevicePrimaryCtxRelease(CUdevice device) {  // as until CUDA 11
  return release_primary(device, [&] { return real<decltype(cuDevicePrimaryCtxRelease)>("cuDevicePrimaryCtxRelease", device); });
}
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  return release_primary(device, [&] { return real<decltype(cuDevicePrimaryCtxRelease_v2)>("cuDevicePrimaryCtxRelease_v2", device); });
}
}
#pragma GCC visibility pop

namespace corun::live {

void* code_hook(std::string_view name) {
  static const std::pair<std::string_view, void*> kHooks[] = {
      {"cuModuleLoadData", reinterpret_cast<void*>(&cuModuleLoadData)},
      {"cuModuleLoadDataEx", reinterpret_cast<void*>(&cuModuleLoadDataEx)},
      {"cuModuleLoadFatBinary", reinterpret_cast<void*>(&cuModuleLoadFatBinary)},
      {"cuModuleUnload", reinterpret_cast<void*>(&cuModuleUnload)},
      {"cuModuleGetFunction", reinterpret_cast<void*>(&cuModuleGetFunction)},
      {"cuLibraryLoadData", reinterpret_cast<void*>(&cuLibraryLoadData)},
      {"cuLibraryUnload", reinterpret_cast<void*>(&cuLibraryUnload)},
      {"cuLibraryGetKernel", reinterpret_cast<void*>(&cuLibraryGetKernel)},
      {"cuLibraryGetModule", reinterpret_cast<void*>(&cuLibraryGetModule)},
      {"cuKernelGetFunction", reinterpret_cast<void*>(&cuKernelGetFunction)},
      {"cuStreamDestroy_v2", reinterpret_cast<void*>(&cuStreamDestroy_v2)},
      {"cuStreamDestroy", reinterpret_cast<void*>(&cuStreamDestroy)},
      {"cuDevicePrimaryCtxRelease", reinterpret_cast<void*>(&cuDevicePrimaryCtxRelease)},
      {"cuDevicePrimaryCtxRelease_v2", reinterpret_cast<void*>(&cuDevicePrimaryCtxRelease_v2)},
  };
  for (const auto& [symbol, own] : kHooks)
    if (symbol == name) return own;
  return nullptr;
}

}  // namespace corun::live
