// Two-point angular correlation: histograms of the angles between pairs of points on the sphere, one a block.
#define BINS 20
#define POINTS 256
extern "C" __global__ void __launch_bounds__(256)
tpacf(unsigned* __restrict__ histogram, const float4* __restrict__ point, const float* __restrict__ border,
      unsigned per_block) {
  __shared__ float4 others[POINTS];
  __shared__ float borders[BINS];
  __shared__ unsigned counts[BINS + 1];
  if (threadIdx.x < BINS) borders[threadIdx.x] = border[threadIdx.x];
  if (threadIdx.x <= BINS) counts[threadIdx.x] = 0;
  const float4 me = point[blockIdx.x * POINTS + threadIdx.x];
  for (unsigned first = blockIdx.y * per_block; first < (blockIdx.y + 1) * per_block; first += POINTS) {
    __syncthreads();
    others[threadIdx.x] = point[first + threadIdx.x];
    __syncthreads();
    for (int j = 0; j < POINTS; ++j) {
      const float cosine = me.x * others[j].x + me.y * others[j].y + me.z * others[j].z;
      int low = 0, high = BINS;
      while (low < high) {
        const int middle = (low + high) / 2;
        if (cosine >= borders[middle]) high = middle; else low = middle + 1;
      }
      atomicAdd(&counts[low], 1u);
    }
  }
  __syncthreads();
  if (threadIdx.x <= BINS) histogram[(blockIdx.y * gridDim.x + blockIdx.x) * (BINS + 1) + threadIdx.x] = counts[threadIdx.x];
}
