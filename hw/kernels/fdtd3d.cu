// One step of a finite-difference stencil of radius 4 in three dimensions: a block holds a tile of a plane in
// shared memory and marches through the planes, the column above and below in registers.
#define R 4
#define TX 32
#define TY 16
extern "C" __global__ void __launch_bounds__(TX* TY)
fdtd3d(float* __restrict__ out, const float* __restrict__ in, int nx, int ny, int nz) {
  __shared__ float tile[TY + 2 * R][TX + 2 * R];
  const float c[R + 1] = {-2.847222f, 1.6f, -0.2f, 0.02539683f, -0.001785714f};
  const int x = blockIdx.x * TX + threadIdx.x, y = blockIdx.y * TY + threadIdx.y;
  const bool inside = x < nx && y < ny;
  const int row = nx + 2 * R, plane = row * (ny + 2 * R);  // the arrays have a border of R
  const int tx = threadIdx.x + R, ty = threadIdx.y + R;
  int at = (y + R) * row + x + R;
  float behind[R], front[R], current = 0;
  for (int i = 0; i < R; ++i) behind[R - 1 - i] = inside ? in[at + i * plane] : 0;
  if (inside) current = in[at + R * plane];
  for (int i = 0; i < R; ++i) front[i] = inside ? in[at + (R + 1 + i) * plane] : 0;
  at += R * plane;
  for (int z = 0; z < nz; ++z) {
    __syncthreads();
    tile[ty][tx] = current;
    if (threadIdx.y < R && x < nx) {
      if (blockIdx.y * TY + threadIdx.y < ny) tile[threadIdx.y][tx] = in[at - R * row];
      const int under = y + TY < ny + R ? at + TY * row : at;
      tile[threadIdx.y + TY + R][tx] = in[under];
    }
    if (threadIdx.x < R && y < ny) {
      if (blockIdx.x * TX + threadIdx.x < nx) tile[ty][threadIdx.x] = in[at - R];
      const int right = x + TX < nx + R ? at + TX : at;
      tile[ty][threadIdx.x + TX + R] = in[right];
    }
    __syncthreads();
    if (inside) {
      float value = c[0] * 3 * current;
#pragma unroll
      for (int i = 1; i <= R; ++i)
        value += c[i] * (front[i - 1] + behind[i - 1] + tile[ty - i][tx] + tile[ty + i][tx] + tile[ty][tx - i] +
                         tile[ty][tx + i]);
      out[at] = value;
    }
#pragma unroll
    for (int i = R - 1; i > 0; --i) behind[i] = behind[i - 1];
    behind[0] = current;
    current = front[0];
#pragma unroll
    for (int i = 0; i < R - 1; ++i) front[i] = front[i + 1];
    at += plane;
    if (inside && z + 1 < nz) front[R - 1] = in[at + R * plane];
  }
}
