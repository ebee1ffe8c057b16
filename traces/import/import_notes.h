// What an import missed and assumed, so that a reader knows what the trace is worth.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace corun {

/// A sentence or two each, in the order in which the import met them.
using Notes = std::vector<std::string>;

/// "1 kernel", "2 kernels".
std::string counted(std::size_t n, std::string_view one, std::string_view many);

class DeviceRecords;
class HostOrder;
class RecordedKernels;
struct RecordedGpu;

/// `host_as_told`: the user said what the host takes without the profiler.
void note_host(const DeviceRecords& device, const RecordedGpu& gpu, const HostOrder& order, bool host_as_told,
               Notes& notes);
void note_copies(const DeviceRecords& device, const HostOrder& order, Notes& notes);
/// `counters`: those of Nsight Compute were given.
void note_concurrency(const HostOrder& order, const RecordedKernels& kernels, bool counters, Notes& notes);
/// `counters`: their file; empty: none.
void note_profile(const RecordedKernels& kernels, const std::filesystem::path& counters, Notes& notes);

}  // namespace corun
