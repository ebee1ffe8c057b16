// Small GPUs, kernels and traces, made in code.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "traces/model/gpu.h"
#include "traces/model/trace.h"

namespace corun::sim {

constexpr Time ps(std::int64_t n) { return Time{n}; }
constexpr Time ns(std::int64_t n) { return std::chrono::nanoseconds(n); }
constexpr Time us(std::int64_t n) { return std::chrono::microseconds(n); }
constexpr Time ms(std::int64_t n) { return std::chrono::milliseconds(n); }

/// SMs of 2,048 threads, 64 warps, 32 blocks, ties in the order of the SMs; one SM a TPC; 8 task slots, 3
/// priorities, 8 channels; MPS clients have 2 channels and any
/// number of SMs; a block every nanosecond and no other latency.
Gpu small_gpu(std::uint32_t sms);
/// The same with host latencies, all different: call 3 us, launch 5 us, gap 1 us (as a graph 4 us, 6 us, 600
/// ns), notice 700 ns, slice 100 us, switch 10 us, read 8 us, stop flag 4 us, persistent task 500 ns.
Gpu slow_host_gpu(std::uint32_t sms);

/// Every block takes `block_time`; no demand on issue slots or DRAM, so that nothing else changes that.
Kernel kernel(std::uint32_t blocks, std::uint32_t threads, Time block_time);
/// The same, every block with its own time.
Kernel uneven_kernel(std::uint32_t threads, std::vector<Time> block_times);
/// Of its blocks (1,024 threads) an SM of small_gpu() holds one at a time: each takes all the shared memory.
Kernel whole_sm_kernel(std::uint32_t blocks, Time block_time);

Op launch(KernelId kernel, std::uint32_t stream = 0);
Op copy(CopyDirection direction, std::uint64_t bytes, std::uint32_t stream = 0);
Op sync();
/// Buffers by number.
Op alloc(std::uint32_t buffer, std::uint64_t bytes);
Op free_of(std::uint32_t buffer);
Op uses(Op op, std::vector<std::uint32_t> buffers);
/// It waits for an event recorded after each of `ops` (indices in the program).
Op after(Op op, std::vector<std::uint32_t> ops);
Op host_gap(Op op, Time gap);
/// Of a launch of a CUDA graph, with that number.
Op in_graph(Op op, std::uint32_t graph);

class TraceBuilder {
 public:
  KernelId kernel(Kernel k);
  /// As many streams as the operations name.
  ProgramId program(std::vector<Op> ops, Issue issue = Issue::eager);
  /// Its process is its name.  The reference is good until the next client.
  Client& client(const std::string& name, ProgramId program, Arrivals arrivals = Once{});
  /// A client with one request of one launch of this kernel.
  Client& one_kernel(const std::string& name, Kernel k, Time at = {});

  Trace trace;
};

}  // namespace corun::sim
