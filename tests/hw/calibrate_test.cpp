// What does a calibration keep of what it measures, and what does it write?
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "hw/backend/cuda_backend.h"
#include "hw/calibrate/calibrate.h"
#include "hw/calibrate/jobs.h"
#include "tests/support/fake_driver.h"
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

TEST(Calibration, OfADriverWhoseTimerStandsStillFails) {
  FakeDriver driver;
  FakeCompiler compiler;
  EXPECT_THROW(calibrate(driver, compiler, read_gpu("h200"), {}), DriverError);
}

TEST(Calibration, LeavesNothingOnTheGpuWhenItIsInterrupted) {
  FakeDriver driver;
  FakeCompiler compiler;
  const std::atomic<bool> interrupted{true};
  CalibrationOptions options;
  options.interrupted = &interrupted;
  EXPECT_THROW(calibrate(driver, compiler, read_gpu("h200"), options), Interrupted);
  EXPECT_EQ(driver.left(), 0u);
}

using Clusters = std::vector<std::vector<std::uint32_t>>;

TEST(Gpcs, TpcsOfOneClusterAreOnOneGpc) {
  std::string why;
  // Six TPCs of two SMs; the second cluster joins TPCs 0 and 4, the fourth 1 and 3.
  EXPECT_EQ(gpc_of_tpcs({{0, 1}, {1, 8}, {4, 5}, {2, 7}, {6, 3}, {10, 4}}, 12, 2, why),
            (std::vector<double>{0, 1, 2, 1, 0, 2}));
  EXPECT_EQ(why, "");
}

TEST(Gpcs, AreNotToldWhereATpcGotNoBlockOrClustersJoinTooLittle) {
  std::string why;
  EXPECT_TRUE(gpc_of_tpcs({{0, 2}, {4, 5}}, 8, 2, why).empty());
  EXPECT_EQ(why, "1 of 4 TPCs got no block of a cluster");
  EXPECT_EQ(gpc_of_tpcs({{0, 2}, {4, 6}}, 8, 2, why), (std::vector<double>{0, 0, 1, 1})) << "half as many groups as TPCs";
  EXPECT_TRUE(gpc_of_tpcs({{0, 2}, {4}, {6}}, 8, 2, why).empty());
  EXPECT_EQ(why, "clusters join 4 TPCs to 3 groups");
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

class WrittenGpu : public testing::Test {
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
    const std::string path = testing::TempDir() + "written_gpu.json";
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

}  // namespace
}  // namespace corun::hw
