// Potential and forces between the particles of a box and those of its 27 neighbours (periodic), a block a box.
#define PER_BOX 100
struct Particle {
  double v, x, y, z;
};
extern "C" __global__ void __launch_bounds__(128)
lavamd(Particle* __restrict__ force, const Particle* __restrict__ at, const double* __restrict__ charge, int side,
       double a2) {
  __shared__ Particle home[PER_BOX], near_[PER_BOX];
  __shared__ double near_charge[PER_BOX];
  const int box = blockIdx.x, bx = box % side, by = box / side % side, bz = box / (side * side);
  for (int i = threadIdx.x; i < PER_BOX; i += blockDim.x) home[i] = at[box * PER_BOX + i];
  Particle f = {0, 0, 0, 0};
  for (int k = 0; k < 27; ++k) {
    const int nx = (bx + k % 3 - 1 + side) % side, ny = (by + k / 3 % 3 - 1 + side) % side,
              nz = (bz + k / 9 - 1 + side) % side;
    const int other = (nz * side + ny) * side + nx;
    __syncthreads();
    for (int i = threadIdx.x; i < PER_BOX; i += blockDim.x) {
      near_[i] = at[other * PER_BOX + i];
      near_charge[i] = charge[other * PER_BOX + i];
    }
    __syncthreads();
    if (threadIdx.x < PER_BOX) {
      const Particle me = home[threadIdx.x];
      for (int j = 0; j < PER_BOX; ++j) {
        const Particle p = near_[j];
        const double r2 = me.v + p.v - (me.x * p.x + me.y * p.y + me.z * p.z);
        const double vij = exp(-a2 * r2), fs = 2 * vij * near_charge[j];
        f.v += near_charge[j] * vij;
        f.x += fs * (me.x - p.x);
        f.y += fs * (me.y - p.y);
        f.z += fs * (me.z - p.z);
      }
    }
  }
  if (threadIdx.x < PER_BOX) force[box * PER_BOX + threadIdx.x] = f;
}
