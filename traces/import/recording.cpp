#include "traces/import/recording.h"

#include "traces/import/foreign_file.h"
#include "traces/import/nsys.h"
#include "traces/import/rocprof.h"
#include "traces/import/table.h"

namespace corun {

std::optional<Trace> import_recording(const std::filesystem::path& file, const ImportOptions& options, RecordedTimes* recorded) {
  if (looks_like_nsys(file)) return import_nsys(file, options, {}, recorded);
  if (looks_like_rocprof(file)) return import_rocprof(file, options, {}, recorded);
  if (looks_like_table(file)) return import_table(file, options);
  if (looks_like_kineto(file)) return import_kineto(file, options, recorded);
  refuse_foreign(file);
  return std::nullopt;
}

}  // namespace corun
