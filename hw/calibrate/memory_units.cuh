// Units of work on L2 and DRAM: amount in bytes.
#pragma once

#include "compute_units.cuh"

__device__ void idle(int cycles) {
  if (cycles > 0) spin(cycles);
}

// Every chunk in turn: `reads` streams are read and `writes` streams written, each in its part of the buffer.
template <int reads, int writes>
struct Stream {
  static constexpr double kAmount = 4.0 * kChunk * (reads + writes);
  static constexpr bool kWholeBlock = false;
  char* at;
  u64 part;
  unsigned chunk, chunks, step, mix = 0;
  int pause;
  __device__ Stream(const Work& w, unsigned rank, char*) {
    part = w.bytes / (reads + writes) / kChunk * kChunk;
    chunks = static_cast<unsigned>(part / kChunk);
    chunk = rank % chunks;
    step = w.warps % chunks;
    at = w.data + threadIdx.x % 32 * 16;
    pause = w.idle_cycles;
  }
  __device__ void run() {
#pragma unroll 1
    for (int k = 0; k < 4; ++k) {
      char* p = at + static_cast<u64>(chunk) * kChunk;
      Quad q[8] = {};
#pragma unroll
      for (int r = 0; r < reads; ++r) {
        Quad more[8];
#pragma unroll
        for (int i = 0; i < 8; ++i) more[i] = load_l2(p + r * part + i * 512);
#pragma unroll
        for (int i = 0; i < 8; ++i)
          q[i] = {q[i].x ^ more[i].x, q[i].y ^ more[i].y, q[i].z ^ more[i].z, q[i].w ^ more[i].w};
      }
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        if (reads > 0) mix ^= q[i].mix();
        if (writes > 0) store(p + reads * part + i * 512, q[i]);
      }
      chunk += step;
      if (chunk >= chunks) chunk -= chunks;
      idle(pause);
    }
  }
  __device__ unsigned result() { return mix; }
};
using Read = Stream<1, 0>;
using Write = Stream<0, 1>;
using Copy = Stream<1, 1>;
using Copy21 = Stream<2, 1>;

// As an elementwise kernel: `work` dependent FMAs on each value read, then written elsewhere.
template <int work>
struct Pointwise {
  static constexpr double kAmount = 2.0 * 2 * kChunk;
  static constexpr bool kWholeBlock = false;
  char* at;
  u64 part;
  unsigned chunk, chunks, step;
  __device__ Pointwise(const Work& w, unsigned rank, char*) {
    part = w.bytes / 2 / kChunk * kChunk;
    chunks = static_cast<unsigned>(part / kChunk);
    chunk = rank % chunks;
    step = w.warps % chunks;
    at = w.data + threadIdx.x % 32 * 16;
  }
  __device__ void run() {
#pragma unroll 1
    for (int k = 0; k < 2; ++k) {
      char* p = at + static_cast<u64>(chunk) * kChunk;
      Quad q[8];
#pragma unroll
      for (int i = 0; i < 8; ++i) q[i] = load_l2(p + i * 512);
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        float v[4] = {__uint_as_float(q[i].x), __uint_as_float(q[i].y), __uint_as_float(q[i].z),
                      __uint_as_float(q[i].w)};
#pragma unroll
        for (int j = 0; j < work; ++j)
#pragma unroll
          for (int n = 0; n < 4; ++n) FmaStep::step(v[n], 0, 0.5f);
        store(p + part + i * 512,
              {__float_as_uint(v[0]), __float_as_uint(v[1]), __float_as_uint(v[2]), __float_as_uint(v[3])});
      }
      chunk += step;
      if (chunk >= chunks) chunk -= chunks;
    }
  }
  __device__ unsigned result() { return 0; }
};

