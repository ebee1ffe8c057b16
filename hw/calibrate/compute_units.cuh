// Units of work that stay in the SM. A unit is what one warp does between two looks at the timer; its type
// says what it amounts to (`kAmount`) and keeps its state in registers.
#pragma once

#include "work.cuh"

// Arithmetic: 1,024 warp instructions a unit.

// `chains` independent chains of dependent instructions, 128 instructions between two branches. Sources are
// two registers and a constant where it matters: three registers halve the rate of any pipe unless the last
// instruction read some of them too.
template <class Step, int chains>
struct Arithmetic {
  static constexpr double kAmount = 1024;
  static constexpr bool kWholeBlock = false;
  using T = typename Step::T;
  T x[chains], a, b;
  __device__ Arithmetic(const Work& w, unsigned rank, char*) {
    a = static_cast<T>(w.per_sm + 3);
    b = static_cast<T>(w.warps);
    for (int i = 0; i < chains; ++i) x[i] = static_cast<T>(rank + i + threadIdx.x);
  }
  __device__ void run() {
#pragma unroll 1
    for (int k = 0; k < 8; ++k)
#pragma unroll
      for (int j = 0; j < 128 / (chains * Step::kInstructions); ++j)
#pragma unroll
        for (int i = 0; i < chains; ++i) Step::step(x[i], a, b);
  }
  __device__ unsigned result() {
    T sum = 0;
    for (int i = 0; i < chains; ++i) sum += x[i];
    return static_cast<unsigned>(sum);
  }
};
template <class Type>
struct OneInstruction {
  using T = Type;
  static constexpr int kInstructions = 1;
};
struct FmaStep : OneInstruction<float> {
  __device__ static void step(float& x, float, float b) {
    asm volatile("fma.rn.f32 %0, %0, 0f3F7FFF58, %1;" : "+f"(x) : "f"(b));
  }
};
struct Fma3Step : OneInstruction<float> {
  __device__ static void step(float& x, float a, float b) {
    asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(x) : "f"(a), "f"(b));
  }
};
struct Fp64Step : OneInstruction<double> {
  __device__ static void step(double& x, double a, double b) {
    asm volatile("fma.rn.f64 %0, %0, %1, %2;" : "+d"(x) : "d"(a), "d"(b));
  }
};
struct ImadStep : OneInstruction<unsigned> {
  __device__ static void step(unsigned& x, unsigned, unsigned b) {
    asm volatile("mad.lo.u32 %0, %0, 1664525, %1;" : "+r"(x) : "r"(b));
  }
};
struct LogicStep : OneInstruction<unsigned> {
  __device__ static void step(unsigned& x, unsigned, unsigned b) {
    asm volatile("lop3.b32 %0, %0, 0x5bd1e995, %1, 0x6a;" : "+r"(x) : "r"(b));
  }
};
struct MufuStep : OneInstruction<float> {
  __device__ static void step(float& x, float, float) {
    asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(x));
  }
};
// An FMA and a logic instruction in turn, on values of their own: two pipes, one issue port.
struct FmaLogicStep {
  using T = float;
  static constexpr int kInstructions = 2;
  __device__ static void step(float& x, float a, float b) {
    FmaStep::step(x, a, b);
    unsigned& bits = reinterpret_cast<unsigned&>(x);
    LogicStep::step(bits, 0, __float_as_uint(b));
  }
};
template <int chains>
using Fma = Arithmetic<FmaStep, chains>;
using Fma1 = Fma<1>;
using Fma4 = Fma<4>;
using Fma3Registers = Arithmetic<Fma3Step, 4>;
using Fp64 = Arithmetic<Fp64Step, 4>;
using Imad = Arithmetic<ImadStep, 4>;
using Logic = Arithmetic<LogicStep, 4>;
using Mufu = Arithmetic<MufuStep, 4>;
using FmaLogic = Arithmetic<FmaLogicStep, 8>;

