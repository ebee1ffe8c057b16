// C = A B^T in half precision on the tensor cores (mma.sync m16n8k16, sums in single precision): A and B
// row-major with k innermost, tiles of 128 x 128 x 32 by 8 warps of 64 x 32.
#define TILE 128
#define STEP 32
#define ROW (STEP + 8)  // halves; padded against bank conflicts
static __device__ __forceinline__ unsigned shared_at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
static __device__ __forceinline__ void load_tiles(unsigned* r, const unsigned short* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_at(p)));
}
extern "C" __global__ void __launch_bounds__(256)
hgemm(float* __restrict__ c, const unsigned short* __restrict__ a, const unsigned short* __restrict__ b, int n) {
  __shared__ __align__(16) unsigned short as[2][TILE * ROW], bs[2][TILE * ROW];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int wr = warp / 4 * 64, wc = warp % 4 * 32;
  const unsigned short* const a_from = a + (size_t)blockIdx.y * TILE * n;
  const unsigned short* const b_from = b + (size_t)blockIdx.x * TILE * n;
  float sum[4][4][4] = {};
  uint4 next_a[2], next_b[2];
#define FETCH(k)                                                                    \
  for (int i = 0; i < 2; ++i) {                                                     \
    const int piece = threadIdx.x + 256 * i, row = piece / 4, part = piece % 4 * 8; \
    next_a[i] = *(const uint4*)(a_from + (size_t)row * n + (k) + part);             \
    next_b[i] = *(const uint4*)(b_from + (size_t)row * n + (k) + part);             \
  }
#define STORE(to)                                                                   \
  for (int i = 0; i < 2; ++i) {                                                     \
    const int piece = threadIdx.x + 256 * i, row = piece / 4, part = piece % 4 * 8; \
    *(uint4*)&as[to][row * ROW + part] = next_a[i];                                 \
    *(uint4*)&bs[to][row * ROW + part] = next_b[i];                                 \
  }
  FETCH(0)
  STORE(0)
  __syncthreads();
  int now = 0;
  for (int k = 0; k < n; k += STEP, now ^= 1) {
    if (k + STEP < n) { FETCH(k + STEP) }
#pragma unroll
    for (int kk = 0; kk < STEP; kk += 16) {
      unsigned x[4][4], y[2][4];
#pragma unroll
      for (int i = 0; i < 4; ++i) load_tiles(x[i], &as[now][(wr + i * 16 + lane % 16) * ROW + kk + lane / 16 * 8]);
#pragma unroll
      for (int j = 0; j < 2; ++j)
        load_tiles(y[j], &bs[now][(wc + j * 16 + lane % 8 + lane / 16 * 8) * ROW + kk + lane / 8 % 2 * 8]);
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j)
          asm volatile(
              "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
              : "+f"(sum[i][j][0]), "+f"(sum[i][j][1]), "+f"(sum[i][j][2]), "+f"(sum[i][j][3])
              : "r"(x[i][0]), "r"(x[i][1]), "r"(x[i][2]), "r"(x[i][3]), "r"(y[j / 2][j % 2 * 2]),
                "r"(y[j / 2][j % 2 * 2 + 1]));
    }
    if (k + STEP < n) { STORE(now ^ 1) }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      float* const to = c + (size_t)(blockIdx.y * TILE + wr + i * 16 + lane / 4) * n + blockIdx.x * TILE + wc + j * 8 +
                        lane % 4 * 2;
      *(float2*)to = make_float2(sum[i][j][0], sum[i][j][1]);
      *(float2*)(to + 8 * (size_t)n) = make_float2(sum[i][j][2], sum[i][j][3]);
    }
}
