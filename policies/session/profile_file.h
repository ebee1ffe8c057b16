// Profiles as a file (`sim schema profile`): made by the simulator or measured, read in the place of
// simulated ones.
#pragma once

#include <filesystem>
#include <iosfwd>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "policies/api/snapshot.h"
#include "traces/model/gpu.h"

namespace corun {

/// What it costs to go through a host program, measured with a client alone: a request of two launches.
struct HostCosts {
  Time launch_latency{};      // the call to the first kernel's start
  Time stream_gap{};          // a kernel's end to the start of the next in its stream, already queued
  Time completion_notice{};   // a kernel's end until the host knows
  Time persistent_latency{};  // the first and the second of these where kernels are persistent and each is
  Time persistent_turn{};     // launched when the host knows of the end of the one before
  // The time of its one thread that issues for all clients.  Not measured: each client has a thread.
  Time launch_call{};  // a launch, decided and handed over
  Time end_call{};     // hearing of an end
  Time held_call{};    // a launch that is held on the host at first, decided,
  Time hand_over{};    // and handed over,
  Time take_back{};    // or stopped before that
  bool operator==(const HostCosts&) const = default;
};

struct Profiles {
  std::string file;         // where they were read
  std::string gpu, source;  // source: "simulated", or "measured" with date, driver and command
  std::vector<std::pair<std::string, Profile>> kernels;  // by the kernel's name
  std::optional<HostCosts> host{};

  /// Throws InputError if there is none of this kernel.
  const Profile& of(const std::string& kernel) const;
};

/// Throws InputError for a file that the schema does not allow, and for a kernel or a configuration twice.
Profiles read_profiles(const std::filesystem::path& file);
void write_profiles(const Profiles& profiles, std::ostream& out, const std::string& schema = "profile.schema.json");

/// The GPU as a host program sees it.
Gpu through(const HostCosts& host, Gpu gpu);

/// What a policy is shown that gives kernels numbers of CTAs over all SMs, or (`by_sm`) numbers per SM.
Profile points_for(const Profile& profile, std::uint32_t sms, bool by_sm);

}  // namespace corun
