// What does a calibration keep of what it measures, and what does it write?
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "hw/backend/cuda_backend.h"
#include "hw/calibrate/calibrate.h"
#include "tests/support/fake_driver.h"
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
