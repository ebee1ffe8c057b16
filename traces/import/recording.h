// A profiler's recording, told from other files by its content.
#pragma once

#include <filesystem>
#include <optional>

#include "traces/import/kineto.h"
#include "traces/model/trace.h"

namespace corun {

/// The recording of Kineto, Nsight Systems or rocprofv3, or a table of latencies (table.h); nothing of any other file.  Throws InputError.
std::optional<Trace> import_recording(const std::filesystem::path& file, const ImportOptions& options = {},
                                       RecordedTimes* recorded = nullptr);

}  // namespace corun
