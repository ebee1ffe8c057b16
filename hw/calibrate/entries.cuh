// What `sim calibrate` launches beside launch_kernels.cuh: clients, and blocks that are told to stop.
#pragma once

#include "client_kernel.cuh"

#define CORUN_CLIENT(name, ...) \
  extern "C" __global__ void client_##name(Work w) { run_client<__VA_ARGS__>(w); }
CORUN_CLIENT(fma, Fma4)
CORUN_CLIENT(fp64, Fp64)
CORUN_CLIENT(mma, Mma)
CORUN_CLIENT(read, Read)
CORUN_CLIENT(write, Write)
CORUN_CLIENT(copy, Copy)
CORUN_CLIENT(gather, Gather)
CORUN_CLIENT(scatter, Scatter)
CORUN_CLIENT(chase, Chase<false>)

extern "C" __global__ void nothing() {}

extern "C" __global__ void read_timer(u64* out) { *out = globaltimer(); }

extern "C" __global__ void note_sm(unsigned* sm_of_block) {
  if (threadIdx.x == 0) sm_of_block[blockIdx.x] = sm_id();
}

// Blocks of a cluster run on one GPC. They stay for different times, so that later clusters find other SMs free.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define CORUN_CLUSTER(n)                                                                                       \
  extern "C" __global__ void __cluster_dims__(n, 1, 1) cluster_of_##n(unsigned* sm_of_block, long long cycles) { \
    if (threadIdx.x != 0) return;                                                                              \
    sm_of_block[blockIdx.x] = sm_id();                                                                         \
    spin(cycles * (1 + blockIdx.x * 2654435761u % 4));                                                         \
  }
CORUN_CLUSTER(2)
CORUN_CLUSTER(4)
CORUN_CLUSTER(8)
#endif

// Blocks that stay until the flag is set. With a second flag the first block passes it on to the others.
extern "C" __global__ void wait_for_flag(const volatile unsigned* first, volatile unsigned* passed_on,
                                         u64 limit_ns) {
  if (threadIdx.x != 0) return;
  const u64 start = globaltimer();
  const bool relays = passed_on != nullptr && blockIdx.x == 0;
  const volatile unsigned* const flag = passed_on == nullptr || relays ? first : passed_on;
  while (*flag == 0 && globaltimer() - start < limit_ns) {
  }
  if (relays) *passed_on = 1;
}
