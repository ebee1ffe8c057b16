// Kernels that measure the launch path: they note when they start and end. Every loop is bounded, by a count of
// cycles or by a time limit. `sim calibrate` compiles them at run time, experiments/h200 with nvcc.
#pragma once

#ifndef __CUDACC_RTC__
#include <cuda_runtime.h>

#include <array>
#include <utility>
#endif

using u64 = unsigned long long;

__device__ u64 globaltimer() {
  u64 t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t)::"memory");
  return t;
}
// Volatile, so that the compiler keeps it in order with the timer.
__device__ long long cycle_count() {
  long long t;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(t)::"memory");
  return t;
}
__device__ unsigned sm_id() {
  unsigned id;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(id));
  return id;
}
__device__ void spin(long long cycles) {
  if (cycles <= 0) return;
  const long long start = cycle_count();
  while (cycle_count() - start < cycles) {
  }
}

struct Stamp {
  u64 start, end;
  long long start_cycle, end_cycle;
  unsigned sm, unused;
};

enum Pdl { kNoPdl = 0, kPdlWait = 1, kPdlTrigger = 2 };

// One thread of a block works; the others leave at once and only give the block its shape.
extern "C" __global__ void body(Stamp* stamps, long long cycles, int pdl) {
#ifndef __CUDACC_RTC__  // dependent launches are not calibrated
  if (pdl >= kPdlWait) cudaGridDependencySynchronize();
  if (pdl == kPdlTrigger) cudaTriggerProgrammaticLaunchCompletion();
#endif
  if (threadIdx.x != 0) return;
  if (stamps == nullptr) {
    spin(cycles);
    return;
  }
  Stamp s{};
  s.sm = sm_id();
  s.start = globaltimer();
  s.start_cycle = cycle_count();
  spin(cycles);
  s.end_cycle = cycle_count();
  s.end = globaltimer();
  stamps[blockIdx.x] = s;
}

extern "C" __global__ void writing_body(float* out, long long cycles) {
  if (threadIdx.x == 0) spin(cycles);
  out[blockIdx.x * blockDim.x + threadIdx.x] = static_cast<float>(cycles);
}

#ifndef __CUDACC_RTC__
template <int>
__global__ void distinct_body(long long cycles) {
  if (threadIdx.x == 0) spin(cycles);
}
using BodyFunction = void (*)(long long);
template <int... i>
constexpr std::array<BodyFunction, sizeof...(i)> distinct_bodies(std::integer_sequence<int, i...>) {
  return {distinct_body<i>...};
}
#endif

template <int bytes>
struct Padding {
  char data[bytes];
};
template <int bytes>
__global__ void many_parameters(Padding<bytes>) {}

// Holds a stream until the host opens it, never longer than the limit.
extern "C" __global__ void gate(const volatile unsigned* open, u64 limit_ns) {
  const u64 start = globaltimer();
  while (*open == 0 && globaltimer() - start < limit_ns) {
  }
}

extern "C" __global__ void echo(const volatile unsigned* ping, volatile u64* pong, unsigned rounds, u64 limit_ns) {
  const u64 start = globaltimer();
  for (unsigned round = 1; round <= rounds; ++round) {
    while (*ping < round)
      if (globaltimer() - start > limit_ns) return;
    *pong = globaltimer();
  }
}

extern "C" __global__ void hello(volatile u64* seen_by_host) { *seen_by_host = globaltimer(); }

extern "C" __global__ void clock_rate(u64* nanoseconds, long long* cycles) {
  const u64 start = globaltimer();
  const long long start_cycle = cycle_count();
  while (globaltimer() - start < 5'000'000) {
  }
  *cycles = cycle_count() - start_cycle;
  *nanoseconds = globaltimer() - start;
}

extern "C" __global__ void timer_steps(u64* steps, int count, long long* cycles_of_100_reads) {
  u64 last = globaltimer();
  for (int i = 0; i < count; ++i) {
    u64 t = globaltimer();
    while (t == last) t = globaltimer();
    steps[i] = t - last;
    last = t;
  }
  const long long start = cycle_count();
  u64 sum = 0;
  for (int i = 0; i < 100; ++i) sum += globaltimer();
  *cycles_of_100_reads = cycle_count() - start;
  if (sum == 1) steps[0] = sum;
}

extern "C" __global__ void persistent_worker(unsigned* next, unsigned tasks, long long cycles) {
  __shared__ unsigned task;
  for (;;) {
    if (threadIdx.x == 0) task = atomicAdd(next, 1);
    __syncthreads();
    if (task >= tasks) return;
    if (threadIdx.x == 0) spin(cycles);
    __syncthreads();
  }
}
extern "C" __global__ void plain_worker(long long cycles) {
  if (threadIdx.x == 0) spin(cycles);
  __syncthreads();
}

// Block 0 publishes the time about once a microsecond; the others load the SMs, or the memory where data (a
// power of two long) is given.
extern "C" __global__ void progress(volatile u64* in_device, volatile u64* in_host, const float4* data, size_t count,
                         float* sink, u64 limit_ns) {
  const u64 start = globaltimer();
  if (blockIdx.x == 0) {
    if (threadIdx.x != 0) return;
    while (globaltimer() - start < limit_ns) {
      const u64 now = globaltimer();
      *in_device = now;
      *in_host = now;
      spin(1800);
    }
    return;
  }
  if (data == nullptr && threadIdx.x != 0) return;
  float sum = 0;
  size_t at = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  while (globaltimer() - start < limit_ns) {
    if (data == nullptr) continue;
    for (int i = 0; i < 16; ++i) {
      const float4 v = data[at & (count - 1)];
      sum += v.x + v.y + v.z + v.w;
      at += static_cast<size_t>(gridDim.x) * blockDim.x;
    }
  }
  if (sum == 1.5f) *sink = sum;
}

// Notes every pause of more than 20 us in its own execution.
extern "C" __global__ void watch(u64* pauses, int limit, int* count, u64 limit_ns) {
  const u64 start = globaltimer();
  u64 last = start;
  int found = 0;
  while (last - start < limit_ns) {
    const u64 now = globaltimer();
    if (now - last > 20'000 && found < limit) {
      pauses[2 * found] = last;
      pauses[2 * found + 1] = now;
      ++found;
    }
    last = now;
  }
  *count = found;
}
