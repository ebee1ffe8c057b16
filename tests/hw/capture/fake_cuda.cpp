// A driver that knows an H200 and nothing else: how many SMs a program sees, of which MPS may leave it a part.
#include <cuda.h>

#include <cstdlib>
#include <cstring>

extern "C" {
CUresult CUDAAPI cuDeviceGetCount(int* count) { return *count = 1, CUDA_SUCCESS; }
CUresult CUDAAPI cuDeviceGetName(char* name, int length, CUdevice) {
  return std::strncpy(name, "NVIDIA H200", static_cast<std::size_t>(length)), CUDA_SUCCESS;
}
CUresult CUDAAPI cuDeviceGetAttribute(int* value, CUdevice_attribute, CUdevice) {
  const char* percentage = std::getenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
  *value = percentage != nullptr ? 132 * std::atoi(percentage) / 200 * 2 : 132;
  return CUDA_SUCCESS;
}
}
