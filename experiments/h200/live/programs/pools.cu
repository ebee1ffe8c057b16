// Memory that streams allocate and free in their order, of the default pool and of one of its own.
#include "program.h"

int main(int argc, char** argv) {
  Ballast ballast;
  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned, properties.location.type = cudaMemLocationTypeDevice;
  cudaMemPool_t pool;
  CHECK(cudaMemPoolCreate(&pool, &properties));
  cudaStream_t streams[2];
  for (cudaStream_t& each : streams) CHECK(cudaStreamCreateWithFlags(&each, cudaStreamNonBlocking));
  Arrays arrays[2] = {Arrays(1), Arrays(2)};
  Hash hash;
  for (int i = 0; i < rounds(argc, argv, 3000); ++i) {
    for (int k = 0; k < 2; ++k) {
      unsigned* between = nullptr;
      const std::size_t bytes = kBytes << (i % 4);
      if ((i + k) % 2) CHECK(cudaMallocAsync(&between, bytes, streams[k]));
      else CHECK(cudaMallocFromPoolAsync(&between, bytes, pool, streams[k]));
      CHECK(cudaMemsetAsync(between, i, bytes, streams[k]));
      mix<<<kBlocks, kThreads, 0, streams[k]>>>(arrays[k].now(), between, static_cast<unsigned>(i));
      mix<<<kBlocks, kThreads, 0, streams[k]>>>(between, arrays[k].now(), static_cast<unsigned>(k));
      CHECK(cudaFreeAsync(between, streams[k]));
    }
    if (i % 100 == 99) {
      for (cudaStream_t each : streams) CHECK(cudaStreamSynchronize(each));
      CHECK(cudaMemPoolTrimTo(pool, 0));
      for (const Arrays& each : arrays) hash.add(each.back());
    }
  }
  CHECK(cudaDeviceSynchronize());
  return ends(hash, ballast);
}
