// What a launch costs its caller: microseconds of a call of cuLaunchKernel, and from the call to the end of an empty kernel.
//   nvcc -O2 -arch=native -o call call.cu -lcuda && ./call
#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

__global__ void nothing() {}
__global__ void spin(long long cycles) {
  for (const long long begin = clock64(); clock64() - begin < cycles;) {
  }
}

static double now_us() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
static void print(const char* what, std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) { return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))]; };
  std::printf("{\"what\": \"%s\", \"p10_us\": %.3f, \"p50_us\": %.3f, \"p99_us\": %.3f}\n", what, at(0.1), at(0.5), at(0.99));
}

int main() {
  std::vector<double> call, empty, slow;
  for (int i = 0; i < 22000; ++i) {  // one at a time: call, and until it is known to have ended
    const double begin = now_us();
    nothing<<<1, 32>>>();
    const double returned = now_us();
    cudaStreamSynchronize(nullptr);
    if (i >= 2000) call.push_back(returned - begin), empty.push_back(now_us() - begin);
  }
  print("call, GPU idle", call), print("call to known end, GPU idle", empty);
  call.clear();
  double rate = 0;
  for (int turn = 0; turn < 40; ++turn) {  // ahead of the GPU: 500 kernels of 10 us
    for (int i = 0; i < 500; ++i) {
      const double begin = now_us();
      spin<<<1, 32>>>(15000);
      if (turn >= 4) call.push_back(now_us() - begin);
    }
    cudaStreamSynchronize(nullptr);
  }
  print("call, GPU behind", call);
  const double begin = now_us();
  for (int i = 0; i < 200000; ++i) nothing<<<1, 32>>>();
  cudaStreamSynchronize(nullptr);
  rate = (now_us() - begin) / 200000;
  std::printf("{\"what\": \"empty kernels, each\", \"p50_us\": %.3f}\n", rate);
}
