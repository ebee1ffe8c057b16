// nvcc makes the fat binaries beside this of it (make.sh).
extern "C" __global__ void counted(unsigned* counts) { atomicAdd(&counts[blockIdx.x], 1u); }
extern "C" __global__ void scaled(const float* in, float* out, float by) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = by * in[i];
}
