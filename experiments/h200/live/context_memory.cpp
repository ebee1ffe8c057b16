// Created and mapped device memory, and pinned host memory, after cuDevicePrimaryCtxReset, the last release and cuCtxDestroy (decision
// 443): a process and a line of JSON each.  `free_mib`: before the allocation, after it, after the call, and after unmap and release.
//   g++ -O2 -std=c++17 -o context_memory context_memory.cpp -lcuda && ./context_memory
#include <cuda.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

static const char* const kWays[] = {"reset", "release", "destroy-own", "destroy-primary"};
constexpr std::size_t kBytes = std::size_t{1} << 30;

static std::size_t free_mib() {  // retains the primary context for the question
  CUcontext c;
  std::size_t left = 0, all = 0;
  cuDevicePrimaryCtxRetain(&c, 0), cuCtxSetCurrent(c), cuMemGetInfo(&left, &all);
  cuDevicePrimaryCtxRelease(0);
  return left >> 20;
}

static void play(const char* way) {
  CUcontext c = nullptr;
  cuInit(0);
  const bool own = std::strcmp(way, "destroy-own") == 0;
#if CUDA_VERSION >= 13000
  if (own) cuCtxCreate(&c, nullptr, 0, 0);
#else
  if (own) cuCtxCreate(&c, 0, 0);
#endif
  if (!own) cuDevicePrimaryCtxRetain(&c, 0), cuCtxSetCurrent(c);
  std::size_t before = 0, all = 0, with = 0;
  cuMemGetInfo(&before, &all);
  CUmemAllocationProp where{};
  where.type = CU_MEM_ALLOCATION_TYPE_PINNED, where.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  const CUmemAccessDesc both{where.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr at = 0;
  void* pinned = nullptr;
  unsigned seen = 0;
  const int made = cuMemAddressReserve(&at, kBytes, 0, 0, 0) | cuMemCreate(&handle, kBytes, &where, 0) | cuMemMap(at, kBytes, 0, handle, 0) |
                   cuMemSetAccess(at, kBytes, &both, 1) | cuMemHostAlloc(&pinned, 1 << 20, CU_MEMHOSTALLOC_PORTABLE) | cuMemsetD32(at, 7, 1);
  cuMemGetInfo(&with, &all);
  const int said = way[0] == 'r' ? (way[2] == 's' ? cuDevicePrimaryCtxReset(0) : cuDevicePrimaryCtxRelease(0)) : cuCtxDestroy(c);
  unsigned flags = 0;
  int active = 0;
  cuDevicePrimaryCtxGetState(0, &flags, &active);
  std::printf("{\"way\": \"%s\", \"made\": %d, \"said\": %d, \"primary_active\": %d, \"free_mib\": [%zu, %zu", way, made, said, active, before >> 20, with >> 20);
  std::fflush(stdout);
  const int synchronized = cuCtxSynchronize();
  const int read = said == 0 ? -1 : static_cast<int>(cuMemcpyDtoH(&seen, at, 4));
  const std::size_t after = said == 0 ? free_mib() : 0;
  const int unmap = cuMemUnmap(at, kBytes), release = cuMemRelease(handle), unreserve = cuMemAddressFree(at, kBytes);
  const std::size_t given_back = free_mib();
  std::printf(", %zu, %zu], \"synchronize\": %d, \"read\": %d, \"content\": %u, \"unmap\": %d, \"release\": %d, \"unreserve\": %d", after, given_back, synchronized, read, seen, unmap, release, unreserve);
  std::fflush(stdout);
  std::printf(", \"unpin\": %d}\n", static_cast<int>(cuMemFreeHost(pinned)));
}

int main() {
  for (const char* way : kWays) {
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0) return play(way), 0;
    int status = 0;
    waitpid(child, &status, 0);
    if (status != 0) std::printf("\n{\"way\": \"%s\", \"status\": %d}\n", way, status);
  }
}
