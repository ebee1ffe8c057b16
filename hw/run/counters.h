// Hardware counters of library kernels, by running this program again under Nsight Compute.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "hw/kernels/workbench.h"
#include "traces/model/kernel.h"

namespace corun::hw {

/// Of each kernel, of one launch with cold caches.  `command`: this program's command line that does nothing
/// on the GPU but launch each of them once, in this order (`launch_once`).  Empty, with the reason in
/// `why_not`, where there is no ncu or it may not read counters.
std::vector<Counters> measure_counters(const std::vector<const LibraryKernel*>& kernels,
                                       const std::string& command, std::string& why_not);
void launch_once(const std::vector<const LibraryKernel*>& kernels, Workbench& work);

/// The table that `ncu --csv` prints, between whatever else there is: rows of metric and value by launch.
std::vector<std::map<std::string, std::string>> read_ncu(const std::string& text);

}  // namespace corun::hw
