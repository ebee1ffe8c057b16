// The kernel of a client.
#pragma once

#include "compute_units.cuh"
#include "memory_units.cuh"
#include "tensor_units.cuh"

constexpr int kMaxSms = 256;

// Work with no block_units: blocks claim places on the wanted SMs, all wait for the release, those without a
// claim leave, and the others work until `leave`.
template <class Unit>
__device__ void run_client(const Work& w) {
  extern __shared__ __align__(128) char shared[];
  __shared__ int place;
  __shared__ u64 common;
  WarpLog log{};
  log.start = globaltimer();
  if (log.start >= w.leave) return;
  if (threadIdx.x == 0) {
    place = static_cast<int>(blockIdx.x % 4096);
    if (w.block_units == 0) {
      const unsigned sm = sm_id();
      place = -1;
      if (w.wanted[sm] && atomicAdd(&w.claimed[sm], 1) < w.per_sm) place = atomicAdd(&w.claimed[kMaxSms], 1);
      while (globaltimer() < w.release) __nanosleep(200);
    }
  }
  __syncthreads();
  if (place < 0) return;
  const unsigned rank = place * (blockDim.x / 32) + threadIdx.x / 32;
  Unit unit(w, rank, shared);
  int done = 0;
  for (;;) {
    unit.run();
    ++done;
    u64 now = globaltimer();
    if (Unit::kWholeBlock) {
      if (threadIdx.x == 0) common = now;
      __syncthreads();
      now = common;
      __syncthreads();
    }
    if (now >= w.begin && now < w.end) {
      log.last = now;
      log.last_cycle = cycle_count();
      if (log.units++ == 0) log.first = log.last, log.first_cycle = log.last_cycle;
    }
    if (now >= w.leave || done == w.block_units) break;
  }
  if (unit.result() == 0x12345678u) w.units[1] = 1;
  if (threadIdx.x % 32 != 0) return;
  atomicAdd(w.units, static_cast<u64>(log.units));
  if (w.logs == nullptr) return;
  log.sm = sm_id();
  asm volatile("mov.u32 %0, %%warpid;" : "=r"(log.slot));
  log.block = blockIdx.x;
  w.logs[rank] = log;
}
template <class Unit>
__global__ void client(Work w) {
  run_client<Unit>(w);
}
