// The profiler's record of a mix of networks beside the simulated one, kernel by kernel: how long each waits
// for its stream's previous one, and how much longer it takes than alone.
#pragma once

#include <filesystem>
#include <iosfwd>
#include <string>
#include <vector>

#include "sim/validate/networks.h"

namespace corun::sim {

/// A launch of a program, as requests ran it: means.  Microseconds.
struct LaunchTimes {
  std::size_t requests = 0;
  double wait = 0;      // its start less the end of the previous kernel of its stream; may be negative
  double duration = 0;  // start to end
};

struct ComparedLaunch {
  std::size_t op = 0;  // index in the program
  std::string kernel;  // its function's name
  std::uint64_t blocks = 0;
  double alone_us = 0;  // its duration
  LaunchTimes measured, simulated;
  /// Simulated less measured: what it adds to the difference of the request's latency.
  double difference() const {
    return simulated.wait + simulated.duration - measured.wait - measured.duration;
  }
};

struct ComparedClient {
  std::string name;
  std::size_t requests = 0, unmatched = 0;  // measured: whole ones; kernels that fit none
  std::vector<ComparedLaunch> launches;     // in the order of the program
};

struct TimelineComparison {
  std::string name;  // "MIX.MODE"
  std::vector<ComparedClient> clients;
};

/// `name`: a file of the folder timelines beside the networks, without ".json.gz".  Throws InputError.
TimelineComparison compare_timeline(const std::filesystem::path& networks_file, const std::string& name,
                                    const NetworksOptions& options);

std::string format_timeline(const TimelineComparison& comparison);
void write_timeline_csv(const TimelineComparison& comparison, std::ostream& out);

}  // namespace corun::sim
