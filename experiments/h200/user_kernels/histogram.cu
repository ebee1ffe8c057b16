// How often each byte occurs, by its place in the word: atomics in shared memory, one histogram a block.
#define BINS 256
static __device__ __forceinline__ void count(unsigned* bins, unsigned word) {
#pragma unroll
  for (int i = 0; i < 4; ++i) atomicAdd(&bins[i * BINS + (word >> 8 * i & 255)], 1u);
}
extern "C" __global__ void __launch_bounds__(256)
histogram(unsigned* __restrict__ counts, const uint4* __restrict__ data, unsigned per_thread) {
  __shared__ unsigned bins[4 * BINS];
  for (unsigned i = threadIdx.x; i < 4 * BINS; i += blockDim.x) bins[i] = 0;
  __syncthreads();
  const uint4* const mine = data + (size_t)blockIdx.x * per_thread * blockDim.x + threadIdx.x;
#pragma unroll 2
  for (unsigned k = 0; k < per_thread; ++k) {
    const uint4 four = mine[k * blockDim.x];
    count(bins, four.x), count(bins, four.y), count(bins, four.z), count(bins, four.w);
  }
  __syncthreads();
  for (unsigned i = threadIdx.x; i < 4 * BINS; i += blockDim.x) counts[blockIdx.x * 4 * BINS + i] = bins[i];
}
