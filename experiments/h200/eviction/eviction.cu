#include <chrono>
#include <cstdio>
#include <cuda_runtime.h>
__global__ void spin(volatile int* stop) {
  for (long i = 0; i < 20000000 && *stop == 0; ++i) {
  }
}
__global__ void evictable(volatile int* stop, float* out) {
  __shared__ int leave;
  if (threadIdx.x == 0) leave = *stop;
  __syncthreads();
  if (leave == 0) out[blockIdx.x * blockDim.x + threadIdx.x] = 1;
}
int main() {
  using Clock = std::chrono::steady_clock;
  int *flag, *one;
  float* out;
  cudaMalloc(&flag, 4);
  cudaMalloc(&out, 4 * 256 * 8448);
  cudaHostAlloc(&one, 4, 0);
  *one = 1;
  cudaStream_t work, control;
  cudaStreamCreateWithFlags(&work, cudaStreamNonBlocking);
  cudaStreamCreateWithFlags(&control, cudaStreamNonBlocking);
  std::printf("blocks,behind,repetition,us\n");
  for (const int blocks : {1, 132, 1056, 8448})
    for (const int n : {0, 1, 2, 3, 7, 15, 63, 255})
      for (int r = -2; r < 10; ++r) {
        cudaMemsetAsync(flag, 0, 4, work);
        cudaStreamSynchronize(work);
        spin<<<1, 32, 0, work>>>(flag);
        for (int i = 0; i < n; ++i) evictable<<<blocks, 256, 0, work>>>(flag, out);
        const auto settled = Clock::now() + std::chrono::microseconds(300);
        while (Clock::now() < settled) {
        }
        const auto t = Clock::now();
        cudaMemcpyAsync(flag, one, 4, cudaMemcpyHostToDevice, control);
        while (cudaStreamQuery(work) == cudaErrorNotReady) {
        }
        const std::chrono::duration<double, std::micro> took = Clock::now() - t;
        if (r >= 0) std::printf("%d,%d,%d,%.2f\n", blocks, n, r, took.count());
      }
  return cudaDeviceSynchronize();
}
