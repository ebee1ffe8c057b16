// A profiler slows the host by a factor that the recording does not tell.  What a request takes without it does: the
// program's own clock knows, or its NVTX ranges in a run without CUPTI.
#pragma once

#include <string>

#include "traces/model/time.h"
#include "traces/model/trace.h"

namespace corun::sim {

/// The host gaps of the only program shrink alike, until a request alone takes no longer than `wanted`, or no longer than
/// its work on the GPU alone does.  They never grow.  Returns a note.  Throws InputError where there are several
/// programs, or the GPU is not known.
std::string fit_host(Trace& trace, Time wanted);

}  // namespace corun::sim
