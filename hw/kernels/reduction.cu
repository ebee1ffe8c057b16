// Sums of 4,096 values each, a block of 256 threads a sum.
extern "C" __global__ void __launch_bounds__(256) reduction(float* __restrict__ out, const float4* __restrict__ in) {
  __shared__ float scratch[8];
  float sum = 0;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const float4 v = in[(size_t)blockIdx.x * 1024 + k * 256 + threadIdx.x];
    sum += v.x + v.y + v.z + v.w;
  }
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int i = 1; i < 8; ++i) sum += scratch[i];
    out[blockIdx.x] = sum;
  }
}
