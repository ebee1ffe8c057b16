// Running sums of 1,024 integers each: a block of four warps, eight values a thread.
#define WARPS 4
extern "C" __global__ void __launch_bounds__(WARPS * 32) scan(uint4* __restrict__ out, const uint4* __restrict__ in) {
  __shared__ unsigned of_warp[WARPS];
  const unsigned at = (blockIdx.x * WARPS * 32 + threadIdx.x) * 2, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  uint4 a = in[at], b = in[at + 1];
  a.y += a.x, a.z += a.y, a.w += a.z;
  b.x += a.w, b.y += b.x, b.z += b.y, b.w += b.z;
  unsigned sum = b.w;
#pragma unroll
  for (unsigned step = 1; step < 32; step *= 2) {
    const unsigned before = __shfl_up_sync(0xffffffffu, sum, step);
    if (lane >= step) sum += before;
  }
  if (lane == 31) of_warp[warp] = sum;
  __syncthreads();
  unsigned more = sum - b.w;
  for (unsigned w = 0; w < warp; ++w) more += of_warp[w];
  out[at] = make_uint4(a.x + more, a.y + more, a.z + more, a.w + more);
  out[at + 1] = make_uint4(b.x + more, b.y + more, b.z + more, b.w + more);
}
