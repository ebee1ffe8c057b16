// C = A B, row-major, all square of side n: tiles of 128 x 128 by 256 threads, 8 x 8 values a thread.
#define TILE 128
#define STEP 8
extern "C" __global__ void __launch_bounds__(256, 2)
sgemm(float* __restrict__ c, const float* __restrict__ a, const float* __restrict__ b, int n) {
  __shared__ __align__(16) float as[STEP][TILE], bs[STEP][TILE];
  const int row = blockIdx.y * TILE, column = blockIdx.x * TILE;
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  const int a_row = threadIdx.x / 2, a_column = threadIdx.x % 2 * 4, b_row = threadIdx.x / 32,
            b_column = threadIdx.x % 32 * 4;
  const float* const a_at = a + (size_t)(row + a_row) * n + a_column;
  const float* const b_at = b + (size_t)b_row * n + column + b_column;
  float sum[8][8] = {};
  float4 next_a = *(const float4*)a_at, next_b = *(const float4*)b_at;
  for (int k = 0; k < n; k += STEP) {
    __syncthreads();
    as[a_column + 0][a_row] = next_a.x, as[a_column + 1][a_row] = next_a.y;
    as[a_column + 2][a_row] = next_a.z, as[a_column + 3][a_row] = next_a.w;
    *(float4*)&bs[b_row][b_column] = next_b;
    __syncthreads();
    if (k + STEP < n) {
      next_a = *(const float4*)(a_at + k + STEP);
      next_b = *(const float4*)(b_at + (size_t)(k + STEP) * n);
    }
#pragma unroll
    for (int i = 0; i < STEP; ++i) {
      float x[8], y[8];
      *(float4*)&x[0] = *(float4*)&as[i][ty * 4], *(float4*)&x[4] = *(float4*)&as[i][ty * 4 + 64];
      *(float4*)&y[0] = *(float4*)&bs[i][tx * 4], *(float4*)&y[4] = *(float4*)&bs[i][tx * 4 + 64];
#pragma unroll
      for (int r = 0; r < 8; ++r)
#pragma unroll
        for (int s = 0; s < 8; ++s) sum[r][s] = __fmaf_rn(x[r], y[s], sum[r][s]);
    }
  }
#pragma unroll
  for (int r = 0; r < 8; ++r) {
    float* const to = c + (size_t)(row + ty * 4 + r % 4 + r / 4 * 64) * n + column + tx * 4;
    *(float4*)to = make_float4(sum[r][0], sum[r][1], sum[r][2], sum[r][3]);
    *(float4*)(to + 64) = make_float4(sum[r][4], sum[r][5], sum[r][6], sum[r][7]);
  }
}
