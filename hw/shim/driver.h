// The driver's functions behind those of the library: looked up in the real libcuda.so.1, never in this one.
#pragma once

namespace corun::live {

/// Null: this driver has none of that name.
void* driver_function(const char* name);

template <class Function>
Function driver(const char* name) {
  return reinterpret_cast<Function>(driver_function(name));
}

/// dlsym as the C library has it.  Were it not noexcept, the library's own dlsym could not jump to it.
void* plain_dlsym(void* handle, const char* name) noexcept;

}  // namespace corun::live
