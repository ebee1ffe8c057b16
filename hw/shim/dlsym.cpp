// The dlsym that a program finds, which answers for the driver's names.
//
// It jumps on to the C library's, which sees by the return address who asks: RTLD_NEXT is what comes behind the caller.
// A sanitizer's runtime looks up by this dlsym what it replaces, before it has begun.  So this file is optimised and compiled
// without sanitizers in every build (hw/CMakeLists.txt, decision 371), and but for the driver's names calls nothing else.
#include <dlfcn.h>

#include <atomic>

#include "hw/shim/driver.h"
#include "hw/shim/hooks.h"

namespace corun::live {
namespace {

using Look = void* (*)(void*, const char*) noexcept;

[[gnu::noinline]] Look in_c_library() noexcept {
  for (const char* version : {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"})
    if (void* found = dlvsym(RTLD_NEXT, "dlsym", version)) return reinterpret_cast<Look>(found);
  return nullptr;
}

}  // namespace

void* plain_dlsym(void* handle, const char* name) noexcept {
  // Not a static made at its first use: its guard is a call that ThreadSanitizer answers for.
  static constinit std::atomic<Look> known{nullptr};
  Look look = known.load(std::memory_order_relaxed);
  if (look == nullptr) {
    look = in_c_library();
    if (look == nullptr) return nullptr;
    known.store(look, std::memory_order_relaxed);
  }
  return look(handle, name);
}

}  // namespace corun::live

extern "C" [[gnu::visibility("default")]] void* dlsym(void* handle, const char* name) noexcept {
  if (name[0] == 'c' && name[1] == 'u')
    if (void* own = corun::live::in_place_of(name)) return own;
  return corun::live::plain_dlsym(handle, name);
}
