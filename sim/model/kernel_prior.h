// What a kernel without counters is taken to do: what kernels of its class did in the networks that were
// measured (experiments/h200/networks/prior.py), by its launch shape and its time.
#pragma once

#include <cstdint>
#include <string_view>

#include "traces/model/gpu.h"
#include "traces/model/kernel.h"
#include "traces/model/time.h"

namespace corun::sim {

/// A class of kernels, told by their names.  Instructions and bytes are shares of what the SMs that have blocks can do
/// in the launch's time: of their issue slots, and of their part of L2's bandwidth.
struct Prior {
  std::string_view name, plural;  // "mma", "gemms with mma.sync"
  std::string_view patterns;  // separated by blanks; of names in lower case; `*`: anything, `^`: it begins so
  double instructions, l2;
  double tensor_share;                                 // of the instructions
  double l1_share, dram_read_share, dram_write_share;  // of the bytes through L2
  std::uint32_t kernels, networks;                     // of which they are the medians; single operations count as networks

  bool multiplies() const;   // tiles of matrices
  bool fills_tiles() const;  // of many columns: those of few wait for the matrix that they read
};

/// The class of a kernel with that name; nullptr: of none that is known.
const Prior* prior_of(std::string_view name);

/// Whether the name holds a pattern of the class with that name, though it may hold an earlier one's too.
bool is_named_as(std::string_view name, std::string_view prior);

/// Nothing is known of the kernel that a class could not tell: no counters, no times of its blocks.
const Prior* prior_for(const Kernel& kernel);

/// What the launch does that lasts `solo_time` alone on the whole GPU.
Counters usual_counters(const Prior& prior, const Kernel& kernel, Time solo_time, const Gpu& gpu);

}  // namespace corun::sim
