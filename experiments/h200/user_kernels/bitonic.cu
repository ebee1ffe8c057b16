// Sorts tiles of `tile` keys (a power of two) in shared memory, a tile a block: Batcher's bitonic network.
extern "C" __global__ void __launch_bounds__(1024)
bitonic(unsigned* __restrict__ out, const unsigned* __restrict__ in, unsigned tile) {
  extern __shared__ unsigned keys[];
  const unsigned first = blockIdx.x * tile;
  for (unsigned i = threadIdx.x; i < tile; i += blockDim.x) keys[i] = in[first + i];
  for (unsigned size = 2; size <= tile; size *= 2)
    for (unsigned step = size / 2; step > 0; step /= 2) {
      __syncthreads();
      for (unsigned i = threadIdx.x; i < tile / 2; i += blockDim.x) {
        const unsigned low = 2 * i - (i & (step - 1)), high = low + step;
        const unsigned a = keys[low], b = keys[high];
        if ((a > b) == ((low & size) == 0)) keys[low] = b, keys[high] = a;
      }
    }
  __syncthreads();
  for (unsigned i = threadIdx.x; i < tile; i += blockDim.x) out[first + i] = keys[i];
}
