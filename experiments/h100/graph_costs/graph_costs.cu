// What a kernel of a graph, and a graph's launch, cost where they run: on the whole GPU or in a green
// context, as a client of MPS or not (which the environment says).  Chains of dependent kernels, each of
// which writes down when its first block began and its last one ended, by the GPU's clock.
//
//   graph_costs measure NAME PLACE OUT   PLACE: whole, or a number of SMs, of which a green context has at
//   least so many; lines of JSON graph_costs beside WAY FOLDER        until FOLDER/stop is there: idle (a
//   context and memory), streams (idle, with 128 streams of four
//                                        priorities), endless (a kernel of one block that does not
//                                        end), stream or graph (kernels of one block and 5 us, one after the
//                                        other); FOLDER/ready says that it has begun
#include <cuda.h>
#include <cuda_runtime.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#define CHECK(call)                                                                            \
  do {                                                                                         \
    if (const auto failed = (call); failed != 0) {                                             \
      std::fprintf(stderr, "%s:%d: error %d\n", __FILE__, __LINE__, static_cast<int>(failed)); \
      std::exit(1);                                                                            \
    }                                                                                          \
  } while (0)

using u64 = unsigned long long;
constexpr int kThreads = 256;
constexpr int kMostKernels = 300;

__device__ u64 now() {
  u64 t;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
  return t;
}

/// Of the kernel with a number in its chain: when its first block began, when its last ended.
struct Stamps {
  u64 *begin, *end;
  int index;
  __device__ void begun() const {
    if (threadIdx.x == 0 && begin != nullptr) atomicMin(begin + index, now());
  }
  __device__ void ended() const {
    __syncthreads();
    if (threadIdx.x == 0 && begin != nullptr) atomicMax(end + index, now());
  }
};

/// Dependent FMAs.  Each function has constants and code of its own.
template <int function, int unrolled>
__global__ void __launch_bounds__(kThreads) compute(int rounds, float* out, Stamps stamps) {
  stamps.begun();
  float x = threadIdx.x;
  for (int r = 0; r < rounds; ++r) {
#pragma unroll
    for (int i = 0; i < unrolled; ++i) x = fmaf(x, 1.0f + 1e-6f * (function * unrolled + i), 0.5f * i);
  }
  if (x == 12345.678f) out[threadIdx.x] = x;
  stamps.ended();
}

/// Reads and writes all of a part of the memory.
__global__ void __launch_bounds__(kThreads) move(const float4* in, float4* out, int count, Stamps stamps) {
  stamps.begun();
  for (int i = blockIdx.x * kThreads + threadIdx.x; i < count; i += gridDim.x * kThreads) {
    float4 v = in[i];
    v.x = v.x * 1.5f + 1, v.y = v.y * 1.5f + 1, v.z = v.z * 1.5f + 1, v.w = v.w * 1.5f + 1;
    out[i] = v;
  }
  stamps.ended();
}

__global__ void endless(volatile int* stop) {
  while (*stop == 0) {
  }
}
__global__ void spin(unsigned ns) {
  const u64 begun = now();
  while (now() - begun < ns) {
  }
}

constexpr int kFunctions = 40;
constexpr int kShort = 64, kLong = 512;  // FMAs unrolled: 1 and 8 KB of code
using Compute = void (*)(int, float*, Stamps);
template <int unrolled, int... f>
std::vector<Compute> functions(std::integer_sequence<int, f...>) {
  return {compute<f, unrolled>...};
}

template <class F>
F driver(const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult status;
  CHECK(cudaGetDriverEntryPointByVersion(name, &found, 13000, cudaEnableDefault, &status));
  return reinterpret_cast<F>(found);
}

