// Kernels all of whose blocks wait for one another, launched by each of the runtime's two calls.
#include <cooperative_groups.h>

#include "program.h"

static __global__ void all_together(unsigned* a, unsigned* b, unsigned salt, unsigned turns) {
  const cooperative_groups::grid_group grid = cooperative_groups::this_grid();
  for (unsigned turn = 0; turn < turns; ++turn) {
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < kCount; i += gridDim.x * blockDim.x) b[i] = mixed(a[i], a[(i * 40503u + salt) % kCount], salt + turn);
    grid.sync();
    unsigned* const last = a;
    a = b, b = last;
  }
}

int main(int argc, char** argv) {
  Ballast ballast;
  Arrays arrays(1), beside(2);
  cudaStream_t stream, other;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  cudaDeviceProp device;
  CHECK(cudaGetDeviceProperties(&device, 0));
  const unsigned blocks = static_cast<unsigned>(device.multiProcessorCount);
  Hash hash;
  for (int i = 0; i < rounds(argc, argv, 6000); ++i) {
    unsigned *a = arrays.now(), *b = arrays.next(), salt = static_cast<unsigned>(i), turns = 6;
    if (i % 2 == 0) {
      void* arguments[] = {&a, &b, &salt, &turns};
      CHECK(cudaLaunchCooperativeKernel(reinterpret_cast<void*>(all_together), blocks, kThreads, arguments, 0, stream));
    } else {
      cudaLaunchConfig_t with = {};
      cudaLaunchAttribute attribute = {};
      attribute.id = cudaLaunchAttributeCooperative, attribute.val.cooperative = 1;
      with.gridDim = blocks, with.blockDim = kThreads, with.stream = stream, with.attrs = &attribute, with.numAttrs = 1;
      CHECK(cudaLaunchKernelEx(&with, all_together, a, b, salt, turns));
    }
    beside.step(other, salt);
    if (i % 100 == 99) {
      CHECK(cudaDeviceSynchronize());
      hash.add(arrays.back()), hash.add(beside.back());
    }
  }
  CHECK(cudaDeviceSynchronize());
  return ends(hash, ballast);
}
