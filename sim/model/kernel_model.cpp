#include "sim/model/kernel_model.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "sim/model/kernel_fit.h"
#include "sim/model/kernel_prior.h"
#include "sim/model/solo_length.h"
#include "traces/model/expects.h"

namespace corun::sim {
namespace {

/// Of an SM's blocks, the share that must run at once for all to be taken to end together.
constexpr double kTogether = 0.95;

/// Of a launch that takes `own` where the kernel takes its solo time, from what the kernel takes on some SMs.
Time scaled(const Kernel& kernel, Time own, Time on_some) {
  const Time usual = kernel.solo_time.value_or(own);
  if (usual == own || usual == Time{}) return on_some;
  const double time = static_cast<double>(on_some.count()) * static_cast<double>(own.count()) / static_cast<double>(usual.count());
  return std::max(Time{1}, Time{static_cast<std::int64_t>(time)});
}

}  // namespace

KernelModel::KernelModel(const Kernel& kernel, Time solo_time, const Gpu& gpu)
    : features_(kernel, solo_time, gpu), load_(features_.load), basis_("launch shape and solo time") {
  if (!features_.counted()) return;
  std::vector<SoloPoint> curve;
  for (const auto& [sms, time] : kernel.solo_time_by_sms)
    curve.push_back({sms, static_cast<double>(scaled(kernel, solo_time, time).count())});
  // What the FP64 pipe takes of a block's time shows in the curve only with the workers' times beside it.
  const bool fits =
      curve.size() >= 2 && (features_.pipes[kFp64] <= 0 || kernel.persistent_time_by_ctas.size() > 1);
  const std::string times = curve.empty() ? "solo time" : "solo times by SMs";
  basis_ = features_.prior != nullptr ? "launch shape, " + times + " and what " +
                                            std::string(features_.prior->plural) + " usually do"
                                      : times + " and counters";
  if (load_.sm.issue_ps <= 0 && load_.memory.l2_ps <= 0) return;
  if (fits) features_.load.sm.wgmma_share = 0;  // the curve tells what it gains
  load_ = fits ? fit_curve(features_, curve) : fit_whole(features_, {features_.measured_sms, static_cast<double>(features_.solo_time.count())});
  load_.sm.uses = features_.uses(load_.sm.issue_ps);
  load_.sm.accounted = features_.accounted(load_.sm.issue_ps);
}

BlockLoad KernelModel::load(std::uint32_t sms) const {
  CORUN_EXPECTS(sms != 0);
  if (load_.sm.issue_ps <= 0 && load_.memory.l2_ps <= 0) return {};
  BlockLoad l = features_.on(load_, sms);
  settle_alone(l, features_.limits);
  // How the time depends on the number of workers tells what an SM's slots can do, apart from the memory.
  const double oldest_served =
      l.extent.residents * alone_on_sm(l.sm.issue_ps, 1, l.delay_alone_ps, l.sm.arrival_randomness) / l.alone_ps;
  const bool told = !features_.kernel.persistent_time_by_ctas.empty();
  if (told && oldest_served < kTogether * l.extent.residents) l.sm.oldest_served = oldest_served;
  return l;
}

Time KernelModel::persistent_task() const {
  if (features_.kernel.persistent_time_by_ctas.empty()) return features_.gpu.persistent_task;
  return longer_by_block(features_.kernel.persistent_time_by_ctas.rbegin()->second);
}

Time KernelModel::stoppable_task() const {
  return features_.kernel.stoppable ? longer_by_block(features_.kernel.stoppable->time) : Time{};
}

/// What each block takes longer if all take `time` on the whole GPU.
Time KernelModel::longer_by_block(Time time) const {
  const double longer = static_cast<double>(time.count()) - static_cast<double>(features_.solo_time.count());
  return Time{static_cast<std::int64_t>(longer / features_.waves(features_.measured_sms))};
}

Time KernelModel::solo_time(std::uint32_t sms) const {
  const auto found = features_.kernel.solo_time_by_sms.find(sms);
  if (found != features_.kernel.solo_time_by_sms.end())
    return scaled(features_.kernel, features_.solo_time, found->second);
  if (sms == features_.measured_sms || load_.sm.issue_ps <= 0) return features_.solo_time;
  return mended(sms);
}

double KernelModel::length_alone(std::uint32_t sms) const {
  std::call_once(asked_->once, [this] {
    if (!features_.counted()) return;
    std::vector<SoloPoint> parts;
    for (const auto& [at, time] : features_.kernel.solo_time_by_sms)
      if (at != features_.measured_sms)
        parts.push_back({at, static_cast<double>(scaled(features_.kernel, features_.solo_time, time).count())});
    asked_->law.emplace(features_, SoloPoint{features_.measured_sms, static_cast<double>(features_.solo_time.count())}, parts);
  });
  return asked_->law ? KernelLaw::length(features_, asked_->law->load(), sms) : length(features_, load_, sms);
}

/// As the law has it, times what it misses: between two measured numbers of SMs by how near each is, and never outside
/// of both; beyond them by what it misses of the nearest.
Time KernelModel::mended(std::uint32_t sms) const {
  struct Measured {
    double sms, time, missed;
  };
  std::optional<Measured> below, above;
  const auto see = [&](std::uint32_t at, Time time) {
    const auto ps = static_cast<double>(time.count());
    const Measured measured{static_cast<double>(at), ps, ps / length_alone(at)};
    if (at < sms && (!below || measured.sms > below->sms)) below = measured;
    if (at > sms && (!above || measured.sms < above->sms)) above = measured;
  };
  for (const auto& [at, time] : features_.kernel.solo_time_by_sms)
    see(at, scaled(features_.kernel, features_.solo_time, time));
  see(features_.measured_sms, features_.solo_time);
  double time = length_alone(sms);
  if (below && above) {
    // By the inverse of the number, with which a time goes where nothing is shared.
    const double share = (1 / below->sms - 1.0 / sms) / (1 / below->sms - 1 / above->sms);
    const auto [least, most] = std::minmax({below->time, above->time});
    time = std::clamp(time * ((1 - share) * below->missed + share * above->missed), least, most);
  } else {
    time *= (below ? below : above)->missed;
  }
  return std::max(Time{1}, Time{static_cast<std::int64_t>(time)});
}

Time KernelModel::block_alone(std::uint32_t sms) const {
  if (features_.kernel.block_times.size() == 1) return features_.kernel.block_times.front();
  if (load_.sm.issue_ps <= 0 ||
      (sms != features_.measured_sms && features_.kernel.solo_time_by_sms.empty() &&
       !features_.kernel.counters.l2_bytes && !features_.kernel.counters.warp_instructions))
    return solo_block_time(features_.kernel, features_.solo_time, features_.gpu, features_.measured_sms);
  return solo_block_time(features_.kernel, solo_time(sms), features_.gpu, sms);
}

}  // namespace corun::sim
