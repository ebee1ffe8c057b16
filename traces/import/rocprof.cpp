#include "traces/import/rocprof.h"

#include "traces/import/processes.h"
#include "traces/import/rocprof_records.h"
#include "traces/model/error.h"

namespace corun {

Trace import_rocprof(const std::filesystem::path& file, const ImportOptions& options, const std::string& process,
                     RecordedTimes* recorded) {
  if (!options.counters.empty())
    throw InputError("", "--counters", "Nsight Compute's counters are of NVIDIA GPUs, the recording is of AMD's",
                     "leave the option out");
  return import_processes(file, rocprof::read(file, options.range, options.device), options, "rocprofv3", process,
                          recorded);
}

bool looks_like_rocprof(const std::filesystem::path& file) { return rocprof::looks_like_records(file); }

}  // namespace corun
