// What does a calibration keep of what it measures, and what does it write?
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "hw/backend/cuda_backend.h"
#include "hw/calibrate/calibrate.h"
#include "hw/calibrate/jobs.h"
#include "tests/support/fake_driver.h"
#include "tests/support/in_folder.h"
#include "tests/support/nvrtc.h"
#include "traces/json/trace_json.h"
#include "traces/json/write_gpu.h"

namespace corun::hw {
namespace {

TEST(Constants, AreTheMedianOfTheirSamplesWithTheSpread) {
  Constants found;
  EXPECT_EQ(found.add("latencies", "stream_gap_ns", {120, 100, 90}, "how"), 100);
  EXPECT_EQ(found.value("latencies", "stream_gap_ns"), 100);
  EXPECT_EQ(found.all().front().samples, 3u);
  EXPECT_DOUBLE_EQ(found.all().front().spread, 0.3);
}

TEST(Constants, AreNotKeptWhereRepetitionsDifferByMoreThanHalf) {
  Constants found;
  found.add("latencies", "at_half", {75, 100, 125}, "how");
  found.add("latencies", "over_half", {74, 100, 125}, "how");
  found.drop_unsure();
  EXPECT_EQ(found.value("latencies", "at_half"), 100);
  EXPECT_EQ(found.value("latencies", "over_half"), 0);
  ASSERT_EQ(found.failed().size(), 1u);
  EXPECT_EQ(found.failed().front().first, "latencies/over_half");
}

/// A difference of two times that is nothing came out as -16 ns on an H100.
TEST(Constants, AreNotKeptWhereTheyAreNothingWithinTheirNoise) {
  Constants found;
  found.add("contention", "about_nothing", {-40, -16, 11}, "how");
  found.add("contention", "nothing", {-1, 0, 1}, "how");
  found.add("contention", "none_at_all", {0, 0, 0}, "how");
  found.drop_unsure();
  ASSERT_EQ(found.all().size(), 1u);
  EXPECT_EQ(found.all().front().key, "none_at_all");
  ASSERT_EQ(found.failed().size(), 2u);
  EXPECT_EQ(found.taken().front().second, (Samples{-40, -16, 11})) << "for who wants to look at them";
}

TEST(Constants, ThatWereFittedTogetherAreDroppedTogether) {
  Constants found;
  found.add("contention", "sure", {1, 1, 1}, "how");
  found.add("contention", "unsure", {1, 2, 3}, "how");
  found.add("contention", "another", {1, 2, 3}, "how");
  const std::array<const char*, 2> other{"sure", "nowhere"}, both{"sure", "unsure"};
  found.drop_together("contention", other);
  EXPECT_EQ(found.all().size(), 3u);
  found.drop_together("contention", both);
  ASSERT_EQ(found.all().size(), 1u);
  EXPECT_EQ(found.all().front().key, "another");
  EXPECT_EQ(found.failed().front(),
            (std::pair<std::string, std::string>{
                "contention/sure", "fitted with unsure: 2 varies by 100 % from one repetition to the next"}));
}

TEST(Calibration, OfADriverWhoseTimerStandsStillFails) {
  FakeDriver driver;
  FakeCompiler compiler;
  Constants found;
  EXPECT_THROW(calibrate(driver, compiler, read_gpu("h200"), {}, found), DriverError);
  EXPECT_TRUE(found.all().empty());
}

/// The fake GPU does not know all that the jobs ask of it.
TEST(Calibration, ThatFailsLaterKeepsWhatWasFoundForTheSamples) {
  FakeDriver driver;
  driver.other_kernels = [](const FakeDriver::Asked& asked) -> FakeDriver::Kernel {
    if (asked.entry != "clock_rate") return {};
    return [cycles = asked.parameter<DevicePointer>(0), ns = asked.parameter<DevicePointer>(1)] {
      *reinterpret_cast<std::uint64_t*>(cycles) = *reinterpret_cast<std::uint64_t*>(ns) = 1000;
      return true;
    };
  };
  FakeCompiler compiler;
  Constants found;
  EXPECT_THROW(calibrate(driver, compiler, read_gpu("h200"), {}, found), DriverError);
  EXPECT_EQ(found.value("chip", "sms"), driver.facts().sms);
}

TEST(Calibration, LeavesNothingOnTheGpuWhenItIsInterrupted) {
  FakeDriver driver;
  FakeCompiler compiler;
  const std::atomic<bool> interrupted{true};
  CalibrationOptions options;
  options.interrupted = &interrupted;
  Constants found;
  EXPECT_THROW(calibrate(driver, compiler, read_gpu("h200"), options, found), Interrupted);
  EXPECT_EQ(driver.left(), 0u);
}

using Clusters = std::vector<std::vector<std::uint32_t>>;

TEST(Gpcs, TpcsOfOneClusterAreOnOneGpc) {
  std::string why;
  // Six TPCs of two SMs; the second cluster connects TPCs 0 and 4, the fourth 1 and 3.
  EXPECT_EQ(gpc_of_tpcs({{0, 1}, {1, 8}, {4, 5}, {2, 7}, {6, 3}, {10, 4}}, 12, 2, why),
            (std::vector<double>{0, 1, 2, 1, 0, 2}));
  EXPECT_EQ(why, "");
}

TEST(Gpcs, AreNotToldWhereATpcGotNoBlockOrClustersConnectTooLittle) {
  std::string why;
  EXPECT_TRUE(gpc_of_tpcs({{0, 2}, {4, 5}}, 8, 2, why).empty());
  EXPECT_EQ(why, "1 of 4 TPCs got no block of a cluster");
  EXPECT_EQ(gpc_of_tpcs({{0, 2}, {4, 6}}, 8, 2, why), (std::vector<double>{0, 0, 1, 1})) << "half as many groups as TPCs";
  EXPECT_TRUE(gpc_of_tpcs({{0, 2}, {4}, {6}}, 8, 2, why).empty());
  EXPECT_EQ(why, "clusters connect 4 TPCs to 3 groups");
  EXPECT_TRUE(gpc_of_tpcs({{0, 99}}, 8, 2, why).empty());
  EXPECT_EQ(why, "a block ran on SM 99 of 8");
}

/// max(8, 2 * floor(percentage * 132 / 200)), as an H200 was found to do (experiments/h200/processes).
TEST(MpsGranularityRule, IsFoundInWhatClientsSee) {
  const MpsGranularity h200 = mps_granularity({1, 4, 9, 14, 50, 99}, {8, 8, 10, 18, 66, 130}, 132);
  EXPECT_EQ(h200.least, 8u);
  EXPECT_EQ(h200.step, 2u);
  EXPECT_EQ(mps_granularity({1, 50, 99}, {1, 54, 106}, 108).step, 1u);
}

TEST(MpsGranularityRule, IsNotMadeUpWhereNoneFits) {
  EXPECT_EQ(mps_granularity({1, 4, 9, 14, 50, 99}, {8, 8, 10, 18, 64, 130}, 132).step, 0u);
  EXPECT_EQ(mps_granularity({1, 50}, {132, 132}, 132).step, 132u) << "percentages that are not heeded are a step of all";
  EXPECT_EQ(mps_granularity({1, 50}, {0, 0}, 132).step, 0u);
  EXPECT_EQ(mps_granularity({}, {}, 132).step, 0u);
  EXPECT_EQ(mps_granularity({1, 50}, {8}, 132).step, 0u);
}

/// Jobs before a driver without a GPU.
class Jobs : public testing::Test {
 protected:
  FakeDriver driver_;
  FakeCompiler compiler_;
  std::atomic<bool> interrupted_{false};
  Bench bench_{driver_, compiler_, interrupted_};
  Constants found_;
  const Gpu like_ = read_gpu("h200");
  Calibrating c_{bench_, found_, like_, {}, {}};

