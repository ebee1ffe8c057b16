// What a launch takes longer beside others: chains of small kernels in a stream and in a graph, beside loads that are no
// program's, of the same process or of another client of MPS.  Each kernel of a chain writes down when its first block began
// and its last one ended, by the GPU's clock; the load's kernels leave it room on each SM and start all their blocks at once,
// but for those called "waves".
//
//   launches_beside load NAME FOLDER       runs a load until FOLDER/stop is there; FOLDER/ready says that it has begun; its
//                                          mean time a kernel goes to standard output
//   launches_beside measure WHERE LOAD     lines of JSON, one a chain; LOAD is "none", or a load to run in this process, or
//                                          what WHERE says of others, after a "-"
//   launches_beside loads                  names of the loads
#include <cuda_runtime.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <utility>
#include <string>
#include <thread>
#include <vector>

#define CHECK(call)                                                                                              \
  do {                                                                                                           \
    if (const cudaError_t failed = (call); failed != cudaSuccess) {                                                        \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(failed));                            \
      std::exit(1);                                                                                              \
    }                                                                                                            \
  } while (0)

using Clock = unsigned long long;
__device__ Clock now() {
  Clock t;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
  return t;
}

// ---- what is measured ---------------------------------------------------------------------------------------

/// An operation on `x` as an elementwise kernel does it, of a function of its own for each N, and then nothing until `ns` are over.
template <int N>
__global__ void small(Clock* at, float4* x, int ns) {
  const Clock begin = now();
  if (threadIdx.x == 0) atomicMin(&at[0], begin);
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  float4 v = x[i];
  v.x = v.x * (1.0f + N) + 0.5f;
  v.y = v.y * (2.0f + N) + 0.5f;
  x[i] = v;
  while (now() - begin < static_cast<Clock>(ns)) {
  }
  __syncthreads();
  if (threadIdx.x == 0) atomicMax(&at[1], now());
}

__global__ void chase(Clock* at, const unsigned* next, int steps) {
  unsigned i = threadIdx.x;
  const Clock begin = now();
  for (int s = 0; s < steps; ++s) i = __ldcv(&next[i]);
  at[0] = now() - begin;
  at[1] = i;
}

using Small = void (*)(Clock*, float4*, int);
template <int... N>
std::vector<Small> smalls(std::integer_sequence<int, N...>) {
  return {small<N>...};
}

// ---- loads --------------------------------------------------------------------------------------------------

__global__ void spin(int ns) {
  const Clock begin = now();
  while (now() - begin < static_cast<Clock>(ns)) {
  }
}
__global__ void fma_for(float* out, int ns) {
  const Clock begin = now();
  float a = threadIdx.x, b = 1;
  while (now() - begin < static_cast<Clock>(ns))
    for (int i = 0; i < 64; ++i) a = a * 0.999f + b, b = b * 0.999f + a;
  if (a == 12345.f) *out = b;
}
/// Each thread reads R and writes W times 16 bytes, far apart, as PyTorch's elementwise kernels do.
template <int R, int W>
__global__ void elementwise(float4* x) {
  const size_t n = static_cast<size_t>(gridDim.x) * blockDim.x, i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
  float4 v = make_float4(1, 2, 3, 4);
  for (int r = 0; r < R; ++r) {
    const float4 u = x[i + r * n];
    v.x += u.x, v.y += u.y, v.z += u.z, v.w += u.w;
  }
  for (int w = 0; w < W; ++w) x[i + (R + w) * n] = v;
  if (!W && v.x == 1e30f) x[0] = v;
}
/// Reads, and writes if W, `bytes` in a loop with U loads in flight a thread.
template <int U, bool W>
__global__ void stream_over(float4* x, size_t items) {
  const size_t n = static_cast<size_t>(gridDim.x) * blockDim.x;
  float4 sum = make_float4(0, 0, 0, 0);
  for (size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x; i + (U - 1) * n < items; i += U * n) {
    float4 v[U];
    for (int u = 0; u < U; ++u) v[u] = x[i + u * n];
    for (int u = 0; u < U; ++u)
      if (W) x[items + i + u * n] = v[u];
      else sum.x += v[u].x;
  }
  if (sum.x == 1e30f) x[0] = sum;
}

constexpr size_t kItems = 64ull << 20;  // of 16 bytes: 1 GiB, read; as much again, written
struct Load {
  std::string name;
  int in_graph;     // kernels of a graph, launched again and again
  double every_us;  // or one by one, at this distance; 0: in a graph
  std::function<void(cudaStream_t, float4*, int)> launch;  // the k-th
};

