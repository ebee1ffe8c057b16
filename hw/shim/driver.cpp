#include "hw/shim/driver.h"

#include <dlfcn.h>

namespace corun::live {

void* driver_function(const char* name) {
  static void* const library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  return library != nullptr ? plain_dlsym(library, name) : nullptr;
}

}  // namespace corun::live
