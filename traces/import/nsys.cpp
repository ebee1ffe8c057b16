#include "traces/import/nsys.h"

#include "traces/import/nsys_records.h"

namespace corun {

Trace import_nsys(const std::filesystem::path& file, const ImportOptions& options, const std::string& process,
                  RecordedTimes* recorded) {
  return import_processes(file, nsys::read(file, options.range, options.device), options, "Nsight Systems", process, recorded);
}

bool looks_like_nsys(const std::filesystem::path& file) { return nsys::looks_like_sqlite(file); }

}  // namespace corun
