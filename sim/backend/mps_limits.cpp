#include "sim/backend/mps_limits.h"

#include <fmt/format.h>

#include <algorithm>

#include "traces/model/error.h"
#include "traces/model/expects.h"

namespace corun::sim {

MpsLimits::MpsLimits(const std::vector<double>& percentages, std::size_t clients, const Gpu& gpu,
                     const std::function<SmMask(const TpcMask&)>& mask_of) {
  CORUN_EXPECTS(!percentages.empty());
  for (std::size_t i = 0; i < clients; ++i) {
    const double percentage = percentages[std::min(i, percentages.size() - 1)];
    if (!(percentage > 0 && percentage <= 100))
      throw InputError("", "", fmt::format("a thread percentage of {} for client {}", percentage, i),
                       "give each client more than 0 and at most 100");
    if (percentage < 100 && gpu.mps_least_sms == 0)
      throw InputError("", "", fmt::format("{} has MPS without thread percentages", gpu.product),
                       "leave the percentages out, or choose another GPU");
    const std::uint32_t tpcs = gpu.mps_sms(percentage) / gpu.sms_per_tpc;
    const std::uint32_t given = std::max(tpcs, gpu.tpcs() - gpu.mps_kept_back_sms / gpu.sms_per_tpc);
    std::vector<SmMask>& places = places_.emplace_back();
    const auto from = [&](std::uint32_t first) {
      places.push_back(mask_of(TpcMask::range(first, first + tpcs)));
    };
    from(0);
    for (std::uint32_t end = given; end > tpcs; end -= tpcs) from(end - tpcs);
    if (given % tpcs != 0)  // else they are the same
      for (std::uint32_t first = tpcs; first + tpcs < given; first += tpcs) from(first);
  }
}

void MpsLimits::settle(const std::function<std::uint64_t(const SmMask&)>& threads_on,
                       Submission::Kernel& kernel) const {
  if (places_.empty()) return;
  CORUN_EXPECTS(kernel.record.client.value < places_.size());
  const std::vector<SmMask>& places = places_[kernel.record.client.value];
  // A policy that names SMs, by a mask or by its CTAs on each, has named them within the first place.
  if (kernel.allowed != places.front() || kernel.ctas != 0) return;
  std::uint64_t least = ~std::uint64_t{0};
  for (const SmMask& place : places)
    if (const std::uint64_t threads = threads_on(place); threads < least)
      least = threads, kernel.allowed = place;
}

}  // namespace corun::sim
