// Profiles as a file (`sim schema profile`): made by the simulator or measured, read in the place of
// simulated ones.
#pragma once

#include <filesystem>
#include <iosfwd>
#include <string>
#include <utility>
#include <vector>

#include "policies/api/snapshot.h"

namespace corun {

struct Profiles {
  std::string file;         // where they were read
  std::string gpu, source;  // source: "simulated", or "measured" with date, driver and command
  std::vector<std::pair<std::string, Profile>> kernels;  // by the kernel's name

  /// Throws InputError if there is none of this kernel.
  const Profile& of(const std::string& kernel) const;
};

/// Throws InputError for a file that the schema does not allow, and for a kernel or a configuration twice.
Profiles read_profiles(const std::filesystem::path& file);
void write_profiles(const Profiles& profiles, std::ostream& out);

/// What a policy is shown that gives kernels numbers of CTAs over all SMs, or (`by_sm`) numbers per SM.
Profile points_for(const Profile& profile, std::uint32_t sms, bool by_sm);

}  // namespace corun
