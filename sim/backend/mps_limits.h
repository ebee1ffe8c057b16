// The active thread percentages of MPS clients.  A percentage caps a client and reserves nothing: a launch gets
// that number of SMs side by side, at the one of a few places that holds least when it comes.  So any two
// clients meet on what they have more than the GPU between them and on a few SMs that are kept back, as
// measured on an H200 (experiments/h200/processes, `pairs`).
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "sim/stages/host.h"
#include "sim/stages/sm_mask.h"
#include "traces/model/gpu.h"
#include "traces/model/tpc_mask.h"

namespace corun::sim {

class MpsLimits {
 public:
  /// No client is one of MPS.
  MpsLimits() = default;
  /// `percentages`: by client; the last is that of all further clients.  `mask_of`: the SMs of TPCs.  Throws InputError for
  /// one that is not above 0 and at most 100, or a GPU without percentages.
  MpsLimits(const std::vector<double>& percentages, std::size_t clients, const Gpu& gpu,
            const std::function<SmMask(const TpcMask&)>& mask_of);

  bool any() const { return !places_.empty(); }
  /// The SMs of a client, as far as a policy that names SMs is concerned.
  SmMask within(ClientId client, const SmMask& mask) const {
    return places_.empty() ? mask : mask & places_[client.value].front();
  }
  /// The launch reaches the GPU: it goes where least is.
  void settle(const std::function<std::uint64_t(const SmMask&)>& threads_on, Submission::Kernel& kernel) const;

 private:
  std::vector<std::vector<SmMask>> places_;  // by client
};

}  // namespace corun::sim
