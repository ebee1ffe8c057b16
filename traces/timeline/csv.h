// Tables of what happened, a row a record: requests.csv and kernels.csv.
#pragma once

#include <iosfwd>
#include <string>
#include <string_view>

#include "traces/model/trace.h"
#include "traces/timeline/timeline.h"

namespace corun {

/// In quotes where it needs them.
std::string csv_field(std::string_view field);

/// Writes rows as records come.  Times are nanoseconds with exactly three decimals, empty where there is
/// none; names are quoted by RFC 4180; lines end in a newline.
class CsvSink : public Sink {
 public:
  /// Writes the header rows.  `trace` gives the names; all three must outlive the sink.
  CsvSink(const Trace& trace, std::ostream& requests, std::ostream& kernels);

  using Sink::record;
  void record(const RequestRecord& r) override;
  void record(const KernelRecord& r) override;

 private:
  const Trace& trace_;
  std::ostream& requests_;
  std::ostream& kernels_;
};

}  // namespace corun
