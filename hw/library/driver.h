// The driver's functions behind those of the library: looked up in the real libcuda.so.1, never in this one.
#pragma once

namespace corun::live {

/// Null: this driver has none of that name.
void* driver_function(const char* name);

template <class Function>
Function driver(const char* name) {
  return reinterpret_cast<Function>(driver_function(name));
}

/// dlsym as the C library has it.
void* plain_dlsym(void* handle, const char* name);

}  // namespace corun::live
