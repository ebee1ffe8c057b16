// What a backend can do, told to a policy before the run starts, so that a policy that needs more is refused
// then and never mid-run.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

#include "traces/model/gpu.h"
#include "traces/model/occupancy.h"

namespace corun {

enum class Capability : std::uint8_t {
  order,             // launches reach the GPU in the order decided
  priority,          // stream priorities
  tpc_mask,          // a launch can be kept to a set of TPCs
  cta_quota,         // a launch can run as a persistent kernel of a given number of CTAs, and be resized
  sm_quota,          // the same, with a number per SM
  progress,          // the number of finished blocks can be asked for
  preempt_at_block,  // a running launch can be stopped at its next block and resumed
  preempt_reset,     // running blocks can be killed and run again
  padding,           // two kernels launched as one
  time_slice,        // separate contexts take turns
  memory_swap,       // device memory can be checkpointed to the host and back
};
inline constexpr std::uint32_t kCapabilities = 11;

const char* to_string(Capability capability);

class CapabilitySet {
 public:
  constexpr CapabilitySet() = default;
  constexpr CapabilitySet(std::initializer_list<Capability> list) {
    for (Capability c : list) bits_ |= bit(c);
  }
  constexpr void add(Capability c) { bits_ |= bit(c); }
  constexpr bool has(Capability c) const { return (bits_ & bit(c)) != 0; }
  constexpr CapabilitySet without(CapabilitySet other) const {
    CapabilitySet left;
    left.bits_ = bits_ & ~other.bits_;
    return left;
  }
  constexpr CapabilitySet with(Capability c) const {
    CapabilitySet more = *this;
    more.bits_ |= bit(c);
    return more;
  }
  constexpr bool empty() const { return bits_ == 0; }
  std::string names() const;  // "tpc_mask, cta_quota"

 private:
  static constexpr std::uint32_t bit(Capability c) { return 1u << static_cast<std::uint32_t>(c); }
  std::uint32_t bits_ = 0;
};

struct Topology {
  Gpu gpu;
  CapabilitySet capabilities;
};

}  // namespace corun
