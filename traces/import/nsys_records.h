// Recordings of Nsight Systems, exported as SQLite (`nsys export --type sqlite`), schemas 3.20 to 3.25: one set of
// records a process.  Columns come and go between versions: only times and launch shapes are required.
//
// Leaves out: what the recording has as whole graphs (`--cuda-graph-trace=graph`: no kernels in them), memory
// statistics, CPU samples.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "traces/import/processes.h"

namespace corun::nsys {

/// Processes with kernels, in the order of their first kernel; a request may be an NVTX range called `range`.
/// `device`: only what is of this one.  Throws InputError.
std::vector<RecordedProcess> read(const std::filesystem::path& file, const std::string& range = {},
                          std::optional<std::int64_t> device = {});

/// By content: an SQLite database.
bool looks_like_sqlite(const std::filesystem::path& file);

}  // namespace corun::nsys
