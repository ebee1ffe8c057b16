// What the launches of a kernel are like to the engine: resources, block time alone, part in contention. Kept
// by content, so that runs on one GPU share what takes a fit and a few simulations of the kernel alone.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "policies/api/snapshot.h"
#include "sim/engine/kept_table.h"
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

/// A worker has what a block has, and state of its own.
SmResources demand_of_worker(const Kernel& kernel, const Gpu& gpu);

class Shapes {
 public:
  explicit Shapes(const Gpu& gpu, bool contention = true) : gpu_(gpu), contention_(contention) {}
  /// On an instance of a GPU: times are known on the whole, and memory is the instance's.
  Shapes(const Gpu& whole, const Gpu& instance, bool contention = true)
      : gpu_(whole), contention_(contention), memory_(limits_of(instance)) {}
  /// EngineOptions::contention of the engines that use the shapes.
  bool contention() const { return contention_; }

  /// Of a launch that may use `sms` SMs and takes `solo_time` on the whole GPU.  May be called from
  /// threads.
  Shape of(const Kernel& kernel, Time solo_time, std::uint32_t sms);

 private:
  std::shared_ptr<const KernelModel> model_of(const std::string& key, const Kernel& kernel, Time solo_time);
  Shape make(const Kernel& kernel, const KernelModel& model, std::uint32_t sms) const;

  const Gpu gpu_;
  const bool contention_;
  const std::optional<MemoryLimits> memory_;  // where it is not the GPU's
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const KernelModel>> models_;
  std::map<std::pair<std::string, std::uint32_t>, Shape> shapes_;
};

/// The shapes of the launches of one run: the same few kernels come again and again.
class LaunchShapes {
 public:
  /// `shared`: which other runs use too; null: of its own.
  LaunchShapes(const Gpu& gpu, Shapes* shared, bool contention = true)
      : own_(shared == nullptr ? std::make_unique<Shapes>(gpu, contention) : nullptr),
        all_(shared == nullptr ? *own_ : *shared) {}
  bool contention() const { return all_.contention(); }

  /// Of a launch that may use `sms` SMs.  Valid as long as this.
  const Shape& of(const LaunchView& launch, std::uint32_t sms) {
    const Key key{launch.kernel_id.value, launch.solo_time.count(), sms};
    Latest& latest = latest_of(launch);
    if (latest.shape == nullptr || latest.key != key) latest = {key, &find(key, launch)};
    return *latest.shape;
  }

 private:
  struct Key {
    std::uint32_t kernel;
    std::int64_t solo;
    std::uint32_t sms;
    bool operator==(const Key&) const = default;
    std::uint64_t hash() const {
      return static_cast<std::uint64_t>(solo) ^ std::uint64_t{kernel} << 40 ^ std::uint64_t{sms} << 56;
    }
  };
  struct Latest {
    Key key{};
    const Shape* shape = nullptr;
  };
  /// A program's launches come in its order, and each is as it was the last time: to look there stays in the cache.
  Latest& latest_of(const LaunchView& launch) {
    if (launch.client.value >= latest_.size()) latest_.resize(launch.client.value + 1);
    std::vector<Latest>& ops = latest_[launch.client.value];
    if (launch.op.value >= ops.size()) ops.resize(launch.op.value + 1);
    return ops[launch.op.value];
  }
  const Shape& find(const Key& key, const LaunchView& launch) {
    if (const Shape* known = known_.find(key, key.hash())) return *known;
    return known_.add(key, key.hash(), all_.of(*launch.kernel, launch.solo_time, key.sms));
  }

  std::vector<std::vector<Latest>> latest_;  // by client, by op
  KeptTable<Key, Shape> known_;
  std::unique_ptr<Shapes> own_;
  Shapes& all_;
};

}  // namespace corun::sim
