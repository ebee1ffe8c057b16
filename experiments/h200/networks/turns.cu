// Time-slicing between processes, seen from a kernel of one block: it reads the GPU's clock and logs when it was away for
// more than 5 us.
//   turns watch WAIT SECONDS SPIN_MS PERIOD_MS   says "ready"; after WAIT s, one kernel that stays SECONDS s on the clock
//       (SPIN_MS 0), or one each PERIOD_MS that stays until it has had SPIN_MS of the GPU.  Prints JSON; times in us since the
//       first due time, by the GPU's clock (due: by the host's, which the program brings in line before it says "ready").
//   turns rival KERNELS MEMSETS IN_FLIGHT SECONDS   a client in a closed loop: a graph of KERNELS kernels of 6 us, MEMSETS
//       memsets between them (KERNELS below 0: launched one by one, no graph).  Prints requests a second.
#include <cuda_runtime.h>

#include <chrono>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <thread>
#include <vector>

constexpr int kMost = 4096;

struct Log {
  unsigned long long begin, end;
  int gaps;
  unsigned long long from[kMost], to[kMost];
};

__device__ unsigned long long now() {
  unsigned long long t;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
  return t;
}

__global__ void watch(Log* log, unsigned long long spin, unsigned long long stay) {
  unsigned long long last = now(), had = 0;
  const unsigned long long begin = last;
  int gaps = 0;
  while (stay ? last - begin < stay : had < spin) {
    const unsigned long long t = now();
    if (t - last > 5000) {
      if (gaps < kMost) log->from[gaps] = last, log->to[gaps] = t;
      ++gaps;
    } else {
      had += t - last;
    }
    last = t;
  }
  log->begin = begin, log->end = last, log->gaps = gaps;
}

__global__ void tell(volatile unsigned long long* at) { *at = now(); }

static double host_ns() {
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

__global__ void busy(unsigned long long ns) {
  const unsigned long long begin = now();
  while (now() - begin < ns) {}
}

static int rival(char** argv) {
  const int asked = atoi(argv[2]), memsets = atoi(argv[3]), deep = atoi(argv[4]), kernels = std::abs(asked);
  const double seconds = atof(argv[5]);
  cudaStream_t stream;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  int* word;
  cudaMalloc(&word, 4096);
  const auto issue = [&] {
    for (int i = 0; i < kernels; ++i) {
      busy<<<132, 128, 0, stream>>>(5000);
      if (memsets && i % std::max(1, kernels / memsets) == 0) cudaMemsetAsync(word, 0, 4, stream);
    }
  };
  cudaGraph_t graph;
  cudaGraphExec_t ready = nullptr;
  if (asked > 0) {
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    issue();
    cudaStreamEndCapture(stream, &graph);
    cudaGraphInstantiate(&ready, graph, 0);
  }
  std::deque<cudaEvent_t> waiting, spare;
  int done = 0;
  const double begin = host_ns(), end = begin + seconds * 1e9;
  while (host_ns() < end) {
    if (!waiting.empty() && cudaEventQuery(waiting.front()) == cudaSuccess)
      spare.push_back(waiting.front()), waiting.pop_front(), ++done;
    if (int(waiting.size()) < deep) {
      cudaEvent_t event;
      if (spare.empty()) cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
      else event = spare.front(), spare.pop_front();
      if (ready) cudaGraphLaunch(ready, stream);
      else issue();
      cudaEventRecord(event, stream);
      waiting.push_back(event);
    }
  }
  if (cudaDeviceSynchronize() != cudaSuccess) return 1;
  printf("%.1f\n", done / seconds);
  return 0;
}

int main(int, char** argv) {
  if (!strcmp(argv[1], "rival")) return rival(argv);
  ++argv;
  const double wait = atof(argv[1]), seconds = atof(argv[2]), spin = atof(argv[3]), period = atof(argv[4]);
  const int count = spin > 0 ? int(seconds * 1e3 / period) : 1;
  std::vector<Log*> logs(count);
  for (auto& l : logs) cudaMallocHost(&l, sizeof(Log)), l->gaps = 0;
  unsigned long long* at;
  cudaMallocHost(&at, sizeof *at);
  double offset = 1e30;  // GPU's clock less the host's: the least of 20, as each is late by a launch
  for (int i = 0; i < 20; ++i) {
    const double before = host_ns();
    tell<<<1, 1>>>(at);
    cudaDeviceSynchronize();
    offset = std::min(offset, double(*at) - before);
  }
  puts("ready"), fflush(stdout);
  std::this_thread::sleep_for(std::chrono::duration<double>(wait));
  const double first = host_ns() + 1e6;
  std::vector<double> due(count);
  for (int i = 0; i < count; ++i) {
    due[i] = first + i * period * 1e6;
    while (host_ns() < due[i]) {}
    due[i] = host_ns();
    watch<<<1, 1>>>(logs[i], (unsigned long long)(spin * 1e6), spin > 0 ? 0 : (unsigned long long)(seconds * 1e9));
    cudaStreamQuery(nullptr);
  }
  if (cudaDeviceSynchronize() != cudaSuccess) return 1;
  const double zero = first + offset;
  printf("{\"launches\": [");
  for (int i = 0; i < count; ++i) {
    const Log& l = *logs[i];
    printf("%s{\"due\": %.1f, \"begin\": %.1f, \"end\": %.1f, \"away\": [", i ? ", " : "", (due[i] - first) / 1e3,
           (double(l.begin) - zero) / 1e3, (double(l.end) - zero) / 1e3);
    for (int g = 0; g < l.gaps && g < kMost; ++g)
      printf("%s[%.1f, %.1f]", g ? ", " : "", (double(l.from[g]) - zero) / 1e3, (double(l.to[g]) - zero) / 1e3);
    printf("]}");
  }
  printf("]}\n");
}
