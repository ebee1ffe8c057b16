// Discrete Fourier transforms of 1,024 points in shared memory, one after the other in a block: five passes of radix 4
// (Stockham), roots of unity by the special functions.
#define POINTS 1024
static __device__ __forceinline__ float2 plus(float2 a, float2 b) { return make_float2(__fadd_rn(a.x, b.x), __fadd_rn(a.y, b.y)); }
static __device__ __forceinline__ float2 minus(float2 a, float2 b) { return make_float2(__fsub_rn(a.x, b.x), __fsub_rn(a.y, b.y)); }
static __device__ __forceinline__ float2 turned(float2 a, float angle) {
  const float c = __cosf(angle), s = __sinf(angle);
  return make_float2(__fmaf_rn(a.x, c, -__fmul_rn(a.y, s)), __fmaf_rn(a.x, s, __fmul_rn(a.y, c)));
}
extern "C" __global__ void __launch_bounds__(256)
fourier(float2* __restrict__ spectra, const float2* __restrict__ signals, unsigned each) {
  __shared__ float2 points[2][POINTS];
  const unsigned j = threadIdx.x;
#pragma unroll 1
  for (unsigned n = 0; n < each; ++n) {
    const size_t at = ((size_t)blockIdx.x * each + n) * POINTS;
#pragma unroll
    for (unsigned r = 0; r < 4; ++r) points[0][j + 256 * r] = signals[at + j + 256 * r];
    unsigned from = 0;
#pragma unroll
    for (unsigned span = 1; span < POINTS; span *= 4, from ^= 1) {
      __syncthreads();
      const unsigned k = j % span;
      const float angle = __fmul_rn(-6.2831853f / (4 * span), (float)k);
      const float2 a = points[from][j], b = turned(points[from][j + 256], angle);
      const float2 c = turned(points[from][j + 512], 2 * angle), d = turned(points[from][j + 768], 3 * angle);
      const float2 even = plus(a, c), odd = minus(a, c), sum = plus(b, d), difference = minus(b, d);
      const float2 quarter = make_float2(difference.y, -difference.x);
      float2* const to = points[from ^ 1] + (j / span) * span * 4 + k;
      to[0] = plus(even, sum), to[span] = plus(odd, quarter);
      to[2 * span] = minus(even, sum), to[3 * span] = minus(odd, quarter);
    }
    __syncthreads();
#pragma unroll
    for (unsigned r = 0; r < 4; ++r) spectra[at + j + 256 * r] = points[from][j + 256 * r];
  }
}
