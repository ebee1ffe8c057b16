// What an import takes over from Nsight Compute, and what it says about that.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "traces/import/join_counters.h"
#include "traces/import/nsight_compute.h"
#include "traces/model/kernel.h"

namespace corun {

struct ProfiledFacts {
  bool registers = false, cluster = false;
  bool shared_memory = false;  // how much of it is static
};

/// Into a kernel whose dynamic shared memory is the sum of static and dynamic, and which has registers only
/// if `registers`: the counters of the launch of median length, and what launches in the profile agree on.
/// Returns what is known of the kernel now.
ProfiledFacts take_over(std::span<const ProfiledLaunch* const> profiled, bool registers, Kernel& kernel);

/// How many launches matched and how, which metrics were missing, and what times tell of the profile.
std::vector<std::string> profile_notes(const CountersJoin& join, const ProfiledLaunches& profile,
                                       const std::string& file);

}  // namespace corun
