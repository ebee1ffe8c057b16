#include "sim/validate/places_free.h"

#include <algorithm>
#include <cmath>

#include "sim/model/kernel_features.h"

namespace corun::sim {
namespace {

/// Waves up to which the simulator starts the blocks of a wave together (sim/stages/pipeline.cpp).
constexpr double kFewWaves = 8;
/// Of a block's time, by which a launch takes longer than its waves, where DRAM does not bound it.
constexpr double kDrift = 0.1;
/// Ps, the same where DRAM does.
constexpr double kFirstAndLastBytes = 1.5e6;
/// Ps, by which the next launch begins later where this one has moved more than L2 holds.
constexpr double kAfterMuch = 0.35e6;
/// Of its time, at most.
constexpr double kMost = 0.25;

}  // namespace

Time places_free(const Kernel& kernel, const Gpu& gpu, std::uint32_t sms) {
  const Time time = kernel.solo_time.value();
  const KernelFeatures f(kernel, time, gpu);
  const auto waves = [&f](std::uint32_t n) {
    return f.load.extent.blocks / std::min(f.load.extent.blocks, static_cast<double>(f.max_active_blocks) * n);
  };
  const double all = static_cast<double>(time.count()), here = waves(sms);
  double free = 0;
  if (bytes_moved(f.load) * f.load.extent.blocks > f.limits.l2.own_bytes) free += kAfterMuch;
  if (here <= kFewWaves && f.dram.bounds)
    free += kFirstAndLastBytes;
  else if (here <= kFewWaves && here > 1)
    free += all * kDrift / (std::ceil(waves(gpu.sms) - 1e-9) + kDrift);
  const auto found = kernel.solo_time_by_sms.find(sms);
  const double there =
      found == kernel.solo_time_by_sms.end() ? all : static_cast<double>(found->second.count());
  return Time{static_cast<std::int64_t>(std::min(free, kMost * std::min(all, there)))};
}

}  // namespace corun::sim
