// Streaming: copy and triad, 16 bytes a thread.
extern "C" __global__ void __launch_bounds__(256) copy(float4* __restrict__ out, const float4* __restrict__ in) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = in[i];
}
extern "C" __global__ void __launch_bounds__(256)
triad(float4* __restrict__ a, const float4* __restrict__ b, const float4* __restrict__ c, float s) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  const float4 x = b[i], y = c[i];
  a[i] = make_float4(x.x + s * y.x, x.y + s * y.y, x.z + s * y.z, x.w + s * y.w);
}
