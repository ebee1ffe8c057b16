// State of a service's launches that its policy's side and its GPU's side share.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "traces/model/ids.h"

namespace corun::sim {

struct ServedLaunches {
  /// By client: the driver has its launches before they are granted, each behind a wait of its stream on the GPU.
  std::vector<bool> queued_ahead;
  /// By serial, of launches that are persistent: attempts behind the one that is on the GPU or goes next.
  std::unordered_map<std::uint64_t, std::uint32_t> attempts_left;

  std::uint32_t left(LaunchId launch) const {
    const auto at = attempts_left.find(launch.serial);
    return at == attempts_left.end() ? 0 : at->second;
  }
};

}  // namespace corun::sim
