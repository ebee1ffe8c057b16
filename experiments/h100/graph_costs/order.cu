// Does a kernel wait for all blocks of one that came before it, in another stream or of another client of MPS?  A kernel of a few blocks
// comes at any time while another stream or client launches grids with blocks that wait nearly always; from its launch to its end.
//   order both CASE OUT NAME SECONDS    in two streams of a process
//   order hog CASE FOLDER               until FOLDER/stop is there; FOLDER/ready says that it has begun
//   order probe OUT NAME SECONDS        beside it
#include <cuda_runtime.h>
#include <unistd.h>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>
#define CHECK(call)                                                                   \
  do {                                                                                \
    if (const cudaError_t f = (call); f != cudaSuccess) {                             \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(f)); \
      std::exit(1);                                                                   \
    }                                                                                 \
  } while (0)
using u64 = unsigned long long;
__device__ u64 now() {
  u64 t;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
  return t;
}
__global__ void spin(unsigned ns) {
  const u64 b = now();
  while (now() - b < ns) {
  }
}
__global__ void probe(u64* out, unsigned ns) {
  const u64 b = now();
  if (threadIdx.x == 0) {
    atomicMin(out, b);
  }
  while (now() - b < ns) {
  }
  if (threadIdx.x == 0) atomicMax(out + 1, now());
}
struct Case {
  const char* name;
  int blocks, threads, smem;
  unsigned ns;
};
// pending blocks nearly always; room beside them or not
const Case cases[] = {{"smem", 264 * 20, 128, 100 << 10, 20000},
                      {"threads", 132 * 2 * 20, 1024, 0, 20000},
                      {"small", 132 * 16 * 20, 128, 0, 20000},
                      {"short", 132 * 16 * 10, 128, 0, 2000},
                      {"fits", 132, 128, 100 << 10, 400000}};
std::atomic<bool> stop{false};
void hog(const Case& c, const std::string& folder) {
  cudaStream_t s;
  CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  CHECK(cudaFuncSetAttribute(spin, cudaFuncAttributeMaxDynamicSharedMemorySize, 200 << 10));
  bool said = false;
  cudaEvent_t e[2];
  for (auto& x : e) CHECK(cudaEventCreateWithFlags(&x, cudaEventDisableTiming));
  for (int i = 0; !stop && (folder.empty() || access((folder + "/stop").c_str(), F_OK) != 0); ++i) {
    CHECK(cudaEventSynchronize(e[i % 2]));
    for (int k = 0; k < 4; ++k) spin<<<c.blocks, c.threads, c.smem, s>>>(c.ns);
    CHECK(cudaEventRecord(e[i % 2], s));
    if (!said && !folder.empty()) std::fclose(std::fopen((folder + "/ready").c_str(), "w")), said = true;
  }
  CHECK(cudaStreamSynchronize(s));
}
void probes(const char* out, const char* name, double seconds) {
  cudaStream_t s;
  CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  u64* at;
  CHECK(cudaMalloc(&at, 16));
  std::FILE* f = std::fopen(out, "a");
  for (const int blocks : {1, 132, 1056}) {
    std::vector<double> wall, lasts;
    const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    while (std::chrono::steady_clock::now() < until) {
      CHECK(cudaMemsetAsync(at, 0xff, 8, s));
      CHECK(cudaMemsetAsync(at + 1, 0, 8, s));
      CHECK(cudaStreamSynchronize(s));
      usleep(100 + rand() % 900);
      const auto b = std::chrono::steady_clock::now();
      probe<<<blocks, 128, 0, s>>>(at, 2000);
      CHECK(cudaStreamSynchronize(s));
      wall.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - b).count());
      u64 t[2];
      CHECK(cudaMemcpyAsync(t, at, 16, cudaMemcpyDeviceToHost, s));
      CHECK(cudaStreamSynchronize(s));
      lasts.push_back(1e-3 * (t[1] - t[0]));
    }
    std::sort(wall.begin(), wall.end());
    std::sort(lasts.begin(), lasts.end());
    auto at_ = [](const std::vector<double>& v, double q) { return v[(size_t)(q * (v.size() - 1))]; };
    std::fprintf(f,
                 "{\"name\": \"%s\", \"blocks\": %d, \"n\": %zu, \"wall_us\": [%.1f, %.1f, %.1f, %.1f], "
                 "\"lasts_us\": [%.1f, %.1f, %.1f]}\n",
                 name, blocks, wall.size(), at_(wall, .1), at_(wall, .5), at_(wall, .9), at_(wall, .99),
                 at_(lasts, .1), at_(lasts, .5), at_(lasts, .9));
  }
  std::fclose(f);
}
int main(int argc, char** argv) {
  auto find = [&](const char* n) -> const Case& {
    for (const Case& c : cases)
      if (!std::strcmp(c.name, n)) return c;
    std::exit(2);
  };
  const std::string w = argv[1];
  if (w == "hog")
    hog(find(argv[2]), argv[3]);
  else if (w == "probe")
    probes(argv[2], argv[3], std::atof(argv[4]));
  else {
    std::thread t([&] { hog(find(argv[2]), ""); });
    usleep(300000);
    probes(argv[3], argv[4], std::atof(argv[5]));
    stop = true;
    t.join();
  }
}
