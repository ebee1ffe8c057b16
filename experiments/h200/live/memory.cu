// What it costs to take a program's memory away and to give it back behind the same address: microseconds of the driver's calls that make, map,
// unmap and release device memory, and GB/s of the copies to the host and back; and whether kernels and a graph find their data again.
//   nvcc -O2 -std=c++17 -arch=sm_90 -o memory memory.cu -lcuda && ./memory
// "behind a kernel": while a kernel of 20 ms runs in another stream; "twice": two programs at once (start it two times).
#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

__global__ void spin(long long ns) {
  for (const long long begin = clock64(); clock64() - begin < ns * 2;) {
  }
}
__global__ void fill(unsigned* to, unsigned n, unsigned by) {
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) to[i] = i * by;
}
__global__ void add(unsigned* to, unsigned n) {
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) to[i] += 1;
}
__global__ void differ(const unsigned* in, unsigned n, unsigned by, unsigned plus, unsigned* wrong) {
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    if (in[i] != i * by + plus) atomicAdd(wrong, 1u);
}

static double now_us() { return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count(); }
static void check(CUresult r, int line) {
  const char* name = nullptr;
  if (r == CUDA_SUCCESS) return;
  cuGetErrorName(r, &name);
  std::printf("{\"failed\": \"%s\", \"line\": %d}\n", name != nullptr ? name : "?", line);
  std::exit(1);
}
#define CHECK(call) check(call, __LINE__)
#define CHECK_RT(call) check(static_cast<CUresult>(call), __LINE__)

struct Times {
  std::vector<double> create, map, access, unmap, release;
};
static double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

int main() {
  CHECK_RT(cudaFree(nullptr));
  CUmemAllocationProp where{};
  where.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  where.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  std::size_t grain = 0;
  CHECK(cuMemGetAllocationGranularity(&grain, &where, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  std::printf("{\"what\": \"granularity\", \"bytes\": %zu}\n", grain);
  CUmemAccessDesc both{};
  both.location = where.location;
  both.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  cudaStream_t work, beside;
  CHECK_RT(cudaStreamCreateWithFlags(&work, cudaStreamNonBlocking));
  CHECK_RT(cudaStreamCreateWithFlags(&beside, cudaStreamNonBlocking));
  unsigned* wrong = nullptr;
  CHECK_RT(cudaMallocManaged(&wrong, sizeof *wrong));
  *wrong = 0;

  for (const bool behind : {false, true})
    for (const std::size_t mib : {2u, 20u, 256u, 2048u}) {
      const std::size_t bytes = mib << 20;
      CUdeviceptr at = 0;
      CHECK(cuMemAddressReserve(&at, bytes, 0, 0, 0));
      Times t;
      for (int i = 0; i < 7; ++i) {
        if (behind) spin<<<1, 32, 0, beside>>>(20'000'000);
        CUmemGenericAllocationHandle handle;
        const double a = now_us();
        CHECK(cuMemCreate(&handle, bytes, &where, 0));
        const double b = now_us();
        CHECK(cuMemMap(at, bytes, 0, handle, 0));
        const double c = now_us();
        CHECK(cuMemSetAccess(at, bytes, &both, 1));
        const double d = now_us();
        CHECK(cuMemUnmap(at, bytes));
        const double e = now_us();
        CHECK(cuMemRelease(handle));
        const double f = now_us();
        t.create.push_back(b - a), t.map.push_back(c - b), t.access.push_back(d - c), t.unmap.push_back(e - d), t.release.push_back(f - e);
        CHECK_RT(cudaStreamSynchronize(beside));
      }
      std::printf("{\"what\": \"calls%s\", \"mib\": %zu, \"create_us\": %.1f, \"map_us\": %.1f, \"access_us\": %.1f, \"unmap_us\": %.1f, \"release_us\": %.1f}\n",
                  behind ? " behind a kernel" : "", mib, median(t.create), median(t.map), median(t.access), median(t.unmap), median(t.release));
      CHECK(cuMemAddressFree(at, bytes));
    }

  // A checkpoint and a restore, and a graph that was captured before.
  const std::size_t bytes = std::size_t{1} << 30;
  const auto n = static_cast<unsigned>(bytes / 4);
  CUdeviceptr at = 0;
  CUmemGenericAllocationHandle handle;
  CHECK(cuMemAddressReserve(&at, bytes, 0, 0, 0));
  const auto give = [&] { CHECK(cuMemCreate(&handle, bytes, &where, 0)), CHECK(cuMemMap(at, bytes, 0, handle, 0)), CHECK(cuMemSetAccess(at, bytes, &both, 1)); };
  give();
  auto* data = reinterpret_cast<unsigned*>(at);
  fill<<<264, 512, 0, work>>>(data, n, 7);
  CHECK_RT(cudaStreamSynchronize(work));
  cudaGraph_t graph;
  cudaGraphExec_t made;
  CHECK_RT(cudaStreamBeginCapture(work, cudaStreamCaptureModeThreadLocal));
  add<<<264, 512, 0, work>>>(data, n);
  CHECK_RT(cudaStreamEndCapture(work, &graph));
  CHECK_RT(cudaGraphInstantiate(&made, graph, 0));
  double begin = now_us();
  void* pinned = nullptr;
  CHECK(cuMemHostAlloc(&pinned, bytes, 0));
  std::printf("{\"what\": \"1 GiB of pinned host memory\", \"us\": %.0f}\n", now_us() - begin);
  for (int i = 1; i <= 4; ++i) {
    begin = now_us();
    CHECK(cuMemcpyDtoHAsync(pinned, at, bytes, work));
    CHECK_RT(cudaStreamSynchronize(work));
    const double out = now_us();
    CHECK(cuMemUnmap(at, bytes));
    CHECK(cuMemRelease(handle));
    const double gone = now_us();
    give();
    const double there = now_us();
    CHECK(cuMemcpyHtoDAsync(at, pinned, bytes, work));
    CHECK_RT(cudaStreamSynchronize(work));
    const double back = now_us();
    CHECK_RT(cudaGraphLaunch(made, work));
    differ<<<264, 512, 0, work>>>(data, n, 7, static_cast<unsigned>(i), wrong);
    CHECK_RT(cudaStreamSynchronize(work));
    std::printf("{\"what\": \"checkpoint and restore of 1 GiB\", \"out_gb_s\": %.1f, \"released_us\": %.0f, \"given_us\": %.0f, \"in_gb_s\": %.1f, \"wrong\": %u}\n",
                bytes / (out - begin) / 1e3, gone - out, there - gone, bytes / (back - there) / 1e3, *wrong);
  }
  // The driver's own way of allocating, for comparison.
  std::vector<double> allocate, free_it;
  for (int i = 0; i < 7; ++i) {
    CUdeviceptr p = 0;
    begin = now_us();
    CHECK(cuMemAlloc(&p, 20 << 20));
    const double middle = now_us();
    CHECK(cuMemFree(p));
    allocate.push_back(middle - begin), free_it.push_back(now_us() - middle);
  }
  std::printf("{\"what\": \"cuMemAlloc of 20 MiB\", \"us\": %.1f, \"free_us\": %.1f}\n", median(allocate), median(free_it));
}