// Each access goes to a random aligned piece of `piece` bytes, read by piece / 16 lanes; `in_flight` loads of
// a warp at once.
template <int piece, int in_flight, bool write>
struct Random {
  static constexpr double kAmount = 32.0 * 512;
  static constexpr bool kWholeBlock = false;
  char* at;
  unsigned pieces, state, mix = 0;
  int pause;
  __device__ Random(const Work& w, unsigned rank, char*) {
    const unsigned lane = threadIdx.x % 32;
    at = w.data + lane * 16 % piece;
    pieces = static_cast<unsigned>(w.bytes / piece);
    state = (rank * 32 + lane * 16 / piece) * 2654435761u ^ static_cast<unsigned>(w.begin);
    pause = w.idle_cycles;
  }
  __device__ void run() {
#pragma unroll 1
    for (int k = 0; k < 32 / in_flight; ++k) {
      Quad q[in_flight];
#pragma unroll
      for (int i = 0; i < in_flight; ++i) {
        state = state * 1664525u + 1013904223u;
        const unsigned scrambled = (state ^ state >> 15) * 2246822519u;
        char* p = at + static_cast<u64>(__umulhi(scrambled, pieces)) * piece;
        if (write)
          store(p, {state, state, state, state});
        else
          q[i] = load_l2(p);
      }
      if (!write)
#pragma unroll
        for (int i = 0; i < in_flight; ++i) mix ^= q[i].mix();
      idle(pause);
    }
  }
  __device__ unsigned result() { return mix; }
};

// A lane reads 4 bytes of a random sector, as a gather does. Amount in sectors' bytes.
struct Gather {
  static constexpr double kAmount = 32.0 * 32 * 32;
  static constexpr bool kWholeBlock = false;
  char* at;
  unsigned sectors, state, mix = 0;
  __device__ Gather(const Work& w, unsigned rank, char*) : at(w.data) {
    sectors = static_cast<unsigned>(w.bytes / 32);
    state = (rank * 32 + threadIdx.x % 32) * 2654435761u ^ static_cast<unsigned>(w.begin);
  }
  __device__ void run() {
#pragma unroll 1
    for (int k = 0; k < 4; ++k) {
      unsigned v[8];
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        state = state * 1664525u + 1013904223u;
        const unsigned scrambled = (state ^ state >> 15) * 2246822519u;
        const char* p = at + static_cast<u64>(__umulhi(scrambled, sectors)) * 32;
        asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(v[i]) : "l"(p));
      }
#pragma unroll
      for (int i = 0; i < 8; ++i) mix ^= v[i];
    }
  }
  __device__ unsigned result() { return mix; }
};

// Dependent loads of a pointer; amount in loads.
template <bool cached>
struct Chase {
  static constexpr double kAmount = 16;
  static constexpr bool kWholeBlock = false;
  const char* at;
  __device__ Chase(const Work& w, unsigned rank, char*) {
    // Another start each time: the lines of the last run may still be in L2.
    at = w.data + (rank * 2654435761u ^ w.begin >> 5) % (w.bytes / w.stride) * w.stride;
  }
  __device__ void run() {
#pragma unroll
    for (int k = 0; k < 16; ++k)
      if (cached)
        asm volatile("ld.global.ca.u64 %0, [%0];" : "+l"(at));
      else
        asm volatile("ld.global.cg.u64 %0, [%0];" : "+l"(at));
  }
  __device__ unsigned result() { return at == nullptr ? 0x12345678u : 0; }
};

// A lane's loads of 4 bytes depend on each other and go anywhere; amount in loads of a lane.
struct Scatter {
  static constexpr double kAmount = 16;
  static constexpr bool kWholeBlock = true;
  const char* at;
  unsigned words, state;
  __device__ Scatter(const Work& w, unsigned rank, char*) : at(w.data) {
    words = static_cast<unsigned>(w.bytes / 4);
    state = (rank * 32 + threadIdx.x % 32) * 2654435761u ^ static_cast<unsigned>(w.begin);
  }
  __device__ void run() {
#pragma unroll 1
    for (int k = 0; k < 16; ++k) {
      const unsigned scrambled = (state ^ state >> 15) * 2246822519u;
      unsigned v;
      asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(v) : "l"(at + u64{__umulhi(scrambled, words)} * 4));
      state = state * 1664525u + 1013904223u + v;
    }
  }
  __device__ unsigned result() { return state; }
};

extern "C" __global__ void fill_chain(char* data, unsigned count, unsigned stride) {
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
    *reinterpret_cast<char**>(data + static_cast<u64>(i) * stride) =
        data + static_cast<u64>((i * 0x915f77f5u + 0x3c6ef35fu) & (count - 1)) * stride;
}
