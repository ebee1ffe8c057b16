// A kernel's part in the contention model, from what is known of it alone: launch shape, solo time, solo time
// on fewer SMs, hardware counters, or without them what kernels of its class usually do.  Nothing here has seen
// a co-run.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "sim/model/contention.h"
#include "sim/model/kernel_features.h"
#include "sim/model/kernel_law.h"
#include "traces/model/gpu.h"
#include "traces/model/kernel.h"
#include "traces/model/time.h"

namespace corun::sim {

class KernelModel {
 public:
  /// `solo_time` is that of the launch on the whole GPU.  `gpu` must outlive this.
  KernelModel(const Kernel& kernel, Time solo_time, const Gpu& gpu);

  /// Of a launch confined to `sms` SMs, alone: its length, and what a block takes if all take the same.
  Time solo_time(std::uint32_t sms) const;
  Time block_alone(std::uint32_t sms) const;
  BlockLoad load(std::uint32_t sms) const;
  /// What a block costs more when a persistent worker takes it: as measured of this kernel, else the GPU's.
  Time persistent_task() const;
  /// And where the launch may be stopped.
  Time stoppable_task() const;
  /// Which inputs it is made of, for people.
  const std::string& basis() const { return basis_; }
  /// What is known of it, and what a block asks for so that the kernel comes out as it is alone.
  const KernelFeatures& features() const { return features_; }
  const BlockLoad& fitted() const { return load_; }

 private:
  Time longer_by_block(Time time) const;
  double length_alone(std::uint32_t sms) const;
  Time mended(std::uint32_t sms) const;

  KernelFeatures features_;
  BlockLoad load_;  // on the whole GPU
  // Where counters are known, or a class's, once a time on a part is asked for.
  struct Asked {
    std::once_flag once;
    std::optional<KernelLaw> law;
  };
  std::shared_ptr<Asked> asked_ = std::make_shared<Asked>();
  std::string basis_;
};

}  // namespace corun::sim
