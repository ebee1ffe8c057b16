// What processes that share an H200 get: the SMs of an MPS client by its percentage, and time slices without
// MPS.  One process of this program per client; run.py starts them.  One JSON record on the last line.
//
//   processes sms [FILE US BLOCKS MS]   which SMs run my blocks; with FILE: BLOCKS that last US each, MS after
//                                       FILE exists; BLOCKS 0: as many as fill my SMs
//   processes turns FILE MS     when I have the GPU, as %globaltimer shows it, once FILE exists
//   processes moves             host time of the virtual-memory calls, with a kernel running and without
//
// Leaves out: what the client's kernels lose to each other (the policies' runs measure that).
#include <cuda.h>
#include <cuda_runtime.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#define CHECK(call)                                                                    \
  do {                                                                                 \
    const cudaError_t e = (call);                                                      \
    if (e != cudaSuccess) {                                                            \
      std::printf("{\"error\": \"%s: %s\"}\n", #call, cudaGetErrorString(e));          \
      std::exit(1);                                                                    \
    }                                                                                  \
  } while (0)
#define CHECK_DRIVER(call)                                                  \
  do {                                                                      \
    const CUresult e = (call);                                              \
    if (e != CUDA_SUCCESS) {                                                \
      std::printf("{\"error\": \"%s: %d\"}\n", #call, static_cast<int>(e)); \
      std::exit(1);                                                         \
    }                                                                       \
  } while (0)

__device__ unsigned long long timer() {
  unsigned long long t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
  return t;
}

/// Where each block ran, and from when to when.
__global__ void where(unsigned* sm, unsigned long long* from, unsigned long long* to, unsigned long long ns) {
  const unsigned long long begin = timer();
  while (timer() - begin < ns) {
  }
  if (threadIdx.x == 0) {
    unsigned id;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(id));
    sm[blockIdx.x] = id, from[blockIdx.x] = begin, to[blockIdx.x] = timer();
  }
}

constexpr unsigned kTurns = 4096;
/// The times at which it ran without a break of 20 us.
__global__ void turns(unsigned long long* from, unsigned long long* to, unsigned* n, unsigned long long ns) {
  unsigned long long begin = timer(), last = begin;
  unsigned count = 0;
  const unsigned long long end = begin + ns;
  while (last < end) {
    const unsigned long long now = timer();
    if (now - last > 20000) {
      if (count < kTurns) from[count] = begin, to[count] = last, ++count;
      begin = now;
    }
    last = now;
  }
  if (count < kTurns) from[count] = begin, to[count] = last, ++count;
  *n = count;
}

template <class T>
T* managed_by_host(std::size_t n) {
  T* p = nullptr;
  CHECK(cudaMallocHost(&p, n * sizeof(T)));
  std::memset(p, 0, n * sizeof(T));
  return p;
}
void wait_for(const char* file) {
  for (int i = 0; access(file, F_OK) != 0; ++i) {
    if (i > 3'000'000) std::exit(2);
    usleep(10);
  }
}
double us_now() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int sms(int argc, char** argv) {
  cudaDeviceProp properties{};
  CHECK(cudaGetDeviceProperties(&properties, 0));
  constexpr unsigned kBlocks = 132 * 4;
  unsigned blocks = argc > 5 ? std::atoi(argv[4]) : kBlocks;
  if (blocks == 0) blocks = 2 * properties.multiProcessorCount;  // of 1,024 threads: two an SM
  auto* sm = managed_by_host<unsigned>(kBlocks);
  auto* from = managed_by_host<unsigned long long>(kBlocks);
  auto* to = managed_by_host<unsigned long long>(kBlocks);
  where<<<kBlocks, 1024>>>(sm, from, to, 1000);  // loads the code
  CHECK(cudaDeviceSynchronize());
  if (argc > 2) {
    std::printf("ready\n");
    std::fflush(stdout);
    wait_for(argv[2]);
    if (argc > 5) usleep(std::atoi(argv[5]) * 1000);
  }
  const unsigned long long ns = argc > 3 ? std::atoi(argv[3]) * 1000ull : 50000;
  where<<<blocks, 1024>>>(sm, from, to, ns);
  CHECK(cudaDeviceSynchronize());
  const std::set<unsigned> used(sm, sm + blocks);
  const unsigned long long earliest = *std::min_element(from, from + blocks);
  const auto first_wave = std::count_if(from, from + blocks, [&](auto t) { return t < earliest + ns / 2; });
  std::printf("{\"reported_sms\": %d, \"used\": [", properties.multiProcessorCount);
  bool first = true;
  for (unsigned id : used) std::printf("%s%u", first ? "" : ", ", id), first = false;
  std::printf("], \"began_ns\": %llu, \"ended_ns\": %llu, \"first_wave\": %d}\n", earliest,
              *std::max_element(to, to + blocks), static_cast<int>(first_wave));
  return 0;
}

int turns_of_mine(char** argv) {
  auto* from = managed_by_host<unsigned long long>(kTurns);
  auto* to = managed_by_host<unsigned long long>(kTurns);
  auto* n = managed_by_host<unsigned>(1);
  // Timers stay in registers and each turn is written once, so that nobody waits for the host's memory.
  turns<<<1, 1>>>(from, to, n, 1000);
  CHECK(cudaDeviceSynchronize());
  std::printf("ready\n");
  std::fflush(stdout);
  wait_for(argv[2]);
  turns<<<1, 1>>>(from, to, n, std::atoi(argv[3]) * 1000000ull);
  CHECK(cudaDeviceSynchronize());
  std::printf("{\"turns_ns\": [");
  for (unsigned i = 0; i < *n; ++i) std::printf("%s[%llu, %llu]", i ? ", " : "", from[i], to[i]);
  std::printf("]}\n");
  return 0;
}

struct Timed {
  std::vector<double> us;
  template <class What>
  void operator()(What&& what) {
    const double begin = us_now();
    what();
    us.push_back(us_now() - begin);
  }
  double median() {
    std::sort(us.begin(), us.end());
    return us.empty() ? 0 : us[us.size() / 2];
  }
};

int moves() {
  CHECK(cudaFree(nullptr));
  CUdevice device = 0;
  CHECK_DRIVER(cuCtxGetDevice(&device));
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  CUmemAccessDesc access{prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  std::size_t granularity = 0;
  CHECK_DRIVER(cuMemGetAllocationGranularity(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
  std::printf("{\"granularity\": %zu, \"calls\": [", granularity);
  cudaStream_t s, other;
  CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  auto* sm = managed_by_host<unsigned>(1);
  auto* from = managed_by_host<unsigned long long>(1);
  bool comma = false;
  for (const bool busy : {false, true})
    for (const std::size_t size : {std::size_t{2} << 20, std::size_t{64} << 20, std::size_t{1} << 30}) {
      CUdeviceptr at = 0;
      CHECK_DRIVER(cuMemAddressReserve(&at, size, 0, 0, 0));
      Timed create, map, allow, unmap, release;
      for (int i = 0; i < 5; ++i) {
        CUmemGenericAllocationHandle h{};
        if (busy) where<<<1, 32, 0, other>>>(sm, from, from, 30'000'000ull);
        const double begin = us_now();
        create([&] { CHECK_DRIVER(cuMemCreate(&h, size, &prop, 0)); });
        map([&] { CHECK_DRIVER(cuMemMap(at, size, 0, h, 0)); });
        allow([&] { CHECK_DRIVER(cuMemSetAccess(at, size, &access, 1)); });
        CHECK(cudaMemsetAsync(reinterpret_cast<void*>(at), 1, size, s));
        CHECK(cudaStreamSynchronize(s));
        unmap([&] { CHECK_DRIVER(cuMemUnmap(at, size)); });
        release([&] { CHECK_DRIVER(cuMemRelease(h)); });
        if (busy && us_now() - begin > 30e3) std::fprintf(stderr, "a call waited for the kernel\n");
        CHECK(cudaDeviceSynchronize());
      }
      std::printf("%s{\"kernel_running\": %s, \"bytes\": %zu, \"create_us\": %.1f, \"map_us\": %.1f, "
                  "\"set_access_us\": %.1f, \"unmap_us\": %.1f, \"release_us\": %.1f}",
                  comma ? ", " : "", busy ? "true" : "false", size, create.median(), map.median(),
                  allow.median(), unmap.median(), release.median());
      comma = true;
      CHECK_DRIVER(cuMemAddressFree(at, size));
    }
  // In pieces of 32 MiB that are kept: what an allocation of 1 GiB costs then.
  constexpr std::size_t kPiece = std::size_t{32} << 20, kPieces = 32;
  std::vector<CUmemGenericAllocationHandle> pieces(kPieces);
  for (auto& h : pieces) CHECK_DRIVER(cuMemCreate(&h, kPiece, &prop, 0));
  CUdeviceptr at = 0;
  CHECK_DRIVER(cuMemAddressReserve(&at, kPiece * kPieces, 0, 0, 0));
  Timed map, allow, unmap;
  for (int i = 0; i < 5; ++i) {
    where<<<1, 32, 0, other>>>(sm, from, from, 30'000'000ull);
    map([&] {
      for (std::size_t p = 0; p < kPieces; ++p)
        CHECK_DRIVER(cuMemMap(at + p * kPiece, kPiece, 0, pieces[p], 0));
    });
    allow([&] { CHECK_DRIVER(cuMemSetAccess(at, kPiece * kPieces, &access, 1)); });
    CHECK(cudaMemsetAsync(reinterpret_cast<void*>(at), 1, kPiece * kPieces, s));
    CHECK(cudaStreamSynchronize(s));
    unmap([&] { CHECK_DRIVER(cuMemUnmap(at, kPiece * kPieces)); });
    CHECK(cudaDeviceSynchronize());
  }
  std::printf("], \"gib_in_kept_pieces\": {\"map_us\": %.1f, \"set_access_us\": %.1f, \"unmap_us\": %.1f}",
              map.median(), allow.median(), unmap.median());
  // The link: 1 GiB each way, alone and at the same time.
  {
    void *device_a = nullptr, *device_b = nullptr, *host_a = nullptr, *host_b = nullptr;
    constexpr std::size_t kBytes = std::size_t{1} << 30;
    CHECK(cudaMalloc(&device_a, kBytes));
    CHECK(cudaMalloc(&device_b, kBytes));
    CHECK(cudaHostAlloc(&host_a, kBytes, cudaHostAllocPortable));
    CHECK(cudaHostAlloc(&host_b, kBytes, cudaHostAllocPortable));
    const auto rate = [&](bool in, bool out) {
      Timed t;
      for (int i = 0; i < 5; ++i)
        t([&] {
          if (in) CHECK(cudaMemcpyAsync(device_a, host_a, kBytes, cudaMemcpyHostToDevice, s));
          if (out) CHECK(cudaMemcpyAsync(host_b, device_b, kBytes, cudaMemcpyDeviceToHost, other));
          CHECK(cudaDeviceSynchronize());
        });
      return kBytes / t.median() / 1000;
    };
    std::printf(", \"copy_gb_per_s\": {\"to_device\": %.2f", rate(true, false));
    std::printf(", \"to_host\": %.2f", rate(false, true));
    std::printf(", \"each_way_at_once\": %.2f}", rate(true, true));
    for (void* p : {device_a, device_b}) CHECK(cudaFree(p));
    for (void* p : {host_a, host_b}) CHECK(cudaFreeHost(p));
  }
  const double begin = us_now();
  void* host = nullptr;
  CHECK(cudaHostAlloc(&host, std::size_t{1} << 30, cudaHostAllocPortable));
  const double first = us_now();
  CHECK(cudaFreeHost(host));
  CHECK(cudaHostAlloc(&host, std::size_t{1} << 30, cudaHostAllocPortable));
  std::printf(", \"pinned_gib_us\": [%.0f, %.0f]}\n", first - begin, us_now() - first);
  return 0;
}

int main(int argc, char** argv) {
  const std::string job = argc > 1 ? argv[1] : "";
  if (job == "sms") return sms(argc, argv);
  if (job == "turns" && argc > 3) return turns_of_mine(argv);
  if (job == "moves") return moves();
  std::fprintf(stderr, "processes sms|turns|moves\n");
  return 2;
}
