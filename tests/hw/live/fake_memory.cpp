// The fake driver's memory: memory of the host.  What is mapped by cuMemMap is a file without a name behind a range of
// addresses, so that whoever touches it while it is away ends with a segmentation fault.
// CORUN_FAKE_MEMORY: a file in which all processes count the bytes that were created, and the most that there were; created
// memory has a limit of CORUN_FAKE_LIMIT bytes, if that is there.
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "fake_driver.h"

namespace {

struct Count {
  std::atomic<std::uint64_t> now{0}, most{0};
};

Count& count() {
  static Count* const shared = [] {
    const char* name = std::getenv("CORUN_FAKE_MEMORY");
    if (name == nullptr) return new Count;
    const int fd = open(name, O_RDWR | O_CREAT, 0600);
    if (ftruncate(fd, sizeof(Count)) != 0) std::abort();
    void* at = mmap(nullptr, sizeof(Count), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return static_cast<Count*>(at);
  }();
  return *shared;
}

std::mutex mutex;
std::map<CUdeviceptr, std::size_t> allocated;                 // as cuMemAlloc does
std::map<CUmemGenericAllocationHandle, std::size_t> created;  // by the file's number

void* host(CUdeviceptr at) { return reinterpret_cast<void*>(at); }

}  // namespace

extern "C" {
CUresult cuMemAlloc_v2(CUdeviceptr* at, size_t bytes) {
  if (bytes > std::size_t{1} << 30) return CUDA_ERROR_OUT_OF_MEMORY;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const std::scoped_lock lock(mutex);
  *at = reinterpret_cast<CUdeviceptr>(memory);
  allocated[*at] = bytes;
  return CUDA_SUCCESS;
}
CUresult cuMemFree_v2(CUdeviceptr at) {
  const std::scoped_lock lock(mutex);
  const auto found = allocated.find(at);
  if (found == allocated.end()) return CUDA_ERROR_INVALID_VALUE;
  munmap(host(at), found->second);
  allocated.erase(found);
  return CUDA_SUCCESS;
}
CUresult cuMemAllocAsync(CUdeviceptr* at, size_t bytes, CUstream) { return cuMemAlloc_v2(at, bytes); }
CUresult cuMemFreeAsync(CUdeviceptr at, CUstream stream) { return finish(stream), cuMemFree_v2(at); }
CUresult cuMemGetInfo_v2(size_t* left, size_t* all) {
  return *left = std::size_t{70} << 30, *all = std::size_t{80} << 30, CUDA_SUCCESS;
}
CUresult cuMemGetAddressRange_v2(CUdeviceptr* at, size_t* bytes, CUdeviceptr address) {
  const std::scoped_lock lock(mutex);
  auto found = allocated.upper_bound(address);
  if (found == allocated.begin()) return CUDA_ERROR_INVALID_VALUE;
  --found;
  return *at = found->first, *bytes = found->second, CUDA_SUCCESS;
}
CUresult cuIpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr) {
  return std::memset(handle, 1, sizeof *handle), CUDA_SUCCESS;
}
CUresult cuMemHostAlloc(void** at, size_t bytes, unsigned) { return *at = std::malloc(bytes), CUDA_SUCCESS; }
CUresult cuMemFreeHost(void* at) { return std::free(at), CUDA_SUCCESS; }

CUresult cuMemGetAllocationGranularity(size_t* unit, const CUmemAllocationProp*,
                                       CUmemAllocationGranularity_flags) {
  return *unit = 2 << 20, CUDA_SUCCESS;
}
CUresult cuMemAddressReserve(CUdeviceptr* at, size_t bytes, size_t, CUdeviceptr, unsigned long long) {
  void* range = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return *at = reinterpret_cast<CUdeviceptr>(range),
         range == MAP_FAILED ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}
CUresult cuMemAddressFree(CUdeviceptr at, size_t bytes) { return munmap(host(at), bytes), CUDA_SUCCESS; }
CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes, const CUmemAllocationProp*,
                     unsigned long long) {
  const char* limit = std::getenv("CORUN_FAKE_LIMIT");
  const std::uint64_t now = count().now.fetch_add(bytes) + bytes;
  if (limit != nullptr && now > std::strtoull(limit, nullptr, 10))
    return count().now.fetch_sub(bytes), CUDA_ERROR_OUT_OF_MEMORY;
  for (std::uint64_t most = count().most; most < now && !count().most.compare_exchange_weak(most, now);) {
  }
  const int fd = memfd_create("device", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(bytes)) != 0) std::abort();
  const std::scoped_lock lock(mutex);
  *handle = static_cast<CUmemGenericAllocationHandle>(fd);
  created[*handle] = bytes;
  return CUDA_SUCCESS;
}
CUresult cuMemMap(CUdeviceptr at, size_t bytes, size_t, CUmemGenericAllocationHandle handle,
                  unsigned long long) {
  if (mmap(host(at), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, static_cast<int>(handle), 0) == MAP_FAILED)
    return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}
CUresult cuMemSetAccess(CUdeviceptr at, size_t bytes, const CUmemAccessDesc*, size_t) {
  return mprotect(host(at), bytes, PROT_READ | PROT_WRITE) == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuMemUnmap(CUdeviceptr at, size_t bytes) {
  mmap(host(at), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
  return CUDA_SUCCESS;
}
/// Behind cuMemUnmap, as the library does.
CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  const std::scoped_lock lock(mutex);
  count().now.fetch_sub(created.at(handle));
  created.erase(handle);
  close(static_cast<int>(handle));
  return CUDA_SUCCESS;
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  return enqueue(stream, [=] { std::memcpy(host(to), from, bytes); }), CUDA_SUCCESS;
}
CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return enqueue(stream, [=] { std::memcpy(to, host(from), bytes); }), CUDA_SUCCESS;
}
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, size_t bytes) {
  return cuMemcpyHtoDAsync_v2(to, from, bytes, nullptr), finish(nullptr), CUDA_SUCCESS;
}
CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, size_t bytes) {
  return cuMemcpyDtoHAsync_v2(to, from, bytes, nullptr), finish(nullptr), CUDA_SUCCESS;
}
CUresult cuMemsetD32_v2(CUdeviceptr at, unsigned value, size_t count) {
  enqueue(nullptr, [=] { std::fill_n(static_cast<unsigned*>(host(at)), count, value); });
  return finish(nullptr), CUDA_SUCCESS;
}
}
