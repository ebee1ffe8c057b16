// A block that takes a given time and little else: for latencies.
extern "C" __global__ void spin(unsigned* __restrict__ out, unsigned ns) {
  unsigned long long start, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  while (now - start < ns);
  if (threadIdx.x == 0) out[blockIdx.x] = blockIdx.x * 2654435761u;
}
