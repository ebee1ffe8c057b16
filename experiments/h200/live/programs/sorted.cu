// Thrust and CUB: sorts, scans and sums, on streams.
#include <thrust/device_vector.h>
#include <thrust/execution_policy.h>
#include <thrust/scan.h>
#include <thrust/sort.h>

#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_reduce.cuh>

#include "program.h"

int main(int argc, char** argv) {
  Ballast ballast;
  Arrays arrays[2] = {Arrays(1), Arrays(2)};
  cudaStream_t streams[2];
  for (cudaStream_t& each : streams) CHECK(cudaStreamCreateWithFlags(&each, cudaStreamNonBlocking));
  unsigned *keys[2], *sums;
  void* room[2] = {};
  std::size_t bytes = 0, more = 0;
  CHECK(cudaMalloc(&sums, 2 * sizeof *sums));
  for (unsigned*& each : keys) CHECK(cudaMalloc(&each, kBytes));
  CHECK(cub::DeviceRadixSort::SortKeys(nullptr, bytes, keys[0], keys[1], kCount));
  CHECK(cub::DeviceReduce::Sum(nullptr, more, keys[0], sums, kCount));
  bytes = bytes > more ? bytes : more;
  for (void*& each : room) CHECK(cudaMalloc(&each, bytes));
  Hash hash;
  for (int i = 0; i < rounds(argc, argv, 300); ++i) {
    for (int k = 0; k < 2; ++k) {
      arrays[k].step(streams[k], static_cast<unsigned>(i));
      std::size_t size = bytes;
      CHECK(cub::DeviceRadixSort::SortKeys(room[k], size, arrays[k].now(), keys[k], kCount, 0, 32, streams[k]));
      size = bytes;
      CHECK(cub::DeviceReduce::Sum(room[k], size, arrays[k].now(), sums + k, kCount, streams[k]));
      thrust::inclusive_scan(thrust::cuda::par_nosync.on(streams[k]), keys[k], keys[k] + kCount, keys[k]);
      mix<<<kBlocks, kThreads, 0, streams[k]>>>(keys[k], arrays[k].next(), static_cast<unsigned>(k));
      arrays[k].turn();
      if (i % 10 == 9) thrust::sort(thrust::cuda::par.on(streams[k]), arrays[k].now(), arrays[k].now() + kCount);
    }
    if (i % 50 == 49) {
      for (cudaStream_t each : streams) CHECK(cudaStreamSynchronize(each));
      unsigned both[2];
      CHECK(cudaMemcpy(both, sums, sizeof both, cudaMemcpyDeviceToHost));
      for (int k = 0; k < 2; ++k) hash.add(both[k]), hash.add(arrays[k].back());
    }
  }
  CHECK(cudaDeviceSynchronize());
  return ends(hash, ballast);
}
