// The program's graphs, as the library has to know them.
#pragma once

#include <cuda.h>

#include <mutex>
#include <unordered_map>

#include "hw/live/system.h"
#include "hw/live/wire.h"

namespace corun::live {

/// How many nodes graphs have, and on which TPCs their kernels run: where they were captured, whatever stream
/// the graph is launched in.
class Graphs {
 public:
  void captured(CUgraph graph, const Tpcs& tpcs);
  void made(CUgraphExec made, CUgraph from);
  // What is destroyed says nothing of another at its address.
  void destroyed(CUgraph graph);
  void destroyed(CUgraphExec graph);
  bool runs_on(CUgraphExec graph, const Tpcs& tpcs);
  unsigned nodes(CUgraphExec graph);

 private:
  os::Mutex mutex_;
  std::unordered_map<CUgraph, Tpcs> of_graph_;
  struct Made {
    Tpcs tpcs;
    unsigned nodes;
  };
  std::unordered_map<CUgraphExec, Made> of_made_;
};
/// Lives as long as the program.
Graphs& graphs();

}  // namespace corun::live
