// Resets its device over and over, also with launches under way, and goes on: streams, graphs and memory are made anew.
#include "program.h"

int main(int argc, char** argv) {
  Hash hash;
  const int turns = rounds(argc, argv, 10);
  for (int turn = 0; turn < turns; ++turn) {
    Arrays arrays(static_cast<unsigned>(turn));
    cudaStream_t streams[3];
    for (cudaStream_t& each : streams) CHECK(cudaStreamCreateWithFlags(&each, cudaStreamNonBlocking));
    cudaGraph_t graph;
    cudaGraphExec_t made;
    CHECK(cudaStreamBeginCapture(streams[0], cudaStreamCaptureModeGlobal));
    for (unsigned i = 0; i < 8; ++i) arrays.step(streams[0], i);
    CHECK(cudaStreamEndCapture(streams[0], &graph));
    CHECK(cudaGraphInstantiate(&made, graph, 0));
    for (unsigned i = 0; i < 100; ++i) {
      for (unsigned k = 0; k < 4; ++k) arrays.step(streams[0], 100 + k);
      CHECK(cudaGraphLaunch(made, streams[0]));
    }
    CHECK(cudaStreamSynchronize(streams[0]));
    hash.add(arrays.back());
    if (turn % 2 == 1)  // nobody waits for these
      for (unsigned i = 0; i < 200; ++i) arrays.step(streams[i % 3], i);
    if (turn % 3 == 2) CHECK(cudaGraphExecDestroy(made));
    CHECK(cudaDeviceReset());
  }
  Ballast ballast;
  return ends(hash, ballast);
}
