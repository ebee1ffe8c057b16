// What a number taken from a counter costs: additions to one address, or to one of a few, by thread 0 of many
// blocks; with a barrier, as a worker waits; and by blocks that leave after one.
#include <cuda_runtime.h>
#include <algorithm>
#include <cstdio>
#include <vector>
__global__ void take64(unsigned long long* c, unsigned n, unsigned spread, unsigned long long* sink) {
  if (threadIdx.x == 0) {
    unsigned long long* a = c + (blockIdx.x % spread) * 512;
    unsigned long long s = 0;
    for (unsigned i = 0; i < n; ++i) {
      unsigned long long v;
      asm volatile("atom.relaxed.gpu.global.add.u64 %0,[%1],%2;"
                   : "=l"(v)
                   : "l"(a), "l"(1ull + (s >> 63))
                   : "memory");
      s += v;
    }
    if (s == 1) *sink = s;
  }
}
__global__ void take32(unsigned* c, unsigned n, unsigned spread, unsigned* sink) {
  if (threadIdx.x == 0) {
    unsigned* a = c + (blockIdx.x % spread) * 1024;
    unsigned s = 0;
    for (unsigned i = 0; i < n; ++i) {
      unsigned v;
      asm volatile("atom.relaxed.gpu.global.add.u32 %0,[%1],%2;"
                   : "=r"(v)
                   : "l"(a), "r"(1u + (s >> 31) * 0)
                   : "memory");
      s += v;
    }
    if (s == 1) *sink = s;
  }
}
__global__ void turn(unsigned long long* c, unsigned n,
                     unsigned long long* sink) {  // take + barrier, as a worker
  __shared__ unsigned long long slot[2];
  unsigned t = 0;
  for (unsigned i = 0; i < n; ++i) {
    if (threadIdx.x == 0) {
      unsigned long long v;
      asm volatile("atom.relaxed.gpu.global.add.u64 %0,[%1],%2;" : "=l"(v) : "l"(c), "l"(1ull) : "memory");
      slot[t] = v;
    }
    __syncthreads();
    if (slot[t] == ~0ull) *sink = 1;
    t ^= 1;
  }
}
__global__ void fresh(unsigned long long* c, unsigned long long* sink) {
  __shared__ unsigned long long slot;
  if (threadIdx.x == 0) {
    unsigned long long v;
    asm volatile("atom.relaxed.gpu.global.add.u64 %0,[%1],%2;" : "=l"(v) : "l"(c), "l"(1ull) : "memory");
    slot = v;
  }
  __syncthreads();
  if (slot == ~0ull) *sink = 1;
}
__global__ void empty(unsigned long long* sink) {
  if (sink == nullptr) __trap();
}
template <class F>
double us(F f) {
  cudaEvent_t a, b;
  cudaEventCreate(&a);
  cudaEventCreate(&b);
  std::vector<float> v;
  for (int i = 0; i < 7; ++i) {
    cudaEventRecord(a);
    f();
    cudaEventRecord(b);
    cudaEventSynchronize(b);
    float m;
    cudaEventElapsedTime(&m, a, b);
    v.push_back(m * 1000);
  }
  std::sort(v.begin(), v.end());
  return v[3];
}
int main() {
  char* m;
  cudaMalloc(&m, 1 << 24);
  cudaMemset(m, 0, 1 << 24);
  auto* c = (unsigned long long*)m;
  auto* sink = c + (1 << 20);
  for (unsigned w : {1u, 132u, 528u, 1056u, 2112u})
    for (unsigned sp : {1u, 2u, 4u, 8u}) {
      unsigned n = 200;
      double a = us([&] { take64<<<w, 128>>>(c, n, sp, sink); }),
             b = us([&] { take32<<<w, 128>>>((unsigned*)c, n, sp, (unsigned*)sink); });
      printf("%5u workers, %u counters: 64 bit %7.1f ns a round, %6.1f M/s; 32 bit %7.1f ns, %6.1f M/s\n", w,
             sp, a * 1000 / n, w * n / a, b * 1000 / n, w * n / b);
    }
  for (unsigned th : {128u, 256u, 1024u}) {
    unsigned w = 132 * (2048 / th > 16 ? 16 : 2048 / th), n = 200;
    double a = us([&] { turn<<<w, th>>>(c, n, sink); });
    printf("turns of %u workers of %u threads: %.1f ns\n", w, th, a * 1000 / n);
    unsigned g = 65536;
    double f = us([&] { fresh<<<g, th>>>(c, sink); }), e = us([&] { empty<<<g, th>>>(sink); });
    printf("%u fresh blocks of %u threads that take a number: %.1f us, empty ones %.1f us\n", g, th, f, e);
  }
}
