// Transposition by tiles of 32 x 32 in shared memory.
extern "C" __global__ void __launch_bounds__(256)
transpose(float* __restrict__ out, const float* __restrict__ in, unsigned side) {
  __shared__ float tile[32][33];
  unsigned x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
#pragma unroll
  for (unsigned i = 0; i < 32; i += 8) tile[threadIdx.y + i][threadIdx.x] = in[(size_t)(y + i) * side + x];
  __syncthreads();
  x = blockIdx.y * 32 + threadIdx.x, y = blockIdx.x * 32 + threadIdx.y;
#pragma unroll
  for (unsigned i = 0; i < 32; i += 8) out[(size_t)(y + i) * side + x] = tile[threadIdx.x][threadIdx.y + i];
}
