// Streams of the library's own, for what has the priority of its stream and shall have another: a graph.  The program's stream
// waits for what is launched there, and what is launched there for what was launched before it.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <functional>

namespace corun::live {

/// Calls `go` with a stream of this priority whose work is ordered as if it were in `stream`; with `stream` itself where it
/// has that priority, where 0 is asked for, or where the driver gives no further stream.
CUresult in_lane(CUstream stream, std::int32_t priority, const std::function<CUresult(CUstream)>& go);

}  // namespace corun::live
