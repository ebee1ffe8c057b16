// Recordings that hold several processes: each becomes a program and a client of one trace.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "traces/import/kineto.h"
#include "traces/import/kineto_records.h"

namespace corun {

struct RecordedProcess {
  std::string name;  // "python3-1234"
  kineto::Records records;
  std::vector<std::string> notes;
  std::optional<HostStalls> host_stalls{};
  std::uint64_t memory_bytes = 0;  // most that it held of the device's at once; 0: not known
};

/// A closed-loop client a process.  Processes were recorded beside each other, which their kernels' times hold:
/// Trace::notes says so.  `wanted`: only the one of this name; empty: all.  `recorded`: of the first,
/// what requests take without the profiler of each.  Throws InputError.
Trace import_processes(const std::filesystem::path& file, std::vector<RecordedProcess> processes, const ImportOptions& options,
                       const char* tool, const std::string& wanted, RecordedTimes* recorded);

}  // namespace corun