  std::string why(const char* place) const {
    for (const auto& [where, reason] : found_.failed())
      if (where == place) return reason;
    return "";
  }
};

TEST_F(Jobs, MpsIsAskedAndItsRuleKept) {
  const std::uint32_t sms = bench_.facts().sms;
  c_.sms_under_mps = [&](const std::vector<double>& percentages) {
    std::vector<std::uint32_t> seen;
    for (const double p : percentages)
      seen.push_back(std::max(2u, static_cast<std::uint32_t>(p * sms / 200) * 2));
    return seen;
  };
  measure_mps(c_);
  EXPECT_EQ(found_.value("scheduling", "mps_least_sms"), 2);
  EXPECT_EQ(found_.value("scheduling", "mps_sm_step"), 2);
}

TEST_F(Jobs, WithoutMpsNothingIsSaidOfIt) {
  measure_mps(c_);
  EXPECT_EQ(why("scheduling/mps_sm_step"), "MPS was not asked");
  c_.sms_under_mps = [](const std::vector<double>&) -> std::vector<std::uint32_t> {
    throw DriverError("there is no nvidia-cuda-mps-control on this machine");
  };
  measure_mps(c_);
  EXPECT_TRUE(found_.all().empty());
  EXPECT_EQ(found_.failed().back().second, "there is no nvidia-cuda-mps-control on this machine");
}

/// The fake's GPCs hold eight TPCs, the last one two.
TEST_F(Jobs, GpcsAreFoundByClusters) {
  measure_gpcs(c_);
  ASSERT_EQ(found_.all().size(), 1u) << why("chip/gpc_of_tpc");
  const std::vector<double>& gpc = found_.all().front().value;
  ASSERT_EQ(gpc.size(), 66u);
  for (std::size_t tpc = 0; tpc < gpc.size(); ++tpc) EXPECT_EQ(gpc[tpc], static_cast<double>(tpc / 8));
}

TEST_F(Jobs, BlocksThatNoteNoSmTellNoGpcs) {
  driver_.notes_sms = false;
  measure_gpcs(c_);
  EXPECT_TRUE(found_.all().empty());
  EXPECT_EQ(why("chip/gpc_of_tpc"), "65 of 66 TPCs got no block of a cluster");
}

/// Of a card with clusters, and of one without.
TEST(CalibrationCode, CompilesForTheOldestAndTheNewestOfItsArchitectures) {
  if (const auto [compiler, why_not] = nvrtc_if_there(); !compiler) GTEST_SKIP() << why_not;
  for (const char* architecture : {"sm_75", "sm_90"}) {
    const std::unique_ptr<Compiler> compiler = open_nvrtc(architecture, "");
    FakeDriver driver;
    const std::atomic<bool> interrupted{false};
    EXPECT_NO_THROW(Bench(driver, *compiler, interrupted)) << architecture;
  }
}

class WrittenGpu : public InFolder {
 protected:
  MeasuredGpu card() const {
    MeasuredGpu gpu;
    gpu.name = "my-card", gpu.product = "NVIDIA Something", gpu.architecture = "hopper", gpu.like = "h200";
    gpu.measured = "measured today", gpu.about = "A test.";
    gpu.values = {{"chip", "sms", {120}, false, "device attribute"},
                  {"latencies", "stream_gap_ns", {812.5}, false, "how"}};
    return gpu;
  }
  Gpu written(const MeasuredGpu& gpu) {
    const std::filesystem::path path = folder_ / "gpu.json";
    std::ofstream out(path);
    inherited_ = write_gpu(gpu, out);
    out.close();
    return read_gpu(path);
  }
  bool inherits(const char* place) const {
    return std::find(inherited_.begin(), inherited_.end(), place) != inherited_.end();
  }
  std::vector<std::string> inherited_;
};

TEST_F(WrittenGpu, IsReadBackWithWhatWasMeasuredAndTheRestOfTheOneItIsLike) {
  const Gpu like = read_gpu("h200"), gpu = written(card());
  EXPECT_EQ(gpu.name, "my-card");
  EXPECT_EQ(gpu.product, "NVIDIA Something");
  EXPECT_EQ(gpu.sms, 120u);
  EXPECT_EQ(gpu.stream_gap, from_ns(812.5));
  EXPECT_EQ(gpu.time_slice, like.time_slice);
  EXPECT_EQ(gpu.sm.max_threads, like.sm.max_threads);
}

TEST_F(WrittenGpu, TellsWhatItInherits) {
  written(card());
  EXPECT_TRUE(inherits("latencies/time_slice_ns"));
  EXPECT_FALSE(inherits("latencies/stream_gap_ns"));
  EXPECT_FALSE(inherits("chip/sms"));
}

TEST_F(WrittenGpu, HasNoListBySmOfAnotherCard) {
  EXPECT_EQ(written(card()).placement_order.size(), 120u);  // as it is where none is described
  EXPECT_FALSE(inherits("chip/placement_order"));
}

TEST_F(WrittenGpu, RefusesWhatTheSchemaDoes) {
  const auto why = [](const char* group, const char* key, double value) {
    return refused_value({group, key, {value}, false, ""});
  };
  EXPECT_EQ(why("contention", "launch_beside_others_ns", 0), "");
  EXPECT_EQ(why("contention", "launch_beside_others_ns", -16),
            "-16 is out of range: a description holds 0 to 1e+06");
  EXPECT_EQ(why("contention", "launch_beside_others_ns", 1e6), "");
  EXPECT_NE(why("contention", "launch_beside_others_ns", 1e6 + 1), "");
  EXPECT_NE(why("contention", "launch_beside_others_ns", std::nan("")), "");
  EXPECT_EQ(why("chip", "sms", 132), "");
  EXPECT_EQ(why("chip", "sms", 131.5), "131.5 is no whole number");
  EXPECT_EQ(why("chip", "nonsense", 1), "no description holds it");
  // A driver that tells nothing of how its SMs come in turn.
  EXPECT_EQ(refused_value({"chip", "gpc_of_tpc", {0, 0, 1}, true, ""}), "");
  EXPECT_NE(refused_value({"chip", "gpc_of_tpc", {0, -1, 1}, true, ""}), "");
}

}  // namespace
}  // namespace corun::hw