std::vector<Load> loads(int sms) {
  std::vector<Load> all;
  all.push_back({"blocks", 50, 0, [](cudaStream_t s, float4*, int) { spin<<<1, 128, 0, s>>>(5000); }});
  all.push_back({"blocks-short", 50, 0, [](cudaStream_t s, float4*, int) { spin<<<1, 128, 0, s>>>(1000); }});
  all.push_back({"block-each-25us", 0, 25, [](cudaStream_t s, float4*, int) { spin<<<1, 128, 0, s>>>(5000); }});
  all.push_back({"fma", 4, 0, [=](cudaStream_t s, float4* x, int) { fma_for<<<sms * 7, 256, 0, s>>>(reinterpret_cast<float*>(x), 1000000); }});
  const auto add = [&](const std::string& name, auto kernel, int blocks, int arrays) {
    const size_t span = static_cast<size_t>(blocks) * 128 * arrays;
    all.push_back({name, 60, 0, [=](cudaStream_t s, float4* x, int k) { kernel<<<blocks, 128, 0, s>>>(x + (span * k) % (2 * kItems - span)); }});
  };
  for (const auto& [what, blocks] : {std::pair{"", sms * 15}, {"-waves", 6272}, {"-few", sms * 4}}) {
    add(std::string("fill") + what, elementwise<0, 1>, blocks, 1);
    add(std::string("scale") + what, elementwise<1, 1>, blocks, 2);
    add(std::string("add") + what, elementwise<2, 1>, blocks, 3);
    add(std::string("sum4") + what, elementwise<4, 1>, blocks, 5);
  }
  for (int k : {1, 2, 4, 7}) {
    all.push_back({"read-" + std::to_string(k), 4, 0, [=](cudaStream_t s, float4* x, int) { stream_over<4, false><<<sms * k, 256, 0, s>>>(x, kItems); }});
    all.push_back({"copy-" + std::to_string(k), 4, 0, [=](cudaStream_t s, float4* x, int) { stream_over<4, true><<<sms * k, 256, 0, s>>>(x, kItems); }});
  }
  return all;
}

int multiprocessors() {
  cudaDeviceProp p;
  CHECK(cudaGetDeviceProperties(&p, 0));
  return p.multiProcessorCount;
}

