// Fixed work for Nsight Compute.
#pragma once

#include "memory_jobs.cuh"

// One access of each lane to a random sector; `words` of 4 bytes of it.
__global__ void scatter(char* data, unsigned sectors, int words, int write, unsigned* sink) {
  unsigned state = (blockIdx.x * blockDim.x + threadIdx.x) * 2654435761u, mix = 0;
  for (int k = 0; k < 16; ++k) {
    state = state * 1664525u + 1013904223u;
    char* p = data + u64{__umulhi((state ^ state >> 15) * 2246822519u, sectors)} * 32;
    for (int w = 0; w < words; w += 4)
      if (write && words >= 4)
        store(p + 4 * w, {state, state, state, state});
      else if (write)
        *reinterpret_cast<unsigned*>(p) = state;
      else
        mix ^= load_l2(p + 4 * w).x;
  }
  if (mix == 0x12345678u) *sink = mix;
}
void counted() {
  char* const data = device_array<char>(4 * kGiB);
  unsigned* const sink = device_array<unsigned>(1);
  constexpr int kPasses = 8;
  for (int mib : {4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 48, 56, 64, 80, 120})
    for (int random : {0, 1})
      for (int write : {0, 1}) {
        print_record({{"kernel", "sweep"},
                      {"MiB", mib},
                      {"order", random ? "random" : "in turn"},
                      {"access", write ? "write" : "read"},
                      {"bytes", 1.0 * kPasses * mib * kMiB}},
                     "counters", {});
        sweep<<<1056, 256>>>(data, mib * kMiB / kChunk, kPasses, random, write, sink);
        CHECK(cudaDeviceSynchronize());
      }
  for (int write : {0, 1})
    for (int words : {1, 4, 8}) {
      print_record({{"kernel", "scatter"},
                    {"words", words},
                    {"access", write ? "write" : "read"},
                    {"bytes", 16.0 * 4224 * 256 * 32}},
                   "counters", {});
      scatter<<<4224, 256>>>(data, 4 * kGiB / 32, words, write, sink);
      CHECK(cudaDeviceSynchronize());
    }
}
