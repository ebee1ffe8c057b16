// Importer of recordings by Nsight Systems (SQLite): a program and a client for each process that used the GPU.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "traces/import/kineto.h"
#include "traces/model/trace.h"

namespace corun {

/// As import_processes has it; `process`: only the one of this name; empty: all.  Throws InputError.
Trace import_nsys(const std::filesystem::path& file, const ImportOptions& options, const std::string& process = {},
                  RecordedTimes* recorded = nullptr);

/// By content.
bool looks_like_nsys(const std::filesystem::path& file);

}  // namespace corun
