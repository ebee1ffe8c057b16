// Importer of what `sim capture` recorded: a folder with a file for each process that used the GPU (hw/capture).
#pragma once

#include <filesystem>
#include <string>

#include "traces/import/kineto.h"
#include "traces/model/trace.h"

namespace corun {

/// A request is a range of `options.range`, else what repeats, else the whole; a note says which.  `process` as
/// import_processes has it.  Throws InputError naming file and line.
Trace import_captured(const std::filesystem::path& folder, const ImportOptions& options, const std::string& process = {},
                      RecordedTimes* recorded = nullptr);

/// Median time of the ranges of that name in a run of which nothing else was recorded.  Throws InputError if there are none.
Time untraced_range(const std::filesystem::path& folder, const std::string& name);

}  // namespace corun
