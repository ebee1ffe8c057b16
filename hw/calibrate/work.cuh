// What a client's kernel is given and what it notes, and the accesses that its units are made of.
#pragma once

#include "launch_kernels.cuh"

// A client of the GPU: its kernel's parameters.
struct Work {
  u64 release, begin, end, leave;  // GPU timer: claims are settled, window, exit
  char* data;
  u64 bytes;
  unsigned warps;               // all warps that will work
  unsigned stride;              // of a pointer chain
  int idle_cycles;              // after each chunk
  int block_units;              // > 0: units that a warp of a block does; blocks come and go
  const unsigned char* wanted;  // by SM
  int per_sm;
  unsigned* claimed;  // by SM, then all
  u64* units;         // finished in the window, by all warps
  struct WarpLog* logs;
};
struct WarpLog {
  u64 start, first, last;  // first instruction; first and last look within the window
  long long first_cycle, last_cycle;
  unsigned sm, slot, block;
  unsigned units;
};

constexpr int kChunk = 4096;  // a warp's 8 loads of 16 bytes a lane

struct alignas(16) Quad {
  unsigned x, y, z, w;
  __device__ unsigned mix() const { return x ^ y ^ z ^ w; }
};
__device__ Quad load_l2(const void* p) {
  Quad q;
  asm volatile("ld.global.cg.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(q.x), "=r"(q.y), "=r"(q.z), "=r"(q.w)
               : "l"(p));
  return q;
}
__device__ void store(void* p, Quad q) {
  asm volatile("st.global.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(p), "r"(q.x), "r"(q.y), "r"(q.z), "r"(q.w)
               : "memory");
}
__device__ unsigned shared_address(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}
