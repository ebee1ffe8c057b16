// A flow by the lattice Boltzmann method, 2048 x 1024 cells with nine directions: a request is eight steps, each a kernel that streams and collides
// and one that holds the flow at the walls, then the sum of its speed, copied back.  Knows nothing of corun.
//   nvcc -O3 -arch=sm_90 -o lattice lattice.cu; lattice FOLDER      orders and answers as of programs.py
#include <cuda_profiler_api.h>
#include <cuda_runtime.h>
#include <nvtx3/nvToolsExt.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace {

constexpr int kWide = 2048, kHigh = 1024, kCells = kWide * kHigh, kDirections = 9, kSteps = 8, kWarm = 30;
constexpr float kInflow = 0.08f, kRate = 1.7f;

__constant__ int across[kDirections] = {0, 1, 0, -1, 0, 1, -1, -1, 1};
__constant__ int up[kDirections] = {0, 0, 1, 0, -1, 1, 1, -1, -1};
__constant__ int opposite[kDirections] = {0, 3, 4, 1, 2, 7, 8, 5, 6};
__constant__ float weight[kDirections] = {4 / 9.f, 1 / 9.f, 1 / 9.f, 1 / 9.f, 1 / 9.f, 1 / 36.f, 1 / 36.f, 1 / 36.f, 1 / 36.f};

__device__ float equilibrium(int d, float density, float vx, float vy) {
  const float along = across[d] * vx + up[d] * vy;
  return weight[d] * density * (1 + 3 * along + 4.5f * along * along - 1.5f * (vx * vx + vy * vy));
}

__global__ void start(float* f) {
  const int cell = blockIdx.x * blockDim.x + threadIdx.x;
  for (int d = 0; d < kDirections; ++d) f[d * kCells + cell] = equilibrium(d, 1, kInflow, 0);
}

__global__ void stream_and_collide(const float* from, float* to) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
  float f[kDirections], density = 0, vx = 0, vy = 0;
  for (int d = 0; d < kDirections; ++d) {
    const int at = (y + kHigh - up[d]) % kHigh * kWide + (x + kWide - across[d]) % kWide;
    f[d] = from[d * kCells + at];
    density += f[d], vx += across[d] * f[d], vy += up[d] * f[d];
  }
  vx /= density, vy /= density;
  for (int d = 0; d < kDirections; ++d) to[d * kCells + y * kWide + x] = f[d] + kRate * (equilibrium(d, density, vx, vy) - f[d]);
}

__global__ void walls(float* f) {  // the upper and the lower one, a disc, and what flows in
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y, dx = x - kWide / 5, dy = y - kHigh / 2;
  const int cell = y * kWide + x;
  if (y == 0 || y == kHigh - 1 || dx * dx + dy * dy < kHigh * kHigh / 81) {
    for (int d = 1; d < kDirections; ++d) {
      const int o = opposite[d];
      if (d < o) {
        const float kept = f[d * kCells + cell];
        f[d * kCells + cell] = f[o * kCells + cell], f[o * kCells + cell] = kept;
      }
    }
  } else if (x == 0) {
    for (int d = 0; d < kDirections; ++d) f[d * kCells + cell] = equilibrium(d, 1, kInflow, 0);
  }
}

__global__ void speed(const float* f, float* sum) {
  __shared__ float parts[256];
  float mine = 0;
  for (int cell = blockIdx.x * blockDim.x + threadIdx.x; cell < kCells; cell += gridDim.x * blockDim.x) {
    float vx = 0, vy = 0;
    for (int d = 0; d < kDirections; ++d) vx += across[d] * f[d * kCells + cell], vy += up[d] * f[d * kCells + cell];
    mine += sqrtf(vx * vx + vy * vy);
  }
  parts[threadIdx.x] = mine;
  __syncthreads();
  for (int n = 128; n > 0; n /= 2) {
    if (threadIdx.x < n) parts[threadIdx.x] += parts[threadIdx.x + n];
    __syncthreads();
  }
  if (threadIdx.x == 0) atomicAdd(sum, parts[0]);
}

std::string failed;

