// Look-ups in a hash table of `mask` + 1 entries with linear probing: from a key's slot on to the key or to an empty entry, at
// most `most` entries.  An entry whose value is divisible by four counts as empty.  A thread writes the sum of what it found.
static __device__ __forceinline__ unsigned slot_of(unsigned key) {
  key ^= key >> 16, key *= 0x7feb352du, key ^= key >> 15, key *= 0x846ca68bu;
  return key ^ key >> 16;
}
extern "C" __global__ void __launch_bounds__(256)
probe(unsigned* __restrict__ found, const unsigned* __restrict__ keys, const uint2* __restrict__ table, unsigned mask,
      unsigned per_thread, unsigned most) {
  const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
  unsigned sum = 0;
#pragma unroll 1
  for (unsigned i = 0; i < per_thread; ++i) {
    const unsigned key = keys[(size_t)i * threads + thread];
    unsigned slot = slot_of(key);
#pragma unroll 1
    for (unsigned k = 0; k < most; ++k, ++slot) {
      const uint2 entry = table[slot & mask];
      if (entry.x == key) sum += entry.y;
      if (entry.x == key || (entry.y & 3) == 0) break;
      sum ^= entry.x;
    }
  }
  found[thread] = sum;
}