/// Runs the load until `ends`; the mean time a kernel, us.
double run(const Load& load, const std::function<bool()>& ends, const std::function<void()>& began) {
  cudaStream_t s;
  CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  float4* x;
  CHECK(cudaMalloc(&x, 2 * kItems * sizeof(float4)));
  cudaGraphExec_t exec{};
  const int kernels = load.in_graph ? load.in_graph : 1;
  if (load.in_graph) {
    cudaGraph_t graph;
    CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    for (int k = 0; k < kernels; ++k) load.launch(s, x, k);
    CHECK(cudaStreamEndCapture(s, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
  }
  cudaEvent_t done[2];
  for (auto& e : done) CHECK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
  size_t n = 0;
  auto begin = std::chrono::steady_clock::now(), next = begin;
  for (; !ends(); ++n) {
    if (n == 4) {
      began();
      begin = std::chrono::steady_clock::now();
    }
    if (n >= 2) CHECK(cudaEventSynchronize(done[n % 2]));
    if (exec) {
      CHECK(cudaGraphLaunch(exec, s));
    } else {
      next += std::chrono::nanoseconds(static_cast<long>(1e3 * load.every_us));
      while (std::chrono::steady_clock::now() < next) {
      }
      load.launch(s, x, 0);
    }
    CHECK(cudaEventRecord(done[n % 2], s));
  }
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
  CHECK(cudaStreamSynchronize(s));
  CHECK(cudaFree(x));
  return took.count() / (n > 4 ? static_cast<double>((n - 4) * kernels) : 1);
}

// ---- measuring ----------------------------------------------------------------------------------------------

void print(const char* where, const char* load, const char* chain, std::vector<double> gaps, std::vector<double> times) {
  const auto line = [](const char* name, std::vector<double> v) {
    std::sort(v.begin(), v.end());
    double sum = 0;
    for (double x : v) sum += x;
    const auto at = [&](double p) { return v[static_cast<size_t>(p * (static_cast<double>(v.size()) - 1))]; };
    std::printf("\"%s\": {\"n\": %zu, \"mean\": %.1f, \"p10\": %.0f, \"p25\": %.0f, \"p50\": %.0f, \"p75\": %.0f, \"p90\": %.0f, \"p97\": %.0f}", name, v.size(),
                sum / static_cast<double>(v.size()), at(.1), at(.25), at(.5), at(.75), at(.9), at(.97));
  };
  std::printf("{\"where\": \"%s\", \"load\": \"%s\", \"chain\": \"%s\", ", where, load, chain);
  line("gap_ns", std::move(gaps));
  std::printf(", ");
  line("time_ns", std::move(times));
  std::printf("}\n");
}

void measure(const char* where, const char* load) {
  constexpr int kLength = 96, kRounds = 24;
  const auto kernels = smalls(std::make_integer_sequence<int, 16>{});
  int least, most;
  CHECK(cudaDeviceGetStreamPriorityRange(&least, &most));
  cudaStream_t s;
  CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  Clock* at;
  float4* x;
  CHECK(cudaMallocManaged(&at, 2 * kLength * sizeof(Clock)));
  CHECK(cudaFree(at));
  CHECK(cudaMalloc(&at, 2 * kLength * sizeof(Clock)));
  CHECK(cudaMalloc(&x, 64 * 128 * sizeof(float4)));
  std::vector<Clock> host(2 * kLength);
  const auto reset = [&] {
    for (int k = 0; k < kLength; ++k) host[2 * k] = ~0ull, host[2 * k + 1] = 0;
    CHECK(cudaMemcpyAsync(at, host.data(), host.size() * sizeof(Clock), cudaMemcpyHostToDevice, s));
    CHECK(cudaStreamSynchronize(s));
  };
  struct Chain {
    int blocks, functions, ns;
    const char* name;
  };
  for (const auto& [blocks, functions, ns, name] : {Chain{1, 16, 0, "1"}, {8, 16, 0, "8"}, {64, 16, 0, "64"}, {1, 16, 5000, "1 for 5 us"}, {1, 16, 20000, "1 for 20 us"}, {1, 1, 0, "1 and the same"},
                                                    {1, 1, 20000, "1 and the same for 20 us"}, {64, 16, 20000, "64 for 20 us"}}) {
    const auto chain = [&, functions = functions, blocks = blocks, ns = ns] {
      for (int k = 0; k < kLength; ++k) kernels[k % functions]<<<blocks, 128, 0, s>>>(at + 2 * k, x, ns);
    };
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    chain();
    CHECK(cudaStreamEndCapture(s, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    for (const bool in_graph : {false, true}) {
      std::vector<double> gaps, times;
      for (int r = 0; r < kRounds; ++r) {
        reset();
        if (in_graph) {
          CHECK(cudaGraphLaunch(exec, s));
        } else {
          spin<<<1, 1, 0, s>>>(500000);  // the host is ahead then
          chain();
        }
        CHECK(cudaMemcpyAsync(host.data(), at, host.size() * sizeof(Clock), cudaMemcpyDeviceToHost, s));
        CHECK(cudaStreamSynchronize(s));
        for (int k = r ? 1 : kLength; k < kLength; ++k) {
          gaps.push_back(static_cast<double>(static_cast<long long>(host[2 * k] - host[2 * k - 1])));
          times.push_back(static_cast<double>(host[2 * k + 1] - host[2 * k]));
        }
      }
      print(where, load, (std::string(in_graph ? "graph" : "stream") + " of " + name).c_str(), gaps, times);
    }
    CHECK(cudaGraphExecDestroy(exec));
  }
  // What a load from DRAM takes meanwhile: one thread, 1,000 steps over 256 MiB.
  constexpr unsigned kCells = 64u << 20;
  std::vector<unsigned> next(kCells);
  for (unsigned i = 0; i < kCells; ++i) next[i] = static_cast<unsigned>((i * 2654435761ull + 12345) % kCells);
  unsigned* cells;
  CHECK(cudaMalloc(&cells, kCells * sizeof(unsigned)));
  CHECK(cudaMemcpyAsync(cells, next.data(), kCells * sizeof(unsigned), cudaMemcpyHostToDevice, s));
  std::vector<double> steps;
  for (int r = 0; r < 5; ++r) {
    chase<<<1, 1, 0, s>>>(at, cells, 1000);
    CHECK(cudaMemcpyAsync(host.data(), at, sizeof(Clock), cudaMemcpyDeviceToHost, s));
    CHECK(cudaStreamSynchronize(s));
    if (r) steps.push_back(static_cast<double>(host[0]) / 1000);
  }
  print(where, load, "load from DRAM", {0}, steps);
}

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  CHECK(cudaFree(nullptr));
  const auto all = loads(multiprocessors());
  const auto find = [&](const std::string& name) {
    for (const Load& l : all)
      if (l.name == name) return l;
    std::fprintf(stderr, "no load %s\n", name.c_str());
    std::exit(2);
  };
  if (what == "loads") {
    for (const Load& l : all) std::puts(l.name.c_str());
  } else if (what == "load" && argc == 4) {
    const std::string folder = argv[3];
    const double us = run(find(argv[2]), [&] { return access((folder + "/stop").c_str(), F_OK) == 0; },
                          [&] { std::fclose(std::fopen((folder + "/ready").c_str(), "w")); });
    std::printf("{\"load\": \"%s\", \"us_a_kernel\": %.2f}\n", argv[2], us);
  } else if (what == "measure" && argc == 4) {
    const std::string load = argv[3];
    if (load == "none" || load[0] == '-') {
      measure(argv[2], load == "none" ? "none" : load.c_str() + 1);
    } else {
      std::atomic<bool> ready{false}, stop{false};
      double us = 0;
      std::thread beside([&] { us = run(find(load), [&] { return stop.load(); }, [&] { ready = true; }); });
      while (!ready) usleep(100);
      measure(argv[2], load.c_str());
      stop = true;
      beside.join();
      std::printf("{\"where\": \"%s\", \"load\": \"%s\", \"us_a_kernel\": %.2f}\n", argv[2], load.c_str(), us);
    }
  } else {
    std::fprintf(stderr, "launches_beside load|measure|loads ...\n");
    return 2;
  }
}
