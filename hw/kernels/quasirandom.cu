// A low-discrepancy sequence in three dimensions: direction numbers chosen by the bits of the index.
extern "C" __global__ void __launch_bounds__(384)
quasirandom(float* __restrict__ out, const unsigned* __restrict__ directions, unsigned n) {
  const unsigned step = gridDim.x * blockDim.x, *mine = directions + threadIdx.y * 31;
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
    unsigned result = 0, bits = i;
#pragma unroll
    for (int b = 0; b < 31; ++b, bits >>= 1)
      if (bits & 1) result ^= __ldg(&mine[b]);
    out[threadIdx.y * n + i] = (float)(result + 1) * 0x1p-31f;
  }
}
