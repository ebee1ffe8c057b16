// Softmax and layer normalisation of rows of 1,024 values, a block of 256 threads a row.
static __device__ __forceinline__ float over_block(float v, bool largest, float* scratch) {
  for (int step = 16; step > 0; step /= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, v, step);
    v = largest ? fmaxf(v, other) : v + other;
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = v;
  __syncthreads();
  v = scratch[0];
  for (int i = 1; i < 8; ++i) v = largest ? fmaxf(v, scratch[i]) : v + scratch[i];
  return v;
}
extern "C" __global__ void __launch_bounds__(256) softmax(float4* __restrict__ out, const float4* __restrict__ in) {
  __shared__ float scratch[8];
  const unsigned i = blockIdx.x * 256 + threadIdx.x;
  float4 v = in[i];
  const float most = over_block(fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w)), true, scratch);
  v = make_float4(__expf(v.x - most), __expf(v.y - most), __expf(v.z - most), __expf(v.w - most));
  const float scale = 1.0f / over_block(v.x + v.y + v.z + v.w, false, scratch);
  out[i] = make_float4(v.x * scale, v.y * scale, v.z * scale, v.w * scale);
}
extern "C" __global__ void __launch_bounds__(256) layernorm(float4* __restrict__ out, const float4* __restrict__ in) {
  __shared__ float scratch[8];
  const unsigned i = blockIdx.x * 256 + threadIdx.x;
  float4 v = in[i];
  const float mean = over_block(v.x + v.y + v.z + v.w, false, scratch) * 0x1p-10f;
  v = make_float4(v.x - mean, v.y - mean, v.z - mean, v.w - mean);
  const float variance = over_block(v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w, false, scratch) * 0x1p-10f;
  const float scale = rsqrtf(variance + 1e-5f);
  out[i] = make_float4(v.x * scale, v.y * scale, v.z * scale, v.w * scale);
}
