// After how many steps a point leaves the circle of radius 2, a thread a point: neighbours take 2 steps or `most`.
extern "C" __global__ void __launch_bounds__(256)
mandelbrot(unsigned* __restrict__ steps, unsigned width, unsigned height, float left, float top, float pixel,
           unsigned most) {
  const unsigned column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
  if (column >= width || row >= height) return;
  const float cx = __fmaf_rn((float)column, pixel, left), cy = __fmaf_rn((float)row, pixel, top);
  float x = 0, y = 0;
  unsigned n = 0;
  for (; n < most; ++n) {
    const float xx = __fmul_rn(x, x), yy = __fmul_rn(y, y);
    if (__fadd_rn(xx, yy) > 4.0f) break;
    y = __fmaf_rn(__fadd_rn(x, x), y, cy);
    x = __fadd_rn(__fsub_rn(xx, yy), cx);
  }
  steps[row * width + column] = n;
}
