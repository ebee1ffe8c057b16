// Streams of the library's own, for what a launch has of its stream and shall have another: its TPCs, and a graph its
// priority.  The program's stream waits for what is launched there, and what is launched there for what was launched before
// it: half a microsecond a kernel (experiments/h200/live/gate.cu).  While a stream is captured its shadow is captured with it.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <functional>

#include "hw/live/wire.h"

namespace corun::live {

/// Calls `go` with a stream that has these terms and whose work is ordered as if it were in `stream`; with `stream` itself where
/// the driver gives no such stream, or refuses the launch there: then `kept` is false.  `captured`: the stream is.
CUresult in_shadow_stream(CUstream stream, const Terms& terms, bool& kept, bool captured, const std::function<CUresult(CUstream)>& go);

/// They are gone with their context, or of no use once their stream is destroyed.
void forget_shadow_streams(CUcontext context);
void forget_shadow_streams(CUstream stream);

/// Whether the stream's own priority is another.
bool has_other_priority(CUstream stream, std::int32_t priority);

}  // namespace corun::live
