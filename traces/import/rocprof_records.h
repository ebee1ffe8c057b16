// Recordings of ROCm's rocprofv3 (`--output-format json`), from ROCm 6.2 on: one set of records a process.  The
// file is streamed: memory grows with the dispatches, copies and HIP calls in it.
//
// A grid is counted in work-items there, and becomes blocks.  Leaves out: hardware counters, calls of HSA, RCCL
// and others, scratch memory, which event a stream waits for.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "traces/import/processes.h"

namespace corun::rocprof {

/// Processes with kernels, in the order of their first kernel; a request may be a roctx range called `range`.
/// `device`: only what is of this one, counted from 0 as the file lists GPUs.  Throws InputError.
std::vector<RecordedProcess> read(const std::filesystem::path& file, const std::string& range = {},
                                  std::optional<std::int64_t> device = {});

/// By content: JSON that begins with rocprofv3's key.
bool looks_like_records(const std::filesystem::path& file);

}  // namespace corun::rocprof