/// A stream in a green context of the driver's default groups, at least so many SMs.
cudaStream_t green_stream(unsigned at_least, unsigned& sms) {
  const auto resource =
      driver<CUresult (*)(CUdevice, CUdevResource*, CUdevResourceType)>("cuDeviceGetDevResource");
  const auto split = driver<CUresult (*)(CUdevResource*, unsigned*, const CUdevResource*, CUdevResource*,
                                         unsigned, unsigned)>("cuDevSmResourceSplitByCount");
  const auto describe =
      driver<CUresult (*)(CUdevResourceDesc*, CUdevResource*, unsigned)>("cuDevResourceGenerateDesc");
  const auto create =
      driver<CUresult (*)(CUgreenCtx*, CUdevResourceDesc, CUdevice, unsigned)>("cuGreenCtxCreate");
  const auto make = driver<CUresult (*)(CUstream*, CUgreenCtx, unsigned, int)>("cuGreenCtxStreamCreate");
  CUdevResource all{}, rest{};
  unsigned count = 0;
  CHECK(resource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
  CHECK(split(nullptr, &count, &all, nullptr, 0, 2));
  std::vector<CUdevResource> groups(count), mine;
  CHECK(split(groups.data(), &count, &all, &rest, 0, 2));
  groups.resize(count);
  if (rest.type == CU_DEV_RESOURCE_TYPE_SM && rest.sm.smCount > 0) groups.push_back(rest);
  sms = 0;
  for (std::size_t g = 0; g < groups.size() && sms < at_least; ++g)
    mine.push_back(groups[g]), sms += groups[g].sm.smCount;
  CUdevResourceDesc description{};
  CUgreenCtx context = nullptr;
  CUstream stream = nullptr;
  CHECK(describe(&description, mine.data(), static_cast<unsigned>(mine.size())));
  CHECK(create(&context, description, 0, CU_GREEN_CTX_DEFAULT_STREAM));
  CHECK(make(&stream, context, CU_STREAM_NON_BLOCKING, 0));
  return stream;
}

double at(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(share * (values.size() - 1))];
}

struct Chain {
  const char* kind;
  int blocks;
  double us;
};

class Measured {
 public:
  Measured(const char* name, const char* place, std::FILE* out) : name_(name), out_(out) {
    CHECK(cudaFree(nullptr));
    CHECK(cudaMalloc(&memory_, kBytes));
    CHECK(cudaMemset(memory_, 0, kBytes));
    CHECK(cudaMalloc(&stamps_, 2 * kMostKernels * sizeof(u64)));
    cudaDeviceProp of{};
    CHECK(cudaGetDeviceProperties(&of, 0));
    sms_ = of.multiProcessorCount;
    CHECK(cudaStreamCreateWithFlags(&plain_, cudaStreamNonBlocking));
    stream_ = std::strcmp(place, "whole") == 0 ? plain_ : green_stream(std::atoi(place), sms_);
    CHECK(cudaEventCreateWithFlags(&before_, cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&after_, cudaEventDisableTiming));
    short_ = functions<kShort>(std::make_integer_sequence<int, kFunctions>{});
    long_ = functions<kLong>(std::make_integer_sequence<int, kFunctions>{});
  }

  void all() {
    const std::vector<Chain> chains{
        {"one", 1, 2},    {"one", 1, 10},    {"one", 40, 5},     {"one", 132, 5},   {"one", 132, 20},
        {"one", 1056, 5}, {"short", 40, 5},  {"short", 132, 10}, {"long", 1, 5},    {"long", 40, 5},
        {"long", 132, 5}, {"long", 132, 20}, {"move", 132, 2},   {"move", 1056, 4}, {"move", 1056, 50}};
    const bool few = std::getenv("FEW") != nullptr;  // of the chains
    for (const Chain& c : chains) {
      if (few && std::string(c.kind) + std::to_string(c.blocks) != "one132" &&
          std::string(c.kind) != "long" && std::string(c.kind) != "move")
        continue;
      for (const int n : {10, 40, 100, 300}) {
        graph(c, n, true, stream_, "graph");
        graph(c, n, false, stream_, "graph");
        if (stream_ == plain_) continue;
        for (const bool stamped : {true, false}) {
          graph(c, n, stamped, plain_, "graph elsewhere");
          graph(c, n, stamped, plain_, "graph by lanes");
        }
      }
      if (c.us < 5) continue;
      in_stream(c, 100, "stream");
      if (stream_ != plain_) in_stream(c, 100, "stream by lanes");
    }
    graph(chains[3], 100, true, stream_, "graph, no flags", 0);
    graph(chains[10], 100, true, stream_, "graph, no flags", 0);
  }

 private:
  static constexpr std::size_t kBytes = 1 << 30;

