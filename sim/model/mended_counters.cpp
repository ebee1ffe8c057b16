#include "sim/model/mended_counters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace corun::sim {
namespace {

/// Counters of different passes differ by less.
constexpr double kTolerance = 0.1;
/// More than that of what the GPU can do in a launch's time is impossible, also with other clocks, or
/// counters taken with cold caches beside times with warm ones.
constexpr double kMostOverPeak = 4;

class Mending {
 public:
  Mending(const Kernel& kernel, Time solo_time, const Gpu& gpu)
      : kernel_(kernel), gpu_(gpu), c_(mended_.counters) {
    c_ = kernel.counters;
    if (solo_time > Time{}) {
      longest_ = static_cast<double>(std::max(solo_time, kernel.solo_time.value_or(Time{})).count());
      longest_ = std::max(longest_, 1e3 * c_.duration_ns.value_or(0));
    }
  }

  MendedCounters run() {
    numbers();
    percentages();
    instructions();
    bytes();
    return std::move(mended_);
  }

 private:
  using Counter = std::optional<double>;

  void say(std::string text) { mended_.said.push_back(std::move(text)); }

  /// A trace file cannot hold others, but a program can.
  void numbers() {
    const auto check = [&](Counter& value, const char* name) {
      if (!value || (std::isfinite(*value) && *value >= 0)) return;
      value.reset();
      say(fmt::format("{} is no count: taken as unknown", name));
    };
    check(c_.dram_read_bytes, "dram_read_bytes");
    check(c_.dram_write_bytes, "dram_write_bytes");
    check(c_.l2_bytes, "l2_bytes");
    check(c_.l1_bytes, "l1_bytes");
    check(c_.warp_instructions, "warp_instructions");
    check(c_.tensor_instructions, "tensor_instructions");
    check(c_.issue_active_pct, "issue_active_pct");
    check(c_.warps_active_pct, "warps_active_pct");
    check(c_.fp64_active_pct, "fp64_active_pct");
    for (auto at = c_.pipes_pct.begin(); at != c_.pipes_pct.end();) {
      Counter busy = at->second;
      check(busy, ("pipes_pct." + at->first).c_str());
      at = busy ? std::next(at) : c_.pipes_pct.erase(at);
    }
  }

  void at_most(Counter& value, double most, const char* name, const std::string& of_what) {
    if (!value || *value <= most) return;
    if (*value > (1 + kTolerance) * most)
      say(fmt::format("{} is {:.4g}, above {} ({:.4g}), and taken as that", name, *value, of_what, most));
    value = most;
  }

  void percentages() {
    at_most(c_.issue_active_pct, 100, "issue_active_pct", "all");
    at_most(c_.warps_active_pct, 100, "warps_active_pct", "all");
    at_most(c_.fp64_active_pct, 100, "fp64_active_pct", "all");
    for (auto& [pipe, of_time] : c_.pipes_pct) {
      Counter busy = of_time;
      at_most(busy, 100, ("pipes_pct." + pipe).c_str(), "all");
      of_time = *busy;
    }
  }

  void instructions() {
    const double warps =
        static_cast<double>(kernel_.blocks()) * std::ceil(kernel_.threads_per_block() / 32.0);
    if (c_.warp_instructions && *c_.warp_instructions < (1 - kTolerance) * warps) {
      say(fmt::format("warp_instructions is {:.4g}, below the number of warps ({:.4g}), and taken as unknown",
                      *c_.warp_instructions, warps));
      c_.warp_instructions.reset();
    }
    if (longest_ > 0)
      at_most(c_.warp_instructions,
              kMostOverPeak * gpu_.sms * gpu_.sm.sub_partitions * gpu_.clock_hz * longest_ / 1e12,
              "warp_instructions", fmt::format("{} times what the GPU issues in that time", kMostOverPeak));
    if (c_.warp_instructions)
      at_most(c_.tensor_instructions, *c_.warp_instructions, "tensor_instructions", "warp_instructions");
  }

  void bytes() {
    const Contention& limits = gpu_.contention;
    const auto within_time = [&](Counter& value, double per_second, const char* name) {
      if (longest_ > 0)
        at_most(value, kMostOverPeak * per_second * longest_ / 1e12, name,
                fmt::format("{} times what the GPU moves in that time", kMostOverPeak));
    };
    within_time(c_.dram_read_bytes, limits.dram_read_bytes_per_second, "dram_read_bytes");
    within_time(c_.dram_write_bytes, limits.dram_write_bytes_per_second, "dram_write_bytes");
    within_time(c_.l2_bytes, limits.l2_read_bytes_per_second + limits.l2_write_bytes_per_second, "l2_bytes");
    const double dram = c_.dram_read_bytes.value_or(0) + c_.dram_write_bytes.value_or(0);
    if (c_.l2_bytes && *c_.l2_bytes < (1 - kTolerance) * dram) {
      say(fmt::format(
          "l2_bytes is {:.4g}, below what passes L2 to and from DRAM ({:.4g}), and taken as unknown",
          *c_.l2_bytes, dram));
      c_.l2_bytes.reset();
    }
  }

  const Kernel& kernel_;
  const Gpu& gpu_;
  MendedCounters mended_;
  Counters& c_;
  double longest_ = 0;  // ps; 0: unknown
};

}  // namespace

MendedCounters mend_counters(const Kernel& kernel, Time solo_time, const Gpu& gpu) {
  return Mending(kernel, solo_time, gpu).run();
}

}  // namespace corun::sim
