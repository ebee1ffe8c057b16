// Inputs: a value is a hash of its index and the buffer's seed, so that the host can say what any of them is.
static __device__ __forceinline__ unsigned hash(unsigned i, unsigned seed) {
  unsigned x = i * 0x9E3779B9u + seed * 0x85EBCA6Bu;
  x ^= x >> 16, x *= 0x7feb352du, x ^= x >> 15, x *= 0x846ca68bu, x ^= x >> 16;
  return x;
}
static __device__ __forceinline__ float number(unsigned i, unsigned seed, float low, float range) {
  return __fmaf_rn((float)(hash(i, seed) >> 8) * 0x1p-24f, range, low);
}
extern "C" __global__ void fill_f32(float* out, unsigned n, unsigned seed, float low, float range) {
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    out[i] = number(i, seed, low, range);
}
extern "C" __global__ void fill_f64(double* out, unsigned n, unsigned seed, float low, float range) {
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    out[i] = (double)number(i, seed, low, range);
}
extern "C" __global__ void fill_f16(unsigned short* out, unsigned n, unsigned seed, float low, float range) {
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(out[i]) : "f"(number(i, seed, low, range)));
}
extern "C" __global__ void fill_u32(unsigned* out, unsigned n, unsigned seed, unsigned modulus) {
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    out[i] = modulus == 0 ? hash(i, seed) : hash(i, seed) % modulus;
}
// A checksum that any change of any word changes: enough to compare two runs over gigabytes.
extern "C" __global__ void digest(const unsigned* in, unsigned n, unsigned long long* out) {
  unsigned long long sum = 0;
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    sum += (unsigned long long)hash(in[i], i) * (2ull * i + 1) ^ ((unsigned long long)hash(i, in[i]) << 32);
  atomicAdd(out, sum);
}
// Not by a copy, which would wait for larger ones in its engine.
extern "C" __global__ void publish(const unsigned long long* from, volatile unsigned long long* to) { *to = *from; }
// Where each group of SMs lies.
extern "C" __global__ void where(unsigned* sm) {
  unsigned id;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(id));
  if (threadIdx.x == 0) sm[blockIdx.x] = id;
}
// Tells the host that each block runs.
extern "C" __global__ void mark(volatile unsigned* seen, unsigned value) {
  if (threadIdx.x == 0) seen[blockIdx.x] = value;
}
// Says when it sees what the host asks: places the GPU's clock on the host's.
extern "C" __global__ void answer(const volatile unsigned* asked, volatile unsigned* answered,
                                  volatile unsigned long long* at, unsigned n) {
  for (unsigned i = 1; i <= n; ++i) {
    while (*asked != i) {
    }
    unsigned long long now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    *at = now;
    __threadfence_system();
    *answered = i;
  }
}
