// When the times of a trace are carried over to the GPU that is asked for, and what is said of it.
#include "sim/input/carry.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "sim/input/compose.h"
#include "sim/input/load.h"
#include "traces/json/temporary_folder.h"
#include "traces/json/trace_json.h"

namespace corun::sim {
namespace {

const std::string kNetwork = "traces/h200/examples/realtime-resnet50-beside-resnet152.json";

std::string read_text(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

Trace adjusted(const std::string& gpu) {
  Trace trace = read_input(kNetwork, "");
  adjust(trace, kNetwork, {gpu, "", "", {}});
  return trace;
}

bool as_recorded(const Trace& trace) {
  const Trace recorded = read_input(kNetwork, "");
  for (std::size_t k = 0; k < recorded.kernels.size(); ++k)
    if (trace.kernels[k].solo_time != recorded.kernels[k].solo_time) return false;
  return true;
}

TEST(Carry, BuiltInDescriptionsAreOfDifferentCards) {
  const std::vector<std::string> names = gpu_names();
  for (const std::string& a : names)
    for (const std::string& b : names) EXPECT_EQ(same_card(read_gpu(a), read_gpu(b)), a == b) << a << ", " << b;
}

TEST(Carry, WhatCalibrateWroteIsOfTheCardThatItWasWrittenOn) {
  std::size_t found = 0;
  for (const auto& entry : std::filesystem::directory_iterator("experiments/calibrations")) {
    const std::string file = entry.path().filename().string();
    if (entry.path().extension() != ".json" || read_text(entry.path()).find("\"basis\"") == std::string::npos)
      continue;  // others are older than the bases of values
    const bool of_h200 = file.starts_with("h200");
    const Gpu gpu = read_gpu(entry.path().string());
    EXPECT_TRUE(same_card(gpu, read_gpu(of_h200 ? "h200" : "h100-sxm"))) << file;
    EXPECT_FALSE(same_card(gpu, read_gpu(of_h200 ? "h100-sxm" : "h200"))) << file;
    ++found;
  }
  EXPECT_GE(found, 6u);
}

TEST(Carry, AnotherCardsTimesAreCarriedOverAndItIsSaid) {
  const Trace there = adjusted("l4");
  EXPECT_FALSE(as_recorded(there));
  EXPECT_NE(there.carried.front().find("recorded on h200; its kernels' times are carried over to l4"), std::string::npos);
  EXPECT_NE(there.carried.front().find("nobody has measured"), std::string::npos);
  EXPECT_NE(adjusted("h100-sxm").carried.front().find("off by 1 % in the median"), std::string::npos);
  EXPECT_EQ(adjusted("h200").notes, read_input(kNetwork, "").notes);
}

TEST(Carry, OneOptionMeansTheSameForATraceAndForItsClients) {
  const Trace whole = adjusted("l4");
  const Trace parts = compose({"a=" + kNetwork + ",client=" + whole.clients.front().name}, "l4");
  ASSERT_EQ(parts.kernels.size(), whole.kernels.size());
  for (std::size_t k = 0; k < whole.kernels.size(); ++k)
    EXPECT_EQ(parts.kernels[k].solo_time, whole.kernels[k].solo_time);
  EXPECT_EQ(parts.carried, whole.carried);
}

TEST(Carry, ADescriptionMeasuredOnTheSameCardLeavesTimesAsRecordedAndItIsSaid) {
  const Trace there = adjusted("experiments/calibrations/h200-fifth.json");
  EXPECT_TRUE(as_recorded(there));
  EXPECT_NE(there.notes.front().find("describes such a card"), std::string::npos);
}

TEST(Carry, ADescriptionThatIsOnlyCalledSoIsAnotherCard) {
  const TemporaryFolder folder("carry");
  const std::string file = (folder.path() / "h200.json").string();
  std::ofstream(file) << R"({"corun_gpu": 1, "name": "h200", "extends": "l4"})";
  const Trace there = adjusted(file);
  EXPECT_FALSE(as_recorded(there));
  EXPECT_NE(there.carried.front().find("carried over to h200 (" + file + ")"), std::string::npos) << there.carried.front();
}

TEST(Carry, ATraceThatNamesNoGpuWasRecordedOnTheOneThatIsGiven) {
  Trace trace = read_input(kNetwork, "");
  trace.gpu.clear();
  put_on(trace, kNetwork, "l4");
  EXPECT_TRUE(as_recorded(trace));
  EXPECT_EQ(trace.gpu, "l4");
}

}  // namespace
}  // namespace corun::sim
