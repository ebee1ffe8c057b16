// Asian and lookback options by simulation: PATHS paths of a price a thread, `steps` steps each; two normal numbers at a
// time by Box and Muller from a hash.  A thread writes the means over its paths.
#define PATHS 16
static __device__ __forceinline__ unsigned mixed(unsigned x) {
  x ^= x >> 16, x *= 0x7feb352du, x ^= x >> 15, x *= 0x846ca68bu, x ^= x >> 16;
  return x;
}
/// In [1, 2).
static __device__ __forceinline__ float number(unsigned bits) { return __uint_as_float(0x3f800000u | bits >> 9); }
extern "C" __global__ void __launch_bounds__(128)
montecarlo(float2* __restrict__ payoff, unsigned steps, float spot, float strike, float drift, float volatility,
           unsigned seed) {
  const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
  float price[PATHS], sum[PATHS], most[PATHS];
#pragma unroll
  for (int p = 0; p < PATHS; ++p) price[p] = spot, sum[p] = 0, most[p] = spot;
  unsigned counter = mixed(thread * 0x9E3779B9u + seed);
#pragma unroll 1
  for (unsigned step = 0; step < steps; ++step) {
#pragma unroll
    for (int p = 0; p < PATHS; p += 2) {
      const unsigned bits = mixed(counter += 0x9E3779B9u);
      const float u = __fsub_rn(2.0f, number(bits)), angle = __fmul_rn(number(mixed(bits + 0x85EBCA6Bu)), 6.2831853f);
      float radius;
      asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(radius) : "f"(__fmul_rn(-2.0f, __logf(u))));
      const float one = __fmul_rn(radius, __cosf(angle)), other = __fmul_rn(radius, __sinf(angle));
      price[p] = __fmul_rn(price[p], __expf(__fmaf_rn(volatility, one, drift)));
      price[p + 1] = __fmul_rn(price[p + 1], __expf(__fmaf_rn(volatility, other, drift)));
      sum[p] = __fadd_rn(sum[p], price[p]), sum[p + 1] = __fadd_rn(sum[p + 1], price[p + 1]);
      most[p] = fmaxf(most[p], price[p]), most[p + 1] = fmaxf(most[p + 1], price[p + 1]);
    }
  }
  float asian = 0, lookback = 0;
  const float scale = __frcp_rn((float)steps);
#pragma unroll
  for (int p = 0; p < PATHS; ++p) {
    asian = __fadd_rn(asian, fmaxf(__fmaf_rn(sum[p], scale, -strike), 0.0f));
    lookback = __fadd_rn(lookback, fmaxf(__fsub_rn(most[p], strike), 0.0f));
  }
  payoff[thread] = make_float2(__fmul_rn(asian, 1.0f / PATHS), __fmul_rn(lookback, 1.0f / PATHS));
}
