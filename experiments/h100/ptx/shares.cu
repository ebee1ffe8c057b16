// A program whose long kernels bring their PTX, as nvcc builds them, and whose blocks count how often they ran.
//   shares KIND FOLDER ROUNDS [PERIOD_US]
// KIND: fma (arithmetic), triad (memory), tiles (shared memory and barriers, blocks in two dimensions), or short: requests of three
// short kernels, each PERIOD_US after the one before, timed from when they are due.  Others are requests of four launches, one after the other.
// A round lasts from when FOLDER/KIND.go.N is there until FOLDER/KIND.stop.N is.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#define OK(e)                                                                                     \
  do {                                                                                            \
    if (cudaError_t r_ = (e); r_ != cudaSuccess) {                                                \
      std::fprintf(stderr, "%s: %s\n", #e, cudaGetErrorString(r_));                               \
      std::exit(1);                                                                               \
    }                                                                                             \
  } while (0)

__device__ void ran(unsigned* counts, unsigned block) {
  if ((threadIdx.x | threadIdx.y) == 0) atomicAdd(&counts[block], 1u);
}
__global__ void fma(const float* in, float* out, unsigned* counts, int iterations) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  float x = in[i % 65536];
  for (int k = 0; k < iterations; ++k) x = x * 0.999f + 0.5f;
  out[i] = x;
  ran(counts, blockIdx.x);
}
__global__ void triad(const float4* a, float4* out, unsigned* counts, float s) {
  const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const float4 x = a[i], y = a[i ^ 1];
  out[i] = {x.x + s * y.x, x.y + s * y.y, x.z + s * y.z, x.w + s * y.w};
  ran(counts, blockIdx.x);
}
__global__ void tiles(const float* in, float* out, unsigned* counts, unsigned n) {
  __shared__ float tile[32][33];
  unsigned x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
  for (unsigned k = 0; k < 32; k += 8) tile[threadIdx.y + k][threadIdx.x] = in[std::size_t{y + k} * n + x];
  __syncthreads();
  x = blockIdx.y * 32 + threadIdx.x, y = blockIdx.x * 32 + threadIdx.y;
  for (unsigned k = 0; k < 32; k += 8) out[std::size_t{y + k} * n + x] = tile[threadIdx.x][threadIdx.y + k];
  ran(counts, blockIdx.y * gridDim.x + blockIdx.x);
}

static double now_us() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int main(int argc, char** argv) {
  const std::string kind = argv[1], folder = argv[2];
  const int rounds = std::atoi(argv[3]);
  const double period = argc > 4 ? std::atof(argv[4]) : 0;
  const bool is_short = kind == "short";
  const dim3 grid = is_short ? dim3(132) : kind == "fma" ? dim3(101376) : kind == "triad" ? dim3(131072) : dim3(512, 512);
  const dim3 block = kind == "tiles" ? dim3(32, 8) : dim3(256);
  const std::size_t blocks = std::size_t{grid.x} * grid.y;
  const std::size_t words = kind == "triad" ? blocks * 1024 : kind == "tiles" ? blocks * 1024 : blocks * 256;
  float *in = nullptr, *out = nullptr;
  unsigned* counts = nullptr;
  cudaStream_t stream;
  OK(cudaMalloc(&in, words * 4));
  OK(cudaMalloc(&out, words * 4));
  OK(cudaMalloc(&counts, blocks * 4));
  OK(cudaMemset(counts, 0, blocks * 4));
  OK(cudaMemset(out, 0, words * 4));
  std::vector<float> host(words);
  for (std::size_t i = 0; i < words; ++i) host[i] = static_cast<float>(i * 2654435761u % 10007) * 1e-3f;
  OK(cudaMemcpy(in, host.data(), words * 4, cudaMemcpyHostToDevice));
  OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  unsigned launches = 0;
  const auto launch = [&] {
    ++launches;
    if (kind == "triad")
      triad<<<grid, block, 0, stream>>>(reinterpret_cast<const float4*>(in), reinterpret_cast<float4*>(out), counts, 1.5f);
    else if (kind == "tiles")
      tiles<<<grid, block, 0, stream>>>(in, out, counts, 16384);
    else
      fma<<<grid, block, 0, stream>>>(in, out, counts, is_short ? 3500 : 2500);
    OK(cudaGetLastError());
  };
  const auto request = [&] {
    for (int i = 0; i < (is_short ? 3 : 4); ++i) launch();
    OK(cudaStreamSynchronize(stream));
  };
  for (int i = 0; i < 10; ++i) request();
  std::ofstream(folder + "/" + kind + ".ready") << "\n";
  std::string said;
  for (int r = 0; r < rounds; ++r) {
    const std::string go = folder + "/" + kind + ".go." + std::to_string(r), stop = folder + "/" + kind + ".stop." + std::to_string(r);
    const double patience = now_us() + 60e6;
    while (!std::filesystem::exists(go) && now_us() < patience) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    std::vector<double> took;
    const double begin = now_us();
    double looked = begin, end = begin;
    for (int i = 0; now_us() < patience; ++i) {
      const double due = is_short ? begin + period * i + i * 7919 % 97 : now_us();
      while (now_us() < due) {
      }
      request();
      end = now_us();
      took.push_back(end - due);
      if (end - looked < 5000) continue;
      looked = end;
      if (std::filesystem::exists(stop)) break;
    }
    const double per_s = static_cast<double>(took.size()) / (end - begin) * 1e6;
    std::sort(took.begin(), took.end());
    const auto at = [&](double p) { return took[std::min(took.size() - 1, static_cast<std::size_t>(p * static_cast<double>(took.size())))]; };
    char text[256];
    std::snprintf(text, sizeof text, "%s{\"per_s\": %.3f, \"requests\": %zu, \"p50_us\": %.1f, \"p90_us\": %.1f, \"p99_us\": %.1f}",
                  r == 0 ? "" : ", ", per_s, took.size(), at(0.5), at(0.9), at(0.99));
    said += text;
  }
  OK(cudaDeviceSynchronize());
  std::vector<unsigned> count(blocks);
  OK(cudaMemcpy(count.data(), counts, blocks * 4, cudaMemcpyDeviceToHost));
  OK(cudaMemcpy(host.data(), out, words * 4, cudaMemcpyDeviceToHost));
  const auto wrong = std::count_if(count.begin(), count.end(), [&](unsigned n) { return n != launches; });
  unsigned long long hash = 1469598103934665603ull;
  for (const float word : host) hash = (hash ^ reinterpret_cast<const unsigned&>(word)) * 1099511628211ull;
  std::printf("{\"rounds\": [%s], \"launches\": %u, \"blocks\": %zu, \"blocks_not_once\": %td, \"fnv1a\": \"%016llx\"}\n", said.c_str(),
              launches, blocks, wrong, hash);
}
