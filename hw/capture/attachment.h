// CUPTI's presence in the process.  It comes and leaves (cuptiFinalize) as often as is wanted, where that
// breaks nothing.
#pragma once

#include <cuda.h>
#include <cupti.h>

#include <cstdint>

namespace corun::capture {

struct Attachment {
  CUptiResult (*attach)();
  void (*write_rest)();  // of what was heard so far
};

/// CUPTI comes; allocations are recorded from here.
CUptiResult attach(const Attachment& attachment);

/// It ends what it does, and stays.
void detach();

/// Records of kernels are off.  It is gone.
void leave(const Attachment& attachment);

/// Nothing that CUPTI has left in the process is known to break without it, and none but this thread has
/// called the driver since forget_threads().
bool may_leave();
void forget_threads();

/// A thread has called the driver or the runtime; `known` is the thread's own.
void thread_called(std::uint32_t thread, std::uint32_t& known);

/// Records of kernels begin, or have ended.
void records_kernels(bool records);

/// A graph is about to be launched or uploaded: with records of kernels CUPTI does not leave any more.
void graph_comes();
/// It would be the first such graph.
bool first_graph_recorded();

/// CUPTI's number of a call, of this time that it is attached: CUPTI counts from one again when it comes
/// back.
std::uint64_t number_of(std::uint32_t correlation);

}  // namespace corun::capture
