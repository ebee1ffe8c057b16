// Gravity: how `bodies` (place and mass) are pulled by one part of them.  A thread has four bodies, the others come in
// tiles through shared memory; blockIdx.y says which part, and each part's pulls are written apart.
#define TILE 256
#define THREADS 128
#define EACH 4
static __device__ __forceinline__ void pull(float4& sum, float4 me, float4 other, float softening) {
  const float x = __fsub_rn(other.x, me.x), y = __fsub_rn(other.y, me.y), z = __fsub_rn(other.z, me.z);
  const float square = __fmaf_rn(x, x, __fmaf_rn(y, y, __fmaf_rn(z, z, softening)));
  float inverse;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(square));
  const float force = __fmul_rn(__fmul_rn(other.w, inverse), __fmul_rn(inverse, inverse));
  sum.x = __fmaf_rn(force, x, sum.x);
  sum.y = __fmaf_rn(force, y, sum.y);
  sum.z = __fmaf_rn(force, z, sum.z);
}
extern "C" __global__ void __launch_bounds__(THREADS)
nbody(float4* __restrict__ pulls, const float4* __restrict__ body, unsigned bodies, float softening) {
  __shared__ float4 others[TILE];
  const unsigned mine = blockIdx.x * THREADS * EACH + threadIdx.x, part = bodies / gridDim.y;
  float4 me[EACH], sum[EACH];
#pragma unroll
  for (int k = 0; k < EACH; ++k) me[k] = body[mine + k * THREADS], sum[k] = make_float4(0, 0, 0, 0);
  for (unsigned first = blockIdx.y * part; first < (blockIdx.y + 1) * part; first += TILE) {
    __syncthreads();
    for (int i = threadIdx.x; i < TILE; i += THREADS) others[i] = body[first + i];
    __syncthreads();
#pragma unroll 4
    for (int i = 0; i < TILE; ++i) {
      const float4 other = others[i];
#pragma unroll
      for (int k = 0; k < EACH; ++k) pull(sum[k], me[k], other, softening);
    }
  }
#pragma unroll
  for (int k = 0; k < EACH; ++k) pulls[blockIdx.y * bodies + mine + k * THREADS] = sum[k];
}
