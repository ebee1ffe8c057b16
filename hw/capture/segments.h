// Records of kernels slow the host, so they are made in segments of the run; between them only its calls are kept, which tell
// what a request takes without, or CUPTI leaves the process and only its ranges are kept.
#pragma once

#include <cuda.h>
#include <cupti.h>

#include <cstdint>
#include <string>

#include "hw/capture/attachment.h"

namespace corun::capture {

/// CUPTI comes, and all kinds of records are on from here.  `without`: there are segments without them.
CUptiResult begin_segments(bool without, const Attachment& attachment);
void end_segments();

/// The host has waited for the GPU, at that time.  Here, with no range of the program's own open, a segment may end.
void host_waited(std::uint64_t now);
void range_opened();
void range_closed(std::uint64_t now, const std::string& name);

/// A launch of something: `what` and `size` are the same for launches of the same kernel or graph.
void launched(const void* what, std::uint64_t size);
void launch_ended(std::uint64_t now);

/// A graph is about to be launched or uploaded, in the callback at the beginning of that call.
void graph_given();

/// The GPU will call a function of the program's when it has done what was given to it so far.
void host_function_given();

/// A capture of a graph has begun, 1, or ended, -1.  Within one no segment begins or ends.
void graph_captured(int change);

}  // namespace corun::capture
