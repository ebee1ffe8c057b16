// A graph with a while node whose body has an if node: as many turns as the device says.
#include "program.h"

static __global__ void begin_turns(cudaGraphConditionalHandle again, unsigned* left, const unsigned* values) {
  *left = 3 + values[0] % 5;
  cudaGraphSetConditional(again, 1);
}
static __global__ void one_turn(cudaGraphConditionalHandle again, cudaGraphConditionalHandle odd, unsigned* left) {
  const unsigned now = --*left;
  cudaGraphSetConditional(again, now != 0);
  cudaGraphSetConditional(odd, now % 2);
}

static cudaGraph_t add_conditional(cudaGraph_t to, cudaGraphNode_t* node, const cudaGraphNode_t* after, cudaGraphConditionalNodeType type, cudaGraphConditionalHandle handle) {
  cudaGraphNodeParams parameters = {};
  parameters.type = cudaGraphNodeTypeConditional;
  parameters.conditional.handle = handle, parameters.conditional.type = type, parameters.conditional.size = 1;
  CHECK(cudaGraphAddNode(node, to, after, nullptr, 1, &parameters));
  return parameters.conditional.phGraph_out[0];
}

int main(int argc, char** argv) {
  Ballast ballast;
  Arrays arrays(1);
  unsigned* left = nullptr;
  CHECK(cudaMalloc(&left, sizeof *left));
  cudaFuncAttributes loaded;
  CHECK(cudaFuncGetAttributes(&loaded, begin_turns));
  CHECK(cudaFuncGetAttributes(&loaded, one_turn));
  cudaStream_t stream, other;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));

  cudaGraph_t graph;
  CHECK(cudaGraphCreate(&graph, 0));
  cudaGraphConditionalHandle again, odd;
  CHECK(cudaGraphConditionalHandleCreate(&again, graph, 0, cudaGraphCondAssignDefault));
  CHECK(cudaStreamBeginCaptureToGraph(stream, graph, nullptr, nullptr, 0, cudaStreamCaptureModeGlobal));
  begin_turns<<<1, 1, 0, stream>>>(again, left, arrays.now());
  CHECK(cudaStreamEndCapture(stream, &graph));
  cudaGraphNode_t first, loop, branch, turn;
  std::size_t one = 1;
  CHECK(cudaGraphGetNodes(graph, &first, &one));
  const cudaGraph_t body = add_conditional(graph, &loop, &first, cudaGraphCondTypeWhile, again);
  CHECK(cudaGraphConditionalHandleCreate(&odd, body, 0, cudaGraphCondAssignDefault));
  CHECK(cudaStreamBeginCaptureToGraph(stream, body, nullptr, nullptr, 0, cudaStreamCaptureModeRelaxed));
  arrays.step(stream, 5), arrays.step(stream, 7);
  one_turn<<<1, 1, 0, stream>>>(again, odd, left);
  cudaStreamCaptureStatus status;
  const cudaGraphNode_t* last = nullptr;
  std::size_t count = 0;
  CHECK(cudaStreamGetCaptureInfo(stream, &status, nullptr, nullptr, &last, nullptr, &count));
  turn = last[0];
  cudaGraph_t same;
  CHECK(cudaStreamEndCapture(stream, &same));
  const cudaGraph_t then = add_conditional(body, &branch, &turn, cudaGraphCondTypeIf, odd);
  CHECK(cudaStreamBeginCaptureToGraph(stream, then, nullptr, nullptr, 0, cudaStreamCaptureModeRelaxed));
  arrays.step(stream, 11), arrays.step(stream, 13);
  CHECK(cudaStreamEndCapture(stream, &same));
  cudaGraphExec_t made;
  CHECK(cudaGraphInstantiate(&made, graph, 0));

  Hash hash;
  Arrays beside(2);
  for (int i = 0; i < rounds(argc, argv, 4000); ++i) {
    CHECK(cudaGraphLaunch(made, stream));
    beside.step(other, static_cast<unsigned>(i));
    if (i % 50 == 49) {
      CHECK(cudaStreamSynchronize(stream));
      CHECK(cudaStreamSynchronize(other));
      hash.add(arrays.back()), hash.add(beside.back());
    }
  }
  CHECK(cudaDeviceSynchronize());
  return ends(hash, ballast);
}
