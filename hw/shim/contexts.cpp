#include "hw/shim/contexts.h"

#include <atomic>

#include "hw/live/system.h"
#include "hw/shim/blocks.h"
#include "hw/shim/captures.h"
#include "hw/shim/client.h"
#include "hw/shim/driver.h"
#include "hw/shim/shadow_streams.h"
#include "hw/shim/partitions.h"
#include "hw/shim/stoppable.h"

namespace corun::live {
namespace {

struct Ended {
  std::atomic<std::uint32_t> contexts{0};
};
std::atomic<std::uint32_t>& ended() { return os::of_process<Ended>().contexts; }

}  // namespace

std::uint32_t contexts_ended() { return ended().load(std::memory_order_acquire); }

void context_ends(CUcontext context) {
  stoppable_kernels().context_ended();
  if (Client* client = Client::get()) client->context_ends(context);
}

void memory_of_context_may_end(CUcontext context) {
  if (Blocks* blocks = Blocks::get(); blocks != nullptr && context != nullptr) blocks->context_ends(context);
}

void memory_of_context(CUcontext context, bool gone) {
  if (Blocks* blocks = Blocks::get(); blocks != nullptr && context != nullptr) blocks->context_ended(context, gone);
}

void context_ended(CUcontext context) {
  ended().fetch_add(1, std::memory_order_release);
  captures().context_ended(context);
  forget_shadow_streams(context);
  forget_partitions();
  if (Client* client = Client::last()) client->context_ended(context);
}

CUcontext current_context() {
  static const auto get = driver<CUresult (*)(CUcontext*)>("cuCtxGetCurrent");
  CUcontext context = nullptr;
  return get != nullptr && get(&context) == CUDA_SUCCESS ? context : nullptr;
}

bool primary_context_is_there(CUdevice device) {
  static const auto state_of = driver<CUresult (*)(CUdevice, unsigned*, int*)>("cuDevicePrimaryCtxGetState");
  unsigned flags = 0;
  int active = 0;
  return state_of == nullptr || (state_of(device, &flags, &active) == CUDA_SUCCESS && active != 0);
}

CUcontext primary_context(CUdevice device) {
  static const auto retain = driver<CUresult (*)(CUcontext*, CUdevice)>("cuDevicePrimaryCtxRetain");
  static const auto release = driver<CUresult (*)(CUdevice)>("cuDevicePrimaryCtxRelease_v2");
  CUcontext context = nullptr;
  if (retain == nullptr || release == nullptr || !primary_context_is_there(device) || retain(&context, device) != CUDA_SUCCESS) return nullptr;
  release(device);
  return context;
}

}  // namespace corun::live
