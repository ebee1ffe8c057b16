// y = A x for a sparse matrix in ELL form: `width` entries in each row, entry by entry, columns anywhere in x.
extern "C" __global__ void __launch_bounds__(256)
spmv(float* __restrict__ y, const float* __restrict__ value, const unsigned* __restrict__ column,
     const float* __restrict__ x, unsigned rows, unsigned width) {
  const unsigned row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float sum = 0;
#pragma unroll 4
  for (unsigned k = 0; k < width; ++k) {
    const unsigned at = k * rows + row;
    sum = __fmaf_rn(value[at], x[column[at]], sum);
  }
  y[row] = sum;
}
