// Multi-Instance GPU: how a GPU is divided into instances that share neither SMs nor L2 nor memory, and what
// an instance is as a GPU of its own.
//
// Leaves out: compute instances within a GPU instance, media engines, and that instances share the clock, the
// power limit and the PCIe link.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "traces/model/gpu.h"

namespace corun {

/// What an instance has, under the name that nvidia-smi prints ("3g.71gb").
struct MigProfile {
  std::string name;
  std::uint32_t sms = 0;
  std::uint32_t memory_slices = 0;  // its share of bandwidth and L2
  std::uint64_t memory_bytes = 0;
  std::uint32_t copy_engines = 0;
  std::vector<std::uint32_t> places;  // memory slices at which it may start
};

struct MigGeometry {
  std::uint32_t memory_slices = 0;
  std::vector<MigProfile> profiles;  // smallest first

  /// Null: this GPU has no such profile.
  const MigProfile* find(const std::string& name) const;
  /// Whether instances of these profiles can be there at once.
  bool places(std::span<const MigProfile* const> instances) const;
};

/// The instance as a GPU: its SMs, its share of L2 and of the memory's size and bandwidth.  Which of the GPU's
/// SMs it has is not known: its own are numbered from 0.
Gpu instance_of(const Gpu& whole, const MigGeometry& geometry, const MigProfile& profile);

}  // namespace corun
