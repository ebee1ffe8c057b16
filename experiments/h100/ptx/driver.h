// The CUDA driver, found by its name as programs find it, for the small programs here: what fails ends them with its place.
#pragma once

#include <cuda.h>
#include <dlfcn.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

static void* const lib = dlopen("libcuda.so.1", RTLD_NOW);
template <class F>
F get(const char* name) {
  return reinterpret_cast<F>(dlsym(lib, name));
}
#define FN(n) auto n##_ = get<decltype(&n)>(#n)
#define FN2(n, s) auto n##_ = get<decltype(&n)>(s)
#define OK(e)                                                   \
  do {                                                          \
    CUresult r_ = (e);                                          \
    if (r_ != CUDA_SUCCESS) {                                   \
      std::printf("failed %s: %d line %d\n", #e, r_, __LINE__); \
      std::fflush(stdout);                                      \
      _exit(1);                                                 \
    }                                                           \
  } while (0)

/// us.
[[maybe_unused]] static double now() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
[[maybe_unused]] static std::string read(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}
