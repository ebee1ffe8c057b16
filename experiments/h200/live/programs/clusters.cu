// Clusters of blocks that read one another's shared memory: of a size that the kernel has, and of sizes that the launch asks for.
#include <cooperative_groups.h>

#include "program.h"

static __device__ void through_neighbours(const unsigned* from, unsigned* to, unsigned salt) {
  __shared__ unsigned own[kThreads];
  const cooperative_groups::cluster_group cluster = cooperative_groups::this_cluster();
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  own[threadIdx.x] = from[i];
  cluster.sync();
  const unsigned* const other = cluster.map_shared_rank(own, (cluster.block_rank() + 1) % cluster.num_blocks());
  to[i] = mixed(own[threadIdx.x], other[threadIdx.x ^ (salt % kThreads)], salt);
  cluster.sync();
}
static __global__ void __cluster_dims__(4) fixed(const unsigned* from, unsigned* to, unsigned salt) { through_neighbours(from, to, salt); }
static __global__ void asked(const unsigned* from, unsigned* to, unsigned salt) { through_neighbours(from, to, salt); }

int main(int argc, char** argv) {
  Ballast ballast;
  Arrays arrays(1);
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaFuncSetAttribute(asked, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  Hash hash;
  for (int i = 0; i < rounds(argc, argv, 12000); ++i) {
    const unsigned salt = static_cast<unsigned>(i);
    if (i % 5 == 0) {
      fixed<<<kBlocks, kThreads, 0, stream>>>(arrays.now(), arrays.next(), salt);
    } else {
      cudaLaunchConfig_t with = {};
      cudaLaunchAttribute attribute = {};
      attribute.id = cudaLaunchAttributeClusterDimension;
      attribute.val.clusterDim.x = 1u << (i % 5 - 1 + (i % 5 == 4)), attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;  // 1, 2, 4, 16
      with.gridDim = kBlocks, with.blockDim = kThreads, with.stream = stream, with.attrs = &attribute, with.numAttrs = 1;
      CHECK(cudaLaunchKernelEx(&with, asked, const_cast<const unsigned*>(arrays.now()), arrays.next(), salt));
    }
    arrays.turn();
    if (i % 100 == 99) CHECK(cudaStreamSynchronize(stream)), hash.add(arrays.back());
  }
  CHECK(cudaDeviceSynchronize());
  return ends(hash, ballast);
}
