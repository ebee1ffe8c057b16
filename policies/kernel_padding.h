// Dynamic kernel padding: which best-effort blocks run beside a real-time kernel, as one grid with it.
// "Microsecond-scale Preemption for Concurrent GPU-accelerated DNN Inferences" (REEF), Han et al., OSDI 2022,
// section 5.2, by the rule of the released scheduler.
//
// What the paper leaves open: a kernel's latency at an occupancy, which REEF profiles, is taken from its solo
// time: a wave of as many blocks an SM as it has alone takes an equal part of that, fewer blocks no less,
// more blocks in proportion more. The real-time kernel's occupancy is what it has alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "policies/api/snapshot.h"
#include "policies/api/topology.h"

namespace corun {

/// A kernel as the rule sees it.
struct Paddable {
  SmResources demand;
  std::uint64_t blocks = 0;  // of the best-effort kernel: that are left
  std::uint64_t all_blocks = 0;
  Time solo_time{};
};

struct Padding {
  std::uint32_t sms = 0;  // for the real-time kernel
  std::uint64_t blocks = 0;
};

/// How the real-time kernel is padded with the best-effort one, if at all.
inline std::optional<Padding> pad(const Paddable& real_time, const Paddable& best_effort, const Gpu& gpu) {
  const SmResources capacity = capacity_of(gpu.sm);
  const std::uint64_t sms = gpu.sms;
  const auto alone_on_sm = [&](const Paddable& k) {
    return std::max<std::uint64_t>(
        1, std::min<std::uint64_t>(max_active_blocks(capacity, k.demand), (k.all_blocks + sms - 1) / sms));
  };
  const std::uint64_t merged = max_active_blocks(capacity, larger_of(real_time.demand, best_effort.demand));
  if (merged < alone_on_sm(real_time)) return std::nullopt;

  const std::uint64_t layers = (real_time.all_blocks + sms - 1) / sms;
  const std::uint64_t partition = (real_time.all_blocks + layers - 1) / layers;
  if (partition >= sms) return std::nullopt;

  const std::uint64_t own = alone_on_sm(best_effort);
  const std::uint64_t waves = (best_effort.all_blocks + own * sms - 1) / (own * sms);
  const Time wave = best_effort.solo_time / static_cast<std::int64_t>(waves);
  for (std::uint64_t occupancy = merged; occupancy > 0; --occupancy) {
    const Time latency =
        occupancy > own ? wave * static_cast<std::int64_t>(occupancy) / static_cast<std::int64_t>(own) : wave;
    if (latency <= Time{} || latency > real_time.solo_time) continue;
    const auto iterations = static_cast<std::uint64_t>(real_time.solo_time / latency);
    const std::uint64_t blocks = std::min((sms - partition) * iterations * occupancy, best_effort.blocks);
    if (blocks == 0) return std::nullopt;
    return Padding{static_cast<std::uint32_t>(partition), blocks};
  }
  return std::nullopt;
}

}  // namespace corun
