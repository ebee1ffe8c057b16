// A profiler slows the host by a factor that the recording does not tell.  What a request takes without it does: the
// program's own clock knows, or its NVTX ranges in a run without CUPTI; a recording may carry it.
#pragma once

#include <string>

#include "traces/import/kineto.h"
#include "traces/model/time.h"
#include "traces/model/trace.h"

namespace corun::sim {

/// The host gaps of the only program shrink alike, until a request alone takes no longer than `wanted`, or no
/// longer than its work on the GPU alone does; each of several in a row, where the program waits for nothing.
/// Gaps grow where a replay takes less, if the time is that of a run without the tool.
/// Of one that is a single graph the kernels get shorter instead, each by the same time, at most by half.
/// Returns a note.  Throws InputError where there are several programs, or the GPU is not known.
std::string fit_host(Trace& trace, Time wanted, const RecordedTimes& recorded);

/// The same with the time that the recording itself gives, and notes; false where it gives none.  Where the GPU is not known
/// the gaps stay, and a note says so.
bool fit_host_as_recorded(Trace& trace, const RecordedTimes& recorded);

}  // namespace corun::sim
