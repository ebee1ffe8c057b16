// Records of kernels slow the host, and so does CUPTI where it is only attached.  So kernels are recorded in stretches of the run,
// between which CUPTI leaves the process: the ranges that the program marks are timed there all the same, by NVTX alone.
#pragma once

#include <cuda.h>
#include <cupti.h>

#include <cstdint>

namespace corun::capture {

/// CUPTI is attached by `attach` and records from here.  `without`: there are stretches without records.
CUptiResult begin_stretches(bool without, CUptiResult (*attach)());
void end_stretches();

/// The host has waited for the GPU, at that time.  Here, with no range of the program's own open, a stretch may end.
void host_waited(std::uint64_t now);
void range_opened();
void range_closed(std::uint64_t now);

/// In CUPTI's callback, at the end of a call: where it may leave.
void call_ended();

/// A launch of something: `what` and `size` are the same for launches of the same kernel or graph.
void launched(const void* what, std::uint64_t size);

/// CUPTI's number of a call, of this time that it is attached: it may begin anew when it comes back.
std::uint64_t number_of(std::uint32_t correlation);

}  // namespace corun::capture
