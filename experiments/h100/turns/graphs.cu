// Two processes without MPS that launch a graph and wait for it, again and again: when the first kernel of each graph began and its last
// ended, by the GPU's clock, which both share.  graphs KERNELS US SECONDS OUT [IN_FLIGHT]: lines of ns, begin and end of each request.
#include <cuda_runtime.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(call)                                                                     \
  do {                                                                                  \
    if (const cudaError_t failed = (call); failed != cudaSuccess) {                     \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(failed)); \
      std::exit(1);                                                                     \
    }                                                                                   \
  } while (0)

__device__ unsigned long long now() {
  unsigned long long t;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
  return t;
}
/// Stamps of the graph's first begin and last end go to the place whose number `count` has.
__global__ void spin(unsigned ns, unsigned long long* stamps, unsigned* count, int which) {
  const unsigned long long begun = now();
  while (now() - begun < ns) {
  }
  if (which & 1) stamps[2 * *count] = begun;
  if (which & 2) stamps[2 * *count + 1] = now(), ++*count;
}

int main(int argc, char** argv) {
  if (argc < 5) return std::fprintf(stderr, "graphs KERNELS US SECONDS OUT [IN_FLIGHT]\n"), 2;
  const int kernels = std::atoi(argv[1]), in_flight = argc > 5 ? std::atoi(argv[5]) : 1;
  const double seconds = std::atof(argv[3]);
  constexpr unsigned kMost = 1 << 18;
  unsigned long long* stamps;
  unsigned* count;
  CHECK(cudaMalloc(&stamps, 16ull * kMost));
  CHECK(cudaMalloc(&count, 4));
  CHECK(cudaMemset(count, 0, 4));
  cudaStream_t s;
  CHECK(cudaStreamCreate(&s));
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
  for (int i = 0; i < kernels; ++i)
    spin<<<1, 1, 0, s>>>(static_cast<unsigned>(1e3 * std::atof(argv[2])), stamps, count, (i == 0) | (i == kernels - 1) << 1);
  CHECK(cudaStreamEndCapture(s, &graph));
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  std::vector<cudaEvent_t> ends(in_flight);
  for (cudaEvent_t& end : ends) CHECK(cudaEventCreateWithFlags(&end, cudaEventDisableTiming));
  const auto began = std::chrono::steady_clock::now();
  unsigned n = 0;
  for (; n < kMost && std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count() < seconds; ++n) {
    CHECK(cudaEventSynchronize(ends[n % in_flight]));
    CHECK(cudaGraphLaunch(exec, s));
    CHECK(cudaEventRecord(ends[n % in_flight], s));
  }
  CHECK(cudaStreamSynchronize(s));
  std::vector<unsigned long long> all(2 * n);
  CHECK(cudaMemcpy(all.data(), stamps, 16ull * n, cudaMemcpyDeviceToHost));
  std::FILE* out = std::fopen(argv[4], "w");
  for (unsigned i = 0; i < n; ++i) std::fprintf(out, "%llu %llu\n", all[2 * i], all[2 * i + 1]);
  std::fclose(out);
}
