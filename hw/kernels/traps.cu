// What rewriting kernels gets wrong most easily: lanes that return before barriers, all three dimensions, and
// device functions that read the block's index.
static __device__ unsigned block_number() { return blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z); }
extern "C" __global__ void traps(unsigned* __restrict__ out, unsigned active) {
  __shared__ unsigned sums[3];
  if (threadIdx.x < 3) sums[threadIdx.x] = 0;
  __syncthreads();
  if (threadIdx.x % 3 == 2 || threadIdx.x >= active) return;  // some lanes of every warp, some whole warps
  atomicAdd(&sums[threadIdx.x % 3], threadIdx.x);
  __syncthreads();
  const unsigned before = sums[0] + sums[1];
  __syncthreads();
  if (threadIdx.x % 3 == 1) return;
  atomicAdd(&sums[2], before + blockIdx.z);
  __syncthreads();
  if (threadIdx.x == 0) out[block_number()] = sums[2] * 7 + blockIdx.y;
}