void check(cudaError_t error) {
  if (error != cudaSuccess && failed.empty()) failed = cudaGetErrorString(error);
}

class Flow {
 public:
  void make() {
    for (float*& each : field_) check(cudaMalloc(&each, sizeof(float) * kDirections * kCells));
    check(cudaMalloc(&sum_, sizeof(float)));
    check(cudaMallocHost(&host_, sizeof(float)));
    check(cudaStreamCreate(&stream_));
    start<<<kCells / 256, 256, 0, stream_>>>(field_[0]);
    for (int i = 0; i < kWarm; ++i) request();
  }
  void request() {
    const dim3 grid(kWide / 256, kHigh);
    for (int i = 0; i < kSteps; ++i) {
      stream_and_collide<<<grid, 256, 0, stream_>>>(field_[0], field_[1]);
      walls<<<grid, 256, 0, stream_>>>(field_[1]);
      std::swap(field_[0], field_[1]);
    }
    check(cudaMemsetAsync(sum_, 0, sizeof(float), stream_));
    speed<<<528, 256, 0, stream_>>>(field_[0], sum_);
    check(cudaMemcpyAsync(host_, sum_, sizeof(float), cudaMemcpyDeviceToHost, stream_));
    check(cudaGetLastError());
    check(cudaStreamSynchronize(stream_));
  }
  float mean_speed() const { return *host_ / kCells; }

 private:
  float *field_[2] = {}, *sum_ = nullptr, *host_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

bool is_there(const std::string& path) {
  struct stat is {};
  return stat(path.c_str(), &is) == 0;
}

void write(const std::string& path, const std::string& text) {
  std::ofstream(path + ".new") << text;
  std::rename((path + ".new").c_str(), path.c_str());
}

std::string list_of(const std::vector<double>& values) {
  std::string text = "[";
  char number[32];
  for (const double value : values) {
    std::snprintf(number, sizeof number, "%s%.6f", text.size() > 1 ? ", " : "", value);
    text += number;
  }
  return text + "]";
}

void wait_until(double due) {
  for (double left; (left = due - now()) > 0;)
    if (left > 2e-4) usleep(static_cast<unsigned>(left * 5e5));
}

std::string serve(Flow& flow, double period, double begin, double seconds) {
  std::vector<double> ms, ends;
  wait_until(begin);
  while (failed.empty()) {
    const double due = period > 0 ? begin + static_cast<double>(ms.size()) * period : now();
    if (due >= begin + seconds || now() >= begin + seconds) break;
    wait_until(due);
    nvtxRangePushA("request");
    flow.request();
    nvtxRangePop();
    const double end = now();
    ms.push_back(1e3 * (end - due)), ends.push_back(end - begin);
  }
  return "{\"ms\": " + list_of(ms) + ", \"ends\": " + list_of(ends) + "}";
}

}  // namespace

int main(int, char** arguments) {
  const std::string folder = arguments[1];
  write(folder + "/imported", "0");
  Flow flow;
  for (int number = 0;; ++number) {
    const std::string path = folder + "/order." + std::to_string(number);
    for (unsigned us = 0, pause = 1000; !is_there(path); us += pause) {
      if (us > 900'000'000) return 0;
      usleep(pause = std::clamp(us / 20, 1000u, 20'000u));  // one that waits for long must not cost others
    }
    std::ifstream file(path);
    std::string what, answer = "{}";
    double period = 0, begin = 0, seconds = 0;
    file >> what >> period >> begin >> seconds;
    if (what == "end") return 0;
    if (what == "context") {
      check(cudaFree(nullptr));
    } else if (what == "begin") {
      flow.make();
      int sms = 0;
      check(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
      answer = "{\"sms\": " + std::to_string(sms) + ", \"mean_speed\": " + std::to_string(flow.mean_speed()) + "}";
    } else if (what == "run") {
      answer = serve(flow, period / 1e3, begin, seconds);
    } else if (what == "count") {
      check(cudaProfilerStart());
      flow.request();
      check(cudaProfilerStop());
    }
    if (!failed.empty()) answer = "{\"failed\": \"" + failed + "\"}";
    write(folder + "/answer." + std::to_string(number), answer);
  }
}