  void launch(const Chain& c, int i, bool stamped, cudaStream_t s) {
    const Stamps stamps{stamped ? stamps_ : nullptr, stamps_ + kMostKernels, i};
    if (std::strcmp(c.kind, "move") == 0) {
      // 2 us: 1 MB to 1 MB, which stay in L2, 4 us: 4 MB; 50 us: 64 MB of DRAM, another part each time.
      const std::size_t bytes = c.us < 3 ? 1 << 20 : c.us < 10 ? 4 << 20 : 64 << 20;
      const std::size_t parts = c.us < 10 ? 2 : 8, from = i % parts * bytes, to = (i + 1) % parts * bytes;
      move<<<c.blocks, kThreads, 0, s>>>(reinterpret_cast<float4*>(memory_ + from),
                                         reinterpret_cast<float4*>(memory_ + to),
                                         static_cast<int>(bytes / sizeof(float4)), stamps);
    } else {
      const bool is_long = std::strcmp(c.kind, "long") == 0;
      const int unrolled = is_long ? kLong : kShort;
      // A block of 8 warps alone on an SM does a dependent FMA each 4 cycles, eight blocks each 16.
      const double cycles = c.blocks > static_cast<int>(sms_) && sms_ > 100 ? 16 : 4;
      const int rounds = std::max(1, static_cast<int>(c.us * 1980 / cycles / unrolled + 0.5));
      const int f = std::strcmp(c.kind, "one") == 0 ? 0 : i % kFunctions;
      (is_long ? long_ : short_)[f]<<<c.blocks, kThreads, 0, s>>>(rounds, reinterpret_cast<float*>(memory_),
                                                                  stamps);
    }
    CHECK(cudaGetLastError());
  }

  void graph(const Chain& c, int n, bool stamped, cudaStream_t launched, const char* way,
             unsigned flags = cudaGraphInstantiateFlagAutoFreeOnLaunch |
                              cudaGraphInstantiateFlagUseNodePriority) {
    cudaGraph_t graph;
    cudaGraphExec_t made;
    const bool lanes = std::strcmp(way, "graph by lanes") == 0;
    const cudaStream_t captured = lanes ? plain_ : stream_;
    CHECK(cudaStreamBeginCapture(captured, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < n; ++i) lanes ? in_lane(c, i, stamped) : launch(c, i, stamped, stream_);
    CHECK(cudaStreamEndCapture(captured, &graph));
    CHECK(cudaGraphInstantiateWithFlags(&made, graph, flags));
    repeat(c, n, stamped, way, launched, [&] { CHECK(cudaGraphLaunch(made, launched)); });
    CHECK(cudaGraphExecDestroy(made));
    CHECK(cudaGraphDestroy(graph));
  }

  void in_stream(const Chain& c, int n, const char* way) {
    const bool lanes = std::strcmp(way, "stream by lanes") == 0;
    for (const bool stamped : {true, false})
      repeat(c, n, stamped, way, lanes ? plain_ : stream_, [&] {
        for (int i = 0; i < n; ++i) lanes ? in_lane(c, i, stamped) : launch(c, i, stamped, stream_);
      });
  }

  /// As the service's library does for a launch in the program's stream (hw/shim/lanes.h).
  void in_lane(const Chain& c, int i, bool stamped) {
    CHECK(cudaEventRecord(before_, plain_));
    CHECK(cudaStreamWaitEvent(stream_, before_, 0));
    launch(c, i, stamped, stream_);
    CHECK(cudaEventRecord(after_, stream_));
    CHECK(cudaStreamWaitEvent(plain_, after_, 0));
  }

  /// As a program's requests: each is waited for.
  template <class Go>
  void repeat(const Chain& c, int n, bool stamped, const char* way, cudaStream_t launched, Go go) {
    const int times = std::clamp(static_cast<int>(30000 / (n * (c.us + 2))), 8, 40);
    std::vector<double> wall, device, gaps, durations;
    std::vector<u64> seen(2 * kMostKernels);
    for (int t = -3; t < times; ++t) {
      if (stamped) {
        CHECK(cudaMemsetAsync(stamps_, 0xff, kMostKernels * sizeof(u64), launched));
        CHECK(cudaMemsetAsync(stamps_ + kMostKernels, 0, kMostKernels * sizeof(u64), launched));
        CHECK(cudaStreamSynchronize(launched));
      }
      const auto began = std::chrono::steady_clock::now();
      go();
      CHECK(cudaStreamSynchronize(launched));
      const double us =
          std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - began).count();
      if (t < 0) continue;
      wall.push_back(us);
      if (!stamped) continue;
      CHECK(cudaMemcpy(seen.data(), stamps_, 2 * kMostKernels * sizeof(u64), cudaMemcpyDeviceToHost));
      device.push_back(1e-3 * (seen[kMostKernels + n - 1] - seen[0]));
      double gap = 0, lasted = 0;
      for (int i = 0; i < n; ++i) {
        lasted += 1e-3 * (seen[kMostKernels + i] - seen[i]) / n;
        if (i > 0)
          gap += 1e-3 * (static_cast<double>(seen[i]) - static_cast<double>(seen[kMostKernels + i - 1])) /
                 (n - 1);
      }
      gaps.push_back(gap), durations.push_back(lasted);
    }
    std::fprintf(out_,
                 "{\"where\": \"%s\", \"sms\": %u, \"way\": \"%s\", \"kernels\": \"%s\", \"blocks\": %d, "
                 "\"us\": %g, \"n\": %d, \"wall_us\": [%.2f, %.2f, %.2f]",
                 name_, sms_, way, c.kind, c.blocks, c.us, n, at(wall, 0.25), at(wall, 0.5), at(wall, 0.75));
    if (stamped)
      std::fprintf(out_, ", \"device_us\": %.3f, \"gap_us\": %.4f, \"lasts_us\": %.4f", at(device, 0.5),
                   at(gaps, 0.5), at(durations, 0.5));
    std::fprintf(out_, "}\n");
  }

