// A program of which only a few numbers are known: how long a request takes alone on some shares of the SMs, and what
// nvidia-smi, DCGM or Nsight Compute say of its use of the card.  No profiler is needed.
//
// A request becomes `kernels` launches of one kernel, in full waves of equal blocks, with a program for each share
// (Program::on_sms).  Of two shares, the part of the latency that goes with the SMs is work on them; the rest leaves them idle
// unless it moves bytes.
//
// Leaves out: that kernels of a program differ, so that it uses the memory in bursts; what its blocks are bound by.  The trace is
// marked as coarse, which widens its intervals.
#pragma once

#include <filesystem>

#include "traces/import/kineto.h"
#include "traces/model/trace.h"

namespace corun {

/// Told by the first column of its header, `percentage` or `sms`.
bool looks_like_table(const std::filesystem::path& file);

/// Columns: docs/formats.md.  Of the options only `gpu` and `name` count.  Throws InputError with the line.
Trace import_table(const std::filesystem::path& file, const ImportOptions& options);

}  // namespace corun
