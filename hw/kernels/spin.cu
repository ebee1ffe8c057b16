// A block that takes a given time and little else: for latencies.
extern "C" __global__ void spin(unsigned* __restrict__ out, unsigned ns) {
  unsigned long long start, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  while (now - start < ns);
  if (threadIdx.x == 0) out[blockIdx.x] = blockIdx.x * 2654435761u;
}
// The same, but one thread looks at the clock: the clock serves all warps of an SM one after the other, which
// delays whatever else reads a special register.
extern "C" __global__ void wait(unsigned* __restrict__ out, unsigned ns) {
  if (threadIdx.x == 0) {
    unsigned long long start, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
    do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    while (now - start < ns);
    out[blockIdx.x] = blockIdx.x * 2654435761u;
  }
  __syncthreads();
}
// Does nothing, and notes when each launch's first and last block began: pairs of ~first, last by launch.
extern "C" __global__ void stamp(unsigned* __restrict__ out, unsigned* started, unsigned* notes, unsigned most) {
  if (threadIdx.x != 0) return;
  unsigned long long now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  const unsigned launch = atomicAdd(started, 1u) / gridDim.x;
  if (launch < most) {
    unsigned long long* const at = (unsigned long long*)notes + 2ull * launch;
    atomicMax(at, ~now);
    atomicMax(at + 1, now);
  }
  out[blockIdx.x] = blockIdx.x * 2654435761u;
}
