// Units of tensor-core work: amount in multiply-adds.
#pragma once

#include "work.cuh"

struct Mma {
  static constexpr double kAmount = 64.0 * 16 * 8 * 16;
  static constexpr bool kWholeBlock = false;
  float c[4][4] = {};
  unsigned a, b;
  __device__ Mma(const Work& w, unsigned rank, char*)
      : a(0x3c003c00u + (rank & 63)), b(0x2c002c00u + w.per_sm) {}
  __device__ void run() {
#pragma unroll 1
    for (int k = 0; k < 4; ++k)
#pragma unroll
      for (int j = 0; j < 16; ++j) {
        float* d = c[j % 4];
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800  // the half as deep one, twice
        for (int half = 0; half < 2; ++half)
          asm volatile(
              "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%5}, "
              "{%0,%1,%2,%3};"
              : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
              : "r"(a), "r"(b));
#else
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%4,%5,%5}, {%5,%4}, "
            "{%0,%1,%2,%3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a), "r"(b));
#endif
      }
  }
  __device__ unsigned result() { return static_cast<unsigned>(c[0][0] + c[1][1] + c[2][2] + c[3][3]); }
};

// 64 x 128 x 16 a warpgroup and instruction, both operands from shared memory (12 KiB).
struct Wgmma {
  static constexpr double kAmount = 16.0 * 64 * 128 * 16 / 4;  // of one of the 4 warps
  static constexpr bool kWholeBlock = true;
  float c[64] = {};
  u64 a, b;
  static __device__ u64 descriptor(unsigned address) {
    const u64 leading = 128 >> 4, stride = 256 >> 4;
    return ((address & 0x3ffff) >> 4) | leading << 16 | stride << 32;
  }
  __device__ Wgmma(const Work&, unsigned, char* shared) {
    for (int i = threadIdx.x; i < 3072; i += blockDim.x)
      reinterpret_cast<unsigned*>(shared)[i] = 0x2c002c00u + (i * 0x9e3779b9u >> 8 & 0x83ff83ffu);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    a = descriptor(shared_address(shared));
    b = descriptor(shared_address(shared) + 4096);
  }
  __device__ void run() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll 1
    for (int k = 0; k < 16; ++k)
      asm volatile(
          "{\n wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
          "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,"
          "%27,%28,"
          "%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%"
          "53,%54,"
          "%55,%56,%57,%58,%59,%60,%61,%62,%63}, %64, %65, 1, 1, 1, 0, 0;\n}"
          : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]),
            "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]),
            "+f"(c[15]), "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]),
            "+f"(c[22]), "+f"(c[23]), "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]),
            "+f"(c[29]), "+f"(c[30]), "+f"(c[31]), "+f"(c[32]), "+f"(c[33]), "+f"(c[34]), "+f"(c[35]),
            "+f"(c[36]), "+f"(c[37]), "+f"(c[38]), "+f"(c[39]), "+f"(c[40]), "+f"(c[41]), "+f"(c[42]),
            "+f"(c[43]), "+f"(c[44]), "+f"(c[45]), "+f"(c[46]), "+f"(c[47]), "+f"(c[48]), "+f"(c[49]),
            "+f"(c[50]), "+f"(c[51]), "+f"(c[52]), "+f"(c[53]), "+f"(c[54]), "+f"(c[55]), "+f"(c[56]),
            "+f"(c[57]), "+f"(c[58]), "+f"(c[59]), "+f"(c[60]), "+f"(c[61]), "+f"(c[62]), "+f"(c[63])
          : "l"(a), "l"(b));
    asm volatile("wgmma.commit_group.sync.aligned;\n wgmma.wait_group.sync.aligned 0;" ::: "memory");
  }
  __device__ unsigned result() {
    float sum = 0;
    for (float v : c) sum += v;
    return static_cast<unsigned>(sum);
  }
};
