// A CUDA program of our own that holds much memory, and knows nothing of corun: each round changes all of it, by kernels or by a graph that was
// captured once, mixes one block into another, copies and sets parts of it, and adds all of it up.
//   nvcc -O2 -arch=sm_90 -o half half.cu
//   half NAME FOLDER MIB ROUNDS [REST_MS]    waits for FOLDER/go after FOLDER/NAME.ready, rests as long after each round, and prints a line of JSON
#include <cuda_runtime.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

double now_s() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

void check(cudaError_t error, int line) {
  if (error == cudaSuccess) return;
  std::printf("{\"error\": \"%s\", \"line\": %d}\n", cudaGetErrorName(error), line);
  std::exit(1);
}
#define CHECK(call) check(call, __LINE__)

constexpr std::size_t kBlock = std::size_t{32} << 20, kWords = kBlock / 4;

__global__ void begin(std::uint32_t* to, std::uint32_t seed) {
  for (std::size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < kWords; i += gridDim.x * blockDim.x)
    to[i] = seed * 2654435761u + static_cast<std::uint32_t>(i) * 40503u;
}
__global__ void step(std::uint32_t* to, const std::uint32_t* other) {
  for (std::size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < kWords; i += gridDim.x * blockDim.x)
    to[i] = to[i] * 1664525u + 1013904223u + (other[(i * 17) % kWords] >> 7);
}
__global__ void add_up(const std::uint32_t* from, unsigned long long* sum) {
  unsigned long long mine = 0;
  for (std::size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < kWords; i += gridDim.x * blockDim.x) mine += from[i] * (i % 251 + 1);
  atomicAdd(sum, mine);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string name = argv[1], folder = argv[2];
  const int mib = std::atoi(argv[3]), rounds = std::atoi(argv[4]), rest_ms = argc > 5 ? std::atoi(argv[5]) : 0;
  const double started = now_s();
  const std::size_t n = static_cast<std::size_t>(mib) / 32;
  std::vector<std::uint32_t*> blocks(n);
  for (std::size_t i = 0; i < n; ++i) {
    CHECK(cudaMalloc(&blocks[i], kBlock));
    begin<<<264, 512>>>(blocks[i], static_cast<std::uint32_t>(i + 1));
  }
  unsigned long long *sum = nullptr, told = 0, hash = 14695981039346656037ull;
  CHECK(cudaMalloc(&sum, sizeof *sum));
  CHECK(cudaDeviceSynchronize());
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  const auto pass = [&] {
    for (std::size_t i = 0; i < n; ++i) step<<<264, 512, 0, stream>>>(blocks[i], blocks[(i + 1) % n]);
  };
  cudaGraph_t graph;
  cudaGraphExec_t made;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  pass();
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&made, graph, 0));
  const double allocated = now_s();
  std::fclose(std::fopen((folder + "/" + name + ".ready").c_str(), "w"));
  for (struct stat is {}; stat((folder + "/go").c_str(), &is) != 0;) usleep(2000);

  const double began = now_s();
  double longest = 0;
  for (int r = 0; r < rounds; ++r) {
    const double from = now_s();
    if (r % 2 == 0)
      pass();
    else
      CHECK(cudaGraphLaunch(made, stream));
    const std::size_t one = static_cast<std::size_t>(r) % n, other = (one + n / 2) % n;
    CHECK(cudaMemcpyAsync(blocks[one] + 1000, blocks[other], kBlock / 2, cudaMemcpyDeviceToDevice, stream));
    CHECK(cudaMemsetAsync(blocks[other] + 77, r, 4096, stream));
    CHECK(cudaMemsetAsync(sum, 0, sizeof *sum, stream));
    for (std::uint32_t* block : blocks) add_up<<<264, 512, 0, stream>>>(block, sum);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpyAsync(&told, sum, sizeof told, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    hash = (hash ^ told) * 1099511628211ull;
    longest = std::max(longest, now_s() - from);
    if (rest_ms != 0) usleep(static_cast<unsigned>(rest_ms) * 1000);
  }
  std::printf("{\"program\": \"%s\", \"hash\": \"%016llx\", \"rounds\": %d, \"allocate_s\": %.3f, \"s\": %.3f, \"longest_s\": %.3f}\n", name.c_str(), hash,
              rounds, allocated - started, now_s() - began, longest);
  return 0;
}
