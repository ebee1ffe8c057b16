// Launches that begin before the one before them has ended and wait for it in the kernel (programmatic dependent launch), also in a graph.
#include "program.h"

static __global__ void waits_itself(const unsigned* from, unsigned* to, unsigned salt) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x, other = (i * 40503u + salt) % kCount;
  cudaGridDependencySynchronize();
  cudaTriggerProgrammaticLaunchCompletion();
  to[i] = mixed(from[i], from[other], salt);
}

static void launch(Arrays& arrays, cudaStream_t stream, unsigned salt) {
  cudaLaunchConfig_t with = {};
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization, attribute.val.programmaticStreamSerializationAllowed = 1;
  with.gridDim = kBlocks, with.blockDim = kThreads, with.stream = stream, with.attrs = &attribute, with.numAttrs = 1;
  CHECK(cudaLaunchKernelEx(&with, waits_itself, const_cast<const unsigned*>(arrays.now()), arrays.next(), salt));
  arrays.turn();
}

int main(int argc, char** argv) {
  Ballast ballast;
  Arrays arrays(1);
  cudaFuncAttributes loaded;
  CHECK(cudaFuncGetAttributes(&loaded, waits_itself));
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  cudaGraph_t graph;
  cudaGraphExec_t made;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  arrays.step(stream, 1);
  for (unsigned i = 0; i < 9; ++i) launch(arrays, stream, i);
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&made, graph, 0));
  Hash hash;
  for (int i = 0; i < rounds(argc, argv, 3000); ++i) {
    arrays.step(stream, static_cast<unsigned>(i));
    for (unsigned k = 0; k < 7; ++k) launch(arrays, stream, k);
    if (i % 4 == 0) CHECK(cudaGraphLaunch(made, stream));
    if (i % 40 == 39) CHECK(cudaStreamSynchronize(stream)), hash.add(arrays.back());
  }
  CHECK(cudaDeviceSynchronize());
  return ends(hash, ballast);
}