// As a matrix product without tensor cores: two 16-byte loads from shared memory for 16 FMAs, one of them of
// the same address in all lanes, the other of 8 different ones.
struct GemmLike {
  static constexpr double kAmount = 1024 + 128;
  static constexpr bool kWholeBlock = false;
  float c[16] = {};
  unsigned at, lane;
  int zero;  // as in Local
  __device__ GemmLike(const Work& w, unsigned, char* shared) : zero(w.idle_cycles) {
    for (unsigned i = threadIdx.x; i < 1024; i += blockDim.x) reinterpret_cast<float*>(shared)[i] = 1e-3f * i;
    __syncthreads();
    at = shared_address(shared);
    lane = threadIdx.x % 8 * 16;
  }
  static __device__ float4 load(unsigned p) {
    float4 v;
    asm volatile("ld.shared.v4.f32 {%0,%1,%2,%3}, [%4];"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                 : "r"(p));
    return v;
  }
  __device__ void run() {
    float4 a = load(at), b = load(at + 512 + lane);
#pragma unroll 8
    for (int k = 0; k < 64; ++k) {
      const float4 next_a = load(at + k % 4 * 1024), next_b = load(at + k % 4 * 1024 + 512 + lane);
      const float x[4] = {a.x, a.y, a.z, a.w}, y[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) c[4 * i + j] = fmaf(x[i], y[j], c[4 * i + j]);
      a = next_a;
      b = next_b;
      at += zero;
    }
  }
  __device__ unsigned result() {
    float sum = 0;
    for (float v : c) sum += v;
    return static_cast<unsigned>(sum);
  }
};

// Barriers: the block meets after every `between` FMAs of a warp.
template <int between>
struct Sync {
  static constexpr double kAmount = 1024;
  static constexpr bool kWholeBlock = true;
  Arithmetic<FmaStep, 4> fma;
  __device__ Sync(const Work& w, unsigned rank, char* shared) : fma(w, rank, shared) {}
  __device__ void run() {
#pragma unroll 1
    for (int k = 0; k < 1024 / between; ++k) {
#pragma unroll
      for (int j = 0; j < between / 4; ++j)
#pragma unroll
        for (int i = 0; i < 4; ++i) FmaStep::step(fma.x[i], fma.a, fma.b);
      __syncthreads();
    }
  }
  __device__ unsigned result() { return fma.result(); }
};

// Loads that stay in the SM: 64 instructions a unit, amount in bytes.

template <bool shared_memory, int bytes_a_lane>
struct Local {
  static constexpr double kAmount = 64.0 * 32 * bytes_a_lane;
  static constexpr bool kWholeBlock = false;
  char* at;
  int zero;  // added to the address, so that the compiler does not see one load where there are many
  unsigned mix = 0;
  __device__ Local(const Work& w, unsigned rank, char* shared) : zero(w.idle_cycles) {
    const unsigned lane = threadIdx.x % 32;
    at = shared_memory ? shared + lane * bytes_a_lane
                       : w.data + rank / (blockDim.x / 32) * kChunk + lane * bytes_a_lane;
    for (unsigned i = threadIdx.x; i < kChunk / 4; i += blockDim.x)
      reinterpret_cast<unsigned*>(shared)[i] = i;
    __syncthreads();
  }
  __device__ void run() {
#pragma unroll 1
    for (int k = 0; k < 8; ++k) {
      Quad q[8] = {};
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const char* p = at + i * 32 * bytes_a_lane;
        if constexpr (shared_memory && bytes_a_lane == 16)
          asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
                       : "=r"(q[i].x), "=r"(q[i].y), "=r"(q[i].z), "=r"(q[i].w)
                       : "r"(shared_address(p)));
        else if constexpr (shared_memory)
          asm volatile("ld.shared.u32 %0, [%1];" : "=r"(q[i].x) : "r"(shared_address(p)));
        else if constexpr (bytes_a_lane == 16)
          asm volatile("ld.global.ca.v4.u32 {%0,%1,%2,%3}, [%4];"
                       : "=r"(q[i].x), "=r"(q[i].y), "=r"(q[i].z), "=r"(q[i].w)
                       : "l"(p));
        else
          asm volatile("ld.global.ca.u32 %0, [%1];" : "=r"(q[i].x) : "l"(p));
      }
#pragma unroll
      for (int i = 0; i < 8; ++i) mix ^= bytes_a_lane == 16 ? q[i].mix() : q[i].x;
      at += zero;
    }
  }
  __device__ unsigned result() { return mix; }
};
using Shared4 = Local<true, 4>;
using Shared16 = Local<true, 16>;
using Cached4 = Local<false, 4>;
using Cached16 = Local<false, 16>;
