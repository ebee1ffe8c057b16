// Which of a captured program's NVTX ranges is a request, and what it takes where no kernels were recorded.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "traces/import/kineto_records.h"
#include "traces/import/processes.h"

namespace corun {

struct RangesOfName {
  std::size_t count = 0;
  std::vector<kineto::Step> steps;              // of those that may be requests
  std::vector<kineto::Nanoseconds> unrecorded;  // what they took while no kernels were recorded
  std::vector<kineto::Nanoseconds> away;        // and while CUPTI was not in the process
};
using RangesByName = std::map<std::string, RangesOfName>;

/// Steps and the unrecorded request are those of the range `asked`; if that is empty, of the program's own one that holds most of the
/// GPU's work, which a note then names.  Calls are to be sorted by time.
void choose_range(const RangesByName& ranges, const std::string& asked, RecordedProcess& process);

}  // namespace corun
