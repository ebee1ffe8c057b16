// The same work as a graph, captured by each of the driver's three calls in each mode, and built node by node; other work is launched meanwhile.
#include <cuda.h>
#include <dlfcn.h>

#include <functional>
#include <map>

#include "program.h"

namespace {

Arrays* beside = nullptr;
cudaStream_t own, fork_of, other;
cudaEvent_t forked, joined;

template <class Function>
Function driver(const char* name) {
  static void* library = dlopen("libcuda.so.1", RTLD_NOW);
  return reinterpret_cast<Function>(dlsym(library, name));
}
void check_driver(int result, const char* what) {
  if (result == 0) return;
  std::printf("{\"error\": \"%s: %d\"}\n", what, result);
  std::fflush(stdout);
  std::_Exit(1);
}

void work(Arrays& a, Arrays& b, bool elsewhere) {
  for (unsigned i = 0; i < 6; ++i) a.step(own, i);
  CHECK(cudaEventRecord(forked, own));
  CHECK(cudaStreamWaitEvent(fork_of, forked, 0));
  for (unsigned i = 0; i < 4; ++i) a.step(own, 10 + i), b.step(fork_of, 20 + i);
  if (elsewhere) beside->step(other, 3);  // a stream that nothing captures
  CHECK(cudaEventRecord(joined, fork_of));
  CHECK(cudaStreamWaitEvent(own, joined, 0));
  mix<<<kBlocks, kThreads, 0, own>>>(b.now(), a.next(), 99);
  a.turn();
  mix<<<kBlocks, kThreads, 0, own>>>(a.now(), a.next(), 98);
  a.turn();
}

/// The launches of work() as a graph of one chain, built node by node.
cudaGraph_t nodes(Arrays& a, Arrays& b) {
  cudaGraph_t graph;
  CHECK(cudaGraphCreate(&graph, 0));
  cudaGraphNode_t last{};
  bool first = true;
  const auto add = [&](const unsigned* from, unsigned* to, unsigned salt, bool by_parameters) {
    void* arguments[] = {&from, &to, &salt};
    cudaGraphNode_t node;
    if (by_parameters) {
      cudaGraphNodeParams p = {};
      p.type = cudaGraphNodeTypeKernel;
      p.kernel.func = reinterpret_cast<void*>(mix), p.kernel.gridDim = kBlocks, p.kernel.blockDim = kThreads, p.kernel.kernelParams = arguments;
      CHECK(cudaGraphAddNode(&node, graph, &last, nullptr, first ? 0 : 1, &p));
    } else {
      cudaKernelNodeParams p = {};
      p.func = reinterpret_cast<void*>(mix), p.gridDim = kBlocks, p.blockDim = kThreads, p.kernelParams = arguments;
      CHECK(cudaGraphAddKernelNode(&node, graph, &last, first ? 0 : 1, &p));
    }
    last = node, first = false;
  };
  const auto step = [&](Arrays& arrays, unsigned salt) { add(arrays.now(), arrays.next(), salt, salt % 2), arrays.turn(); };
  for (unsigned i = 0; i < 6; ++i) step(a, i);
  for (unsigned i = 0; i < 4; ++i) step(a, 10 + i), step(b, 20 + i);
  add(b.now(), a.next(), 99, true), a.turn();
  add(a.now(), a.next(), 98, false), a.turn();
  return graph;
}

}  // namespace

int main(int argc, char** argv) {
  Ballast ballast;
  for (cudaStream_t* each : {&own, &fork_of, &other}) CHECK(cudaStreamCreateWithFlags(each, cudaStreamNonBlocking));
  for (cudaEvent_t* each : {&forked, &joined}) CHECK(cudaEventCreateWithFlags(each, cudaEventDisableTiming));
  const auto first_way = driver<int (*)(CUstream)>("cuStreamBeginCapture");
  const auto second_way = driver<int (*)(CUstream, int)>("cuStreamBeginCapture_v2");
  const auto third_way = driver<int (*)(CUstream, CUgraph, const CUgraphNode*, const void*, std::size_t, int)>("cuStreamBeginCaptureToGraph");
  const auto end = driver<int (*)(CUstream, CUgraph*)>("cuStreamEndCapture");
  if (first_way == nullptr || second_way == nullptr || third_way == nullptr || end == nullptr) return std::printf("{\"error\": \"no such call\"}\n"), 1;

  using Graph = std::function<cudaGraph_t(Arrays&, Arrays&)>;
  const auto captured = [&](auto begin, bool elsewhere) {
    return [=](Arrays& a, Arrays& b) {
      begin();
      work(a, b, elsewhere);
      CUgraph graph;
      check_driver(end(own, &graph), "cuStreamEndCapture");
      return graph;
    };
  };
  std::vector<Graph> ways;
  ways.push_back(captured([=] { check_driver(first_way(own), "cuStreamBeginCapture"); }, true));
  for (int mode = 0; mode < 3; ++mode) {
    ways.push_back(captured([=] { check_driver(second_way(own, mode), "cuStreamBeginCapture_v2"); }, true));
    ways.push_back(captured([=] {
      cudaGraph_t empty;
      CHECK(cudaGraphCreate(&empty, 0));
      check_driver(third_way(own, empty, nullptr, nullptr, 0, mode), "cuStreamBeginCaptureToGraph");
    }, true));
    ways.push_back(captured([=] { CHECK(cudaStreamBeginCapture(own, static_cast<cudaStreamCaptureMode>(mode))); }, true));
  }
  ways.push_back(nodes);

  Hash hash;
  Arrays meanwhile(9);
  beside = &meanwhile;
  std::map<std::string, int> outcomes;
  const int turns = rounds(argc, argv, 12);
  for (const Graph& way : ways) {
    Arrays a(1), b(2);
    for (int turn = 0; turn < turns; ++turn) {
      const cudaGraph_t graph = way(a, b);  // an even number of steps each: the arrays lie as they did
      cudaGraphExec_t made;
      CHECK(cudaGraphInstantiate(&made, graph, 0));
      for (int i = 0; i < 10; ++i) CHECK(cudaGraphLaunch(made, own)), beside->step(other, 4);
      CHECK(cudaStreamSynchronize(own));
      CHECK(cudaGraphExecDestroy(made));
      CHECK(cudaGraphDestroy(graph));
    }
    Hash of_way;
    of_way.add(a.back()), of_way.add(b.back());
    ++outcomes[of_way.text()];
    hash.add(a.back());
  }
  CHECK(cudaDeviceSynchronize());
  hash.add(meanwhile.back());
  if (outcomes.size() != 1) return std::printf("{\"error\": \"%zu outcomes of %zu ways\"}\n", outcomes.size(), ways.size()), 1;
  return ends(hash, ballast);
}
