// 3 x 3 convolution, one pixel of padding, NCHW: a block makes 8 channels of a tile of 16 x 16, of one image.
#define SIDE 16
#define OUT 8
extern "C" __global__ void __launch_bounds__(SIDE* SIDE)
conv3x3(float* __restrict__ out, const float* __restrict__ in, const float* __restrict__ weight, int channels,
        int filters, int height, int width) {
  __shared__ float tile[SIDE + 2][SIDE + 2];
  __shared__ float w[OUT][9];
  const int tiles = (width + SIDE - 1) / SIDE;
  const int x = blockIdx.x % tiles * SIDE + threadIdx.x, y = blockIdx.x / tiles * SIDE + threadIdx.y;
  const int first = blockIdx.y * OUT, image = blockIdx.z, thread = threadIdx.y * SIDE + threadIdx.x;
  float sum[OUT] = {};
  for (int c = 0; c < channels; ++c) {
    const float* const from = in + ((size_t)image * channels + c) * height * width;
    __syncthreads();
    for (int i = thread; i < (SIDE + 2) * (SIDE + 2); i += SIDE * SIDE) {
      const int tx = blockIdx.x % tiles * SIDE + i % (SIDE + 2) - 1, ty = blockIdx.x / tiles * SIDE + i / (SIDE + 2) - 1;
      tile[i / (SIDE + 2)][i % (SIDE + 2)] =
          tx >= 0 && tx < width && ty >= 0 && ty < height ? from[ty * width + tx] : 0.0f;
    }
    if (thread < OUT * 9) w[thread / 9][thread % 9] = weight[((first + thread / 9) * channels + c) * 9 + thread % 9];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 9; ++k) {
      const float value = tile[threadIdx.y + k / 3][threadIdx.x + k % 3];
#pragma unroll
      for (int f = 0; f < OUT; ++f) sum[f] = __fmaf_rn(value, w[f][k], sum[f]);
    }
  }
  if (x < width && y < height)
    for (int f = 0; f < OUT; ++f) out[(((size_t)image * filters + first + f) * height + y) * width + x] = sum[f];
}
