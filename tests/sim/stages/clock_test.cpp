// Does the clock fall when kernels would draw more than the GPU may, and what of them takes longer then?
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "sim/model/kernel_energy.h"
#include "sim/stages/clock_governor.h"
#include "tests/support/run_trace.h"
#include "tests/support/stages.h"
#include "traces/json/input_file.h"
#include "traces/json/parse.h"
#include "traces/json/trace_json.h"

namespace corun::sim {
namespace {

/// At 1 GHz; 15 MHz a step, so 67 of them.  The clock is set each 4 ms.
Gpu limited_gpu() {
  Gpu gpu = small_gpu(4);
  gpu.power = {100, 50, 1e5, 0, 0, ms(4)};
  return gpu;
}
/// pJ that kernels of `watts` take in an interval.
constexpr double over_interval(double watts) { return watts * 4e9; }

/// Looks at kernels that would draw `watts` at the highest clock; energy: pJ since the beginning.
void look(ClockGovernor& governor, double& energy, double watts) {
  energy += over_interval(watts) / governor.clock_ratio();
  governor.look(energy);
}

TEST(Clock, IsTheHighestAtTheLimitAndFallsAboveIt) {
  for (const double more : {0.0, 1.0}) {
    const Gpu gpu = limited_gpu();
    ClockGovernor governor(gpu);
    double energy = 0;
    for (int i = 0; i < 20; ++i) look(governor, energy, 50 + more);
    EXPECT_EQ(governor.clock_ratio() > 1, more > 0);
  }
}

TEST(Clock, SettlesWhereKernelsDrawTheLimit) {
  const Gpu gpu = limited_gpu();
  ClockGovernor governor(gpu);
  double energy = 0;
  for (int i = 0; i < 20; ++i) look(governor, energy, 80);
  const double clock = 1 / governor.clock_ratio();
  EXPECT_LE(80 * clock * std::sqrt(clock), 50);
  EXPECT_GT(80 * (clock + 1.0 / 67) * std::sqrt(clock + 1.0 / 67), 50);
}

TEST(Clock, StaysForALoadWhoseMeanIsBelowTheLimit) {
  const Gpu gpu = limited_gpu();
  ClockGovernor governor(gpu);
  double energy = 0;
  for (int i = 0; i < 20; ++i) look(governor, energy, 0.49 * 100);  // half of each interval at 98 W
  EXPECT_EQ(governor.clock_ratio(), 1);
}

TEST(Clock, RisesByHalfOfTheWayEachInterval) {
  const Gpu gpu = limited_gpu();
  ClockGovernor governor(gpu);
  double energy = 0;
  for (int i = 0; i < 20; ++i) look(governor, energy, 80);
  double missing = 1 - 1 / governor.clock_ratio();
  EXPECT_GT(missing, 0.2);
  for (int i = 0; i < 4; ++i) {
    look(governor, energy, 0);
    const double now = 1 - 1 / governor.clock_ratio();
    EXPECT_NEAR(now, missing / 2, 1.0 / 67);
    missing = now;
  }
  for (int i = 0; i < 4; ++i) look(governor, energy, 0);
  EXPECT_EQ(governor.clock_ratio(), 1);
}

/// The mean clock, over the highest, of a load of `watts` for `on` of each `period`, after the first 0.8 s.
double mean_clock_under_load(const Gpu& gpu, double watts, int on, int period, int phase) {
  ClockGovernor governor(gpu);
  double energy = 0, sum = 0;
  int looked_at = 0;
  for (int i = 0; i < 2400; ++i) {
    const bool loaded = i % period < on;
    if (loaded) energy += watts * 1e9 / governor.clock_ratio();
    if (loaded && i > 800) {
      sum += 1 / governor.clock_ratio();
      ++looked_at;
    }
    if ((i + phase) % 20 == 19) governor.look(energy);
  }
  return sum / looked_at;
}

TEST(Clock, FollowsBurstsOfProductsAsAnH200AndAnH100Do) {
  for (const char* card : {"h200", "h100-sxm"}) {
    const Gpu gpu = read_gpu(card);
    const std::string file = "experiments/" + std::string(card, 4) + "/clock/bursts.json.gz";
    const nlohmann::json measured = parse_json(*open_input(file), file);
    const auto clocks = [](const nlohmann::json& run, int from, int to) {
      std::vector<double> mhz;
      for (const nlohmann::json& s : run["samples"])
        if (s[0] > from && s[0] < to && s[2] == 1) mhz.push_back(s[1]);
      return mhz;
    };
    const auto mean = [](const std::vector<double>& v) {
      return std::accumulate(v.begin(), v.end(), 0.0) / static_cast<double>(v.size());
    };
    double highest = 0, watts = 0;  // under bursts of a millisecond
    for (const nlohmann::json& run : measured["runs"])
      if (run["on_ms"] == 1) highest = std::max(highest, mean(clocks(run, 800, 2400)));
    int compared = 0;
    for (const nlohmann::json& run : measured["runs"]) {
      if (run["kind"] != nlohmann::json::array({4096, 4096}) || !run["between"].is_null()) continue;
      if (run["off_ms"] == 0) {  // comes first: what it draws follows from where its clock settles
        std::vector<double> settled = clocks(run, 300, 800);
        std::ranges::nth_element(settled, settled.begin() + static_cast<std::ptrdiff_t>(settled.size() / 2));
        const double clock = settled[settled.size() / 2] / highest;
        watts = (gpu.power.limit_w - gpu.power.idle_w) / (clock * std::sqrt(clock));
        continue;
      }
      ASSERT_GT(watts, 0);
      const int on = run["on_ms"], period = on + run["off_ms"].get<int>();
      double simulated = 0;
      for (int phase = 0; phase < 20; ++phase)
        simulated += mean_clock_under_load(gpu, watts, on, period, phase) / 20;
      const double there = mean(clocks(run, 800, 2400)) / highest;
      EXPECT_NEAR(simulated / there, 1, 0.05) << card << ": " << on << " of " << period << " ms";
      ++compared;
    }
    EXPECT_EQ(compared, 25) << card;
  }
}

/// A closed loop of kernels of 100 us, each of 200 W while it runs.
Trace heavy() {
  TraceBuilder b;
  Kernel k = kernel(16, 256, us(1));
  k.block_times.clear();
  k.solo_time = us(100);
  k.counters.warp_instructions = 1e6;
  k.counters.dram_read_bytes = k.counters.dram_write_bytes = 0;
  k.counters.l2_bytes = 1e4;
  b.client("heavy", b.program({launch(b.kernel(k))}), ClosedLoop{});
  b.trace.run.duration = ms(20);
  return b.trace;
}

TEST(Clock, KernelsTakeLongerFromTheEndOfTheFirstIntervalOn) {
  const Ran ran = run_trace(heavy(), limited_gpu());
  Time before{}, after{};
  for (const KernelRecord& k : ran.kernels) {
    if (k.finished < ms(4)) before = std::max(before, k.finished - k.started);
    if (k.started > ms(4) && k.finished < ms(8)) after = std::max(after, k.finished - k.started);
  }
  EXPECT_NEAR(to_ns(before), 100e3, 1500);
  EXPECT_GT(after, before * 13 / 10);
}

TEST(Clock, StaysWhereTheGpusPowerIsNotKnown) {
  Gpu gpu = limited_gpu();
  gpu.power = {};
  for (const KernelRecord& k : run_trace(heavy(), gpu).kernels)
    if (k.finished != kNever) {
      EXPECT_NEAR(to_ns(k.finished - k.started), 100e3, 1500);
    }
}

TEST(Clock, IsTheSameWithShortcuts) {
  const Ran fast = run_trace(heavy(), limited_gpu(), "fcfs", Record::kernels, {true, false});
  const Ran slow = run_trace(heavy(), limited_gpu(), "fcfs", Record::kernels, {false, true});
  EXPECT_EQ(lines(fast.kernels), lines(slow.kernels));
}

TEST(KernelEnergy, ColumnsOfAWgmmaAreReadFromTheTile) {
  EXPECT_EQ(wgmma_columns("nvjet_sm90_hsh_168x128_64x5_1x2_h_bz_TNN"), 168);
  EXPECT_EQ(wgmma_columns("nvjet_sm90_hsh_128x8_64x12_4x1_v_bz_splitK_TNT"), 8);
  EXPECT_EQ(wgmma_columns("nvjet_sm90_hsh_192x128_64x5_1x2_h_bz_coopB_TNT"), 64);
  EXPECT_EQ(wgmma_columns("sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize64x192x32_warpgroupsize1x1x1"), 192);
  EXPECT_EQ(wgmma_columns("cudnn_flash_fprop_wgmma_f16"), 128);
  EXPECT_EQ(wgmma_columns(""), 128);
}

}  // namespace
}  // namespace corun::sim
