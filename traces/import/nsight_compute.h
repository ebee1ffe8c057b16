// Reads what Nsight Compute printed as CSV (`ncu --csv`): one profiled launch after the other, with its
// counters in base units.  The long form has a row a metric, the wide one (`--page raw`) a row a launch and a
// row of units.
//
// Tolerates what such files have: lines of ncu and of the program between the rows, rows that are short or of
// a rule, values that are "n/a", scaled units, thousands separators, a decimal comma, several tables.  Leaves
// out all metrics that Counters has no place for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "traces/model/kernel.h"

namespace corun {

struct ProfiledLaunch {
  std::string kernel;           // as printed
  std::string process, device;  // numbers as printed; empty: not said
  Dim3 grid, block;
  bool dimensions_known = true;                 // else they are the numbers of blocks and threads, as x
  std::optional<std::uint32_t> cluster_blocks;  // where only their number is known
  std::optional<Dim3> cluster;
  std::optional<std::uint32_t> registers_per_thread;
  std::optional<std::uint32_t> static_shared_memory_bytes, dynamic_shared_memory_bytes;
  Counters counters;
  bool cut =
      false;  // it lacks what others of the file have, so that only `duration_ns` of its counters is kept
  std::uint64_t line = 0;  // of the file, at which it begins
};

struct ProfiledLaunches {
  std::vector<ProfiledLaunch> launches;  // in the order of the file, all with a name, a grid and a block
  std::size_t unusable = 0;              // launches that lack one of these, or all counters
  std::set<std::string> unknown_units;   // whose values are left out
  std::size_t impossible = 0;            // values that are negative, or larger than can be: left out
  std::map<std::string, std::size_t>
      lacking;  // metrics that only some launches have: of how many they are missing
};

/// Plain or gzip.  Throws InputError where there is no usable launch in it.
ProfiledLaunches read_nsight_compute(const std::filesystem::path& file);

/// "smsp__inst_executed.sum,...": what to ask ncu for.
std::string nsight_compute_metrics();

}  // namespace corun
