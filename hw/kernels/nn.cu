// Nearest neighbour: distances of records to a point.
extern "C" __global__ void __launch_bounds__(256)
nn(float* __restrict__ distance, const float2* __restrict__ place, unsigned n, float latitude, float longitude) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float2 p = place[i];
  distance[i] = sqrtf((latitude - p.x) * (latitude - p.x) + (longitude - p.y) * (longitude - p.y));
}