  const char* name_;
  std::FILE* out_;
  unsigned sms_ = 0;
  char* memory_ = nullptr;
  u64* stamps_ = nullptr;
  cudaStream_t plain_ = nullptr, stream_ = nullptr;
  cudaEvent_t before_ = nullptr, after_ = nullptr;
  std::vector<Compute> short_, long_;
};

void beside(const std::string& way, const std::string& folder) {
  CHECK(cudaFree(nullptr));
  char* memory;
  int* stop;
  CHECK(cudaMalloc(&memory, 256 << 20));
  CHECK(cudaMemset(memory, 0, 256 << 20));
  CHECK(cudaHostAlloc(&stop, sizeof *stop, cudaHostAllocMapped));
  *stop = 0;
  cudaStream_t s;
  CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  spin<<<1, 32, 0, s>>>(5000);
  CHECK(cudaStreamSynchronize(s));
  if (way == "streams")
    for (int i = 0; i < 128; ++i) {
      cudaStream_t more;
      CHECK(cudaStreamCreateWithPriority(&more, cudaStreamNonBlocking, -(i % 4)));
      spin<<<1, 32, 0, more>>>(5000);
      CHECK(cudaStreamSynchronize(more));
    }
  cudaGraph_t graph;
  cudaGraphExec_t made = nullptr;
  if (way == "endless") endless<<<1, 32, 0, s>>>(stop);
  if (way == "graph") {
    CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < 200; ++i) spin<<<1, 32, 0, s>>>(5000);
    CHECK(cudaStreamEndCapture(s, &graph));
    CHECK(cudaGraphInstantiateWithFlags(&made, graph, 0));
  }
  std::fclose(std::fopen((folder + "/ready").c_str(), "w"));
  while (access((folder + "/stop").c_str(), F_OK) != 0) {
    if (way == "stream") {
      for (int i = 0; i < 200; ++i) spin<<<1, 32, 0, s>>>(5000);
    } else if (way == "graph") {
      CHECK(cudaGraphLaunch(made, s));
    } else {
      usleep(5000);
      continue;
    }
    CHECK(cudaStreamSynchronize(s));
  }
  *stop = 1;
  CHECK(cudaStreamSynchronize(s));
}

int main(int argc, char** argv) {
  if (argc == 5 && std::strcmp(argv[1], "measure") == 0) {
    std::FILE* out = std::fopen(argv[4], "a");
    Measured(argv[2], argv[3], out).all();
    return std::fclose(out);
  }
  if (argc == 4 && std::strcmp(argv[1], "beside") == 0) return beside(argv[2], argv[3]), 0;
  std::fprintf(stderr, "graph_costs measure NAME PLACE OUT | graph_costs beside WAY FOLDER\n");
  return 2;
}
