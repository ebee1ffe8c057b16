// A kernel's work on another card, as the contention model sees it: what a block asks for stays, what the SMs do
// with it goes with the clock, and the memory's bandwidths, latencies and sizes are those of the other card
// (sim/model/DECISIONS.md, 72).
//
// Leaves out: tensor cores of another kind, other kernels that a library would choose there.
#pragma once

#include <cstdint>

#include "sim/model/kernel_model.h"
#include "traces/model/gpu.h"
#include "traces/model/kernel.h"

namespace corun::sim {

class CarriedKernel {
 public:
  /// `kernel` as it can be launched there; `alone` is its time here, `about` roughly that there.  The GPUs must
  /// outlive this.
  CarriedKernel(const Kernel& kernel, Time alone, Time about, const Gpu& from, const Gpu& to);

  /// Enough is known of it.
  bool known() const { return known_; }
  /// How long it works on `has` SMs there, over how long on `had` here: without its launch.
  double ratio(std::uint32_t had, std::uint32_t has) const;
  /// Its counters with what an L2 of another size makes of its traffic.
  const Counters& counters() const { return counters_; }

 private:
  KernelModel here_;
  Counters counters_;
  KernelFeatures there_;
  BlockLoad load_;
  bool known_ = false;
};

}  // namespace corun::sim
