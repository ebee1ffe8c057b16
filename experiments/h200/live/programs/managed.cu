// Memory that host and GPU write in turn, with and without prefetching.
#include "program.h"

int main(int argc, char** argv) {
  Ballast ballast;
  unsigned *a = nullptr, *b = nullptr;
  CHECK(cudaMallocManaged(&a, kBytes));
  CHECK(cudaMallocManaged(&b, kBytes));
  for (unsigned i = 0; i < kCount; ++i) a[i] = i * 2654435761u;
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  const cudaMemLocation device = {cudaMemLocationTypeDevice, 0}, host = {cudaMemLocationTypeHost, 0};
  Hash hash;
  for (int i = 0; i < rounds(argc, argv, 200); ++i) {
    if (i % 2) CHECK(cudaMemPrefetchAsync(a, kBytes, device, 0, stream));
    for (unsigned k = 0; k < 10; ++k) {
      mix<<<kBlocks, kThreads, 0, stream>>>(a, b, k);
      mix<<<kBlocks, kThreads, 0, stream>>>(b, a, static_cast<unsigned>(i));
    }
    if (i % 3 == 0) CHECK(cudaMemPrefetchAsync(a, kBytes, host, 0, stream));
    CHECK(cudaStreamSynchronize(stream));
    for (unsigned k = 0; k < kCount; k += 1009) hash.add(a[k]), a[k] += static_cast<unsigned>(i);
  }
  CHECK(cudaDeviceSynchronize());
  return ends(hash, ballast);
}
