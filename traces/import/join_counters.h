// Which launch of a profile with counters is which of a recording with times.  The two were made in two runs,
// by tools that print names differently; the profile may hold a part of the recording, or more than it.
//
// In this order: the whole sequence, where the profile has it; the n-th launch of a function and shape, where
// both have as many; else the one of that function and shape whose duration is nearest.  Never launches of
// other grids or blocks.  Where the durations of a function and shape differ, each match is held against
// them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "traces/import/nsight_compute.h"
#include "traces/model/kernel.h"
#include "traces/model/time.h"

namespace corun {

struct RecordedLaunch {
  std::string name;
  Dim3 grid, block;
  std::optional<std::uint32_t> registers_per_thread;
  Time duration{};
  std::uint32_t shape = 0;  // launches of one kernel, as far as the recording tells
  bool beside = false;      // it ran beside others, so that `duration` says little
};

struct CountersJoin {
  enum class How : std::uint8_t { none, order, shape, nearest };
  struct Match {
    How how = How::none;
    const ProfiledLaunch* launch = nullptr;
  };
  std::vector<Match> matches;  // one for each recorded launch
  /// Durations in the profile over recorded ones, median; absent: not known of any.
  std::optional<double> duration_ratio;
  std::size_t unused = 0;   // profiled launches that match none
  std::size_t sources = 0;  // processes and devices in the profile, of which one is taken
  /// Whose match took clearly more or less time than others of the function and shape: given to the nearest
  /// instead, or to none.
  std::size_t moved = 0, left_out = 0;

  std::size_t count(How how) const;
};

CountersJoin join_counters(std::span<const RecordedLaunch> recorded,
                           std::span<const ProfiledLaunch> profiled);

/// Numbers the kernels that launches of one shape make, from 0 in order of appearance: durations, or
/// counters, that are more than a tenth apart are of several.
std::vector<std::uint32_t> split_by_behaviour(std::span<const RecordedLaunch> recorded,
                                              std::span<const CountersJoin::Match> matches);

}  // namespace corun
