// A ComputeEngine alone: kernels reach the TMU at given times, without host or streams.
#pragma once

#include <vector>

#include "sim/stages/compute_engine.h"
#include "tests/support/build.h"
#include "tests/support/collect.h"

namespace corun::sim {

/// How a kernel reaches the TMU.
struct Arriving {
  Time at{};
  std::int32_t priority = 0;  // CUDA's: 0 lowest
  TpcMask mask = TpcMask::all();
  std::uint32_t ctas = 0;                    // 0: plain
  std::vector<std::uint16_t> ctas_per_sm{};  // by SM, of a persistent kernel; may be empty
  KernelId kernel{};                         // in its record
};

class EngineRig {
 public:
  explicit EngineRig(Gpu gpu, EngineOptions options = {true, true}, bool record_blocks = true);
  EngineRig(const EngineRig&) = delete;

  /// Runs up to `how.at`, then hands the kernel over.  Times must not fall.
  LaunchId accept(const Kernel& kernel, const Arriving& how = {});
  void run_to(Time t);
  void run();

  /// After run() only.
  const KernelRecord& record(LaunchId launch) const;
  std::vector<BlockRecord> blocks(LaunchId launch) const { return collected.blocks_of(launch); }
  std::vector<std::uint32_t> sms(LaunchId launch) const { return sms_of(blocks(launch)); }

  const Gpu gpu;
  Collector collected;

 private:
  Timeline timeline_;
  std::vector<Kernel> kernels_;  // their block times must stay

 public:
  ComputeEngine engine;
};

}  // namespace corun::sim
