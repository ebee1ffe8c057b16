// One step of heat in three dimensions, seven points: a block has a column of 128 x 8 points, four a thread, and goes up
// through `depth` planes with the points below and above in registers.  Nothing flows through the border.
extern "C" __global__ void __launch_bounds__(256)
heat(float* __restrict__ out, const float* __restrict__ in, int nx, int ny, int nz, int depth, float rate) {
  const int x = (blockIdx.x * 32 + threadIdx.x) * 4, y = blockIdx.y * 8 + threadIdx.y, first = blockIdx.z * depth;
  const int plane = nx * ny, back = y > 0 ? -nx : 0, front = y + 1 < ny ? nx : 0;
  int at = (first * ny + y) * nx + x;
  float4 below = *(const float4*)(in + (first > 0 ? at - plane : at)), here = *(const float4*)(in + at);
  for (int z = first; z < first + depth; ++z, at += plane) {
    const float4 above = *(const float4*)(in + (z + 1 < nz ? at + plane : at));
    const float4 a = *(const float4*)(in + at + back), b = *(const float4*)(in + at + front);
    const float left = x > 0 ? in[at - 1] : here.x, right = x + 4 < nx ? in[at + 4] : here.w;
#define POINT(c, l, r)                                                                                        \
  __fmaf_rn(rate,                                                                                             \
            __fmaf_rn(-6.0f, here.c, __fadd_rn(__fadd_rn(__fadd_rn(a.c, b.c), __fadd_rn(below.c, above.c)),   \
                                               __fadd_rn(l, r))),                                             \
            here.c)
    *(float4*)(out + at) = make_float4(POINT(x, left, here.y), POINT(y, here.x, here.z), POINT(z, here.y, here.w),
                                       POINT(w, here.z, right));
    below = here, here = above;
  }
}
