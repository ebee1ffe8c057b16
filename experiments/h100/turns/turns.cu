// Time-slicing between processes whose hosts leave the GPU idle now and then.  Times are of the GPU's one clock, in us since the
// first line's `zero`; every process prints JSON when it ends.
//   turns watch SECONDS BLOCKS            a kernel that never ends: when it was away for more than 5 us (its first block)
//   turns sync B G SECONDS                a kernel of B us, then the host waits until it has ended and G us more; again
//   turns pace B P N SECONDS [KIND]       N launches of kernels of B us, a call each P us, then the host waits for the last; again.
//                                         KIND: plain; memset: a memset of 4 bytes before each tenth; graph: one graph launch of N (P is idle after it)
// Of sync and pace: when each launch was called, and when its kernel began and ended.  A kernel's time is what it has had of the GPU.
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

constexpr int kMost = 8192;

struct Log {
  int gaps;
  unsigned long long begin, end, from[kMost], to[kMost];
};
struct Stamp {
  unsigned long long begin, end;
};

__device__ unsigned long long now() {
  unsigned long long t;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
  return t;
}

__global__ void watch(Log* log, unsigned long long stay) {
  unsigned long long last = now();
  const unsigned long long begin = last;
  const bool tells = blockIdx.x == 0 && threadIdx.x == 0;
  int gaps = 0;
  while (last - begin < stay) {
    const unsigned long long t = now();
    if (t - last > 5000) {
      if (tells && gaps < kMost) log->from[gaps] = last, log->to[gaps] = t;
      ++gaps;
    }
    last = t;
  }
  if (tells) log->begin = begin, log->end = last, log->gaps = gaps;
}

__global__ void busy(Stamp* stamp, unsigned long long spin) {
  unsigned long long last = now(), had = 0;
  if (blockIdx.x == 0 && threadIdx.x == 0) stamp->begin = last;
  while (had < spin) {
    const unsigned long long t = now();
    if (t - last < 5000) had += t - last;
    last = t;
  }
  if (blockIdx.x == 0 && threadIdx.x == 0) stamp->end = last;
}

__global__ void tell(volatile unsigned long long* at) { *at = now(); }

static double host_ns() {
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
static void until(double ns) {
  while (host_ns() < ns) {}
}
static void check(cudaError_t e) {
  if (e != cudaSuccess) fprintf(stderr, "%s\n", cudaGetErrorString(e)), exit(1);
}
/// The GPU's clock less the host's: the least of 40, as each is late by a launch.
static double offset_of_clocks() {
  unsigned long long* at;
  check(cudaMallocHost(&at, sizeof *at));
  double offset = 1e30;
  for (int i = 0; i < 40; ++i) {
    const double before = host_ns();
    tell<<<1, 1>>>(at);
    check(cudaDeviceSynchronize());
    offset = std::min(offset, double(*at) - before);
  }
  return offset;
}
static void ready_then_go() {
  puts("ready"), fflush(stdout);
  char line[16];
  if (!fgets(line, sizeof line, stdin)) exit(1);
}

static int be_watch(char** argv) {
  const double seconds = atof(argv[2]);
  const int blocks = atoi(argv[3]);
  Log* log;
  check(cudaMallocHost(&log, sizeof(Log)));
  offset_of_clocks();
  ready_then_go();
  watch<<<blocks, 128>>>(log, (unsigned long long)(seconds * 1e9));
  check(cudaDeviceSynchronize());
  printf("{\"begin\": %.1f, \"end\": %.1f, \"away\": [", log->begin / 1e3, log->end / 1e3);
  for (int g = 0; g < log->gaps && g < kMost; ++g)
    printf("%s[%.1f, %.1f]", g ? ", " : "", log->from[g] / 1e3, log->to[g] / 1e3);
  printf("]}\n");
  return 0;
}

static int be_rival(char** argv, int argc) {
  const bool sync = !strcmp(argv[1], "sync");
  const double b = atof(argv[2]), wait = atof(argv[3]), seconds = atof(argv[sync ? 4 : 5]);
  const int n = sync ? 1 : atoi(argv[4]);
  const char* kind = !sync && argc > 6 ? argv[6] : "plain";
  constexpr int kKernels = 200000;
  Stamp* stamps;
  check(cudaMallocHost(&stamps, kKernels * sizeof(Stamp)));
  memset(stamps, 0, kKernels * sizeof(Stamp));
  std::vector<double> called;
  int* word;
  check(cudaMalloc(&word, 4096));
  cudaStream_t stream;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  const auto spin = (unsigned long long)(b * 1e3);
  cudaGraphExec_t graph = nullptr;
  if (!strcmp(kind, "graph")) {
    cudaGraph_t made;
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    for (int i = 0; i < n; ++i) busy<<<132, 128, 0, stream>>>(stamps + i, spin);
    check(cudaStreamEndCapture(stream, &made));
    check(cudaGraphInstantiate(&graph, made, 0));
  }
  busy<<<132, 128, 0, stream>>>(stamps, spin);
  check(cudaDeviceSynchronize());
  const double offset = offset_of_clocks();
  ready_then_go();
  const double begin = host_ns(), end = begin + seconds * 1e9;
  int launched = 0, requests = 0;
  while (host_ns() < end && launched + n <= kKernels) {
    if (graph) {
      called.push_back(host_ns());
      check(cudaGraphLaunch(graph, stream));
    } else {
      double due = host_ns();
      for (int i = 0; i < n; ++i) {
        if (!sync) until(due), due += wait * 1e3;
        if (!strcmp(kind, "memset") && i % 10 == 0) check(cudaMemsetAsync(word, 0, 4, stream));
        called.push_back(host_ns());
        busy<<<132, 128, 0, stream>>>(stamps + launched++, spin);
      }
    }
    check(cudaStreamSynchronize(stream));
    ++requests;
    if (sync || graph) until(host_ns() + wait * 1e3);
  }
  const double took = host_ns() - begin;
  printf("{\"requests_per_s\": %.2f, \"kernels\": [", requests / took * 1e9);
  for (int i = 0; i < launched && i < 20000; ++i)
    printf("%s[%.1f, %.1f, %.1f]", i ? ", " : "", (called[i] + offset) / 1e3, stamps[i].begin / 1e3, stamps[i].end / 1e3);
  printf("]}\n");
  return 0;
}

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  return !strcmp(argv[1], "watch") ? be_watch(argv) : be_rival(argv, argc);
}
