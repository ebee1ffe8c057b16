// What the launches of a kernel are like to the engine: resources, block time alone, part in contention. Kept
// by content, so that runs on one GPU share what takes a fit and a few simulations of the kernel alone.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "sim/model/kernel_model.h"
#include "traces/model/gpu.h"
#include "traces/model/kernel.h"
#include "traces/model/occupancy.h"
#include "traces/model/time.h"

namespace corun::sim {

struct Shape {
  Time block_alone;
  SmResources demand;
  BlockLoad load;
  Time persistent_task;  // what a block costs more when a persistent worker takes it
  Time stoppable_task;   // or where the launch may be stopped
};

class Shapes {
 public:
  explicit Shapes(const Gpu& gpu) : gpu_(gpu) {}

  /// Of a launch that may use so many SMs and takes `solo_time` on the whole GPU.  May be called from
  /// threads.
  Shape of(const Kernel& kernel, Time solo_time, std::uint32_t sms);

 private:
  std::shared_ptr<const KernelModel> model_of(const std::string& key, const Kernel& kernel, Time solo_time);
  Shape make(const Kernel& kernel, const KernelModel& model, std::uint32_t sms) const;

  const Gpu gpu_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const KernelModel>> models_;
  std::map<std::pair<std::string, std::uint32_t>, Shape> shapes_;
};

}  // namespace corun::sim
