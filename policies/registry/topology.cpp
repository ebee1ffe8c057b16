#include "policies/api/topology.h"

namespace corun {

const char* to_string(Capability capability) {
  switch (capability) {
    case Capability::order:
      return "order";
    case Capability::priority:
      return "priority";
    case Capability::tpc_mask:
      return "tpc_mask";
    case Capability::cta_quota:
      return "cta_quota";
    case Capability::sm_quota:
      return "sm_quota";
    case Capability::progress:
      return "progress";
    case Capability::preempt_at_block:
      return "preempt_at_block";
    case Capability::preempt_reset:
      return "preempt_reset";
    case Capability::padding:
      return "padding";
    case Capability::time_slice:
      return "time_slice";
    case Capability::memory_swap:
      return "memory_swap";
  }
  return "";
}

std::string CapabilitySet::names() const {
  std::string text;
  for (std::uint32_t i = 0; i < kCapabilities; ++i)
    if (has(static_cast<Capability>(i)))
      text += (text.empty() ? "" : ", ") + std::string(to_string(static_cast<Capability>(i)));
  return text;
}

}  // namespace corun
