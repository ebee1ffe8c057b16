// Importer of recordings by ROCm's rocprofv3 (JSON): a program and a client for each process that used the GPU.
#pragma once

#include <filesystem>
#include <string>

#include "traces/import/kineto.h"
#include "traces/model/trace.h"

namespace corun {

/// As import_nsys() does it.
Trace import_rocprof(const std::filesystem::path& file, const ImportOptions& options,
                     const std::string& process = {}, RecordedTimes* recorded = nullptr);

/// By content.
bool looks_like_rocprof(const std::filesystem::path& file);

}  // namespace corun
