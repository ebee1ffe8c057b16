// A layer of a network, as far as a scheduler can tell: any grid and block, and a time that is set by how much
// each thread loads and how long it computes.
extern "C" __global__ void __launch_bounds__(1024)
layer(float* __restrict__ out, const float4* __restrict__ in, unsigned mask, unsigned loads, unsigned rounds) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x, all = gridDim.x * blockDim.x;
  float x = 1.0f + 0x1p-20f * (i % 1024);
  for (unsigned l = 0; l < loads; ++l) {
    const float4 v = in[(i + l * all) & mask];
    x += v.x * v.y + v.z * v.w;
  }
  for (unsigned r = 0; r < rounds; ++r)
#pragma unroll
    for (int k = 0; k < 8; ++k) x = __fmaf_rn(x, 0.99f, 0.01f);
  out[i] = x;
}
