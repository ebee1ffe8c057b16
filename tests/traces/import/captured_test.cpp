// Is a recording of `sim capture` read line by line, and a wrong line told by file and number?
#include "traces/import/captured.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "traces/model/error.h"

namespace corun {
namespace {

class Captured : public testing::Test {
 protected:
  Captured() {
    std::string name = (std::filesystem::temp_directory_path() / "corun-XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~Captured() override { std::filesystem::remove_all(folder_); }

  Trace import(const std::string& lines) {
    std::ofstream(folder_ / "7.jsonl") << lines;
    ImportOptions options;
    options.gpu = "h200";
    return import_captured(folder_, options);
  }
  void expect_refused(const std::string& lines, const std::string& place, const std::string& problem) {
    try {
      import(lines);
      FAIL() << "not refused: " << lines;
    } catch (const InputError& error) {
      EXPECT_NE(std::string(error.what()).find("7.jsonl"), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(place), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(problem), std::string::npos) << error.what();
    }
  }

  std::filesystem::path folder_;
};

const std::string kHead = "[\"p\",1,7,\"serve\"]\n[\"d\",0,\"NVIDIA H200\",132]\n[\"n\",0,\"k\"]\n[\"n\",1,\"cudaLaunchKernel_v7000\"]\n";
std::string kernel(int start, int end, int correlation = 5) {
  return fmt::format("[\"k\",0,{},{},0,1,7,{},64,1,1,128,1,1,32,0,0,0,0,0,0,0]\n", start, end, correlation);
}
const std::string kCall = "[\"a\",1,1000,2000,11,5]\n";

TEST_F(Captured, AKernelHasItsShapeAndTime) {
  const Trace trace = import(kHead + kCall + kernel(4000, 9000) + "[\"z\",0]\n");
  ASSERT_EQ(trace.kernels.size(), 1u);
  EXPECT_EQ(trace.kernels.front().grid.x, 64u);
  EXPECT_EQ(trace.kernels.front().solo_time, from_ns(5000));
  EXPECT_EQ(trace.gpu, "h200");
}

TEST_F(Captured, ALineThatIsCutOffAtTheEndIsLeftOut) {
  const Trace trace = import(kHead + kCall + kernel(4000, 9000) + "[\"k\",0,95");
  EXPECT_EQ(trace.kernels.size(), 1u);
  bool said = false;
  for (const std::string& note : trace.notes) said |= note.find("did not end by itself") != std::string::npos;
  EXPECT_TRUE(said);
}

TEST_F(Captured, AWrongLineIsToldByNumber) {
  expect_refused(kHead + kCall + kernel(9000, 4000), "line 6", "field 3 is 4000");
  expect_refused(kHead + "nonsense\n" + kCall, "line 5", "is no record of a capture");
  expect_refused(kHead + "[\"k\",9,1,2,0,1,7,5,64,1,1,128,1,1,32,0,0,0,0,0,0,0]\n", "line 5", "a name that was not given before");
  expect_refused(kHead + "[\"k\",0,1,2,0,1,7,5,0,1,1,128,1,1,32,0,0,0,0,0,0,0]\n", "line 5", "field 8 is 0");
  expect_refused(kHead + "[\"k\",0,1,18446744073709551615,0,1,7,5,1,1,1,128,1,1,32,0,0,0,0,0,0,0]\n", "line 5", "too large");
  expect_refused(kHead + "[\"k\",0,1,2,0,1,7,5,1,1,1,128,9,1,32,0,0,0,0,0,0,0]\n", "line 5", "1152 in all");
  expect_refused(kHead + "[\"k\",0,1,2,0,1,7,5,1,1,1,8,1,65,32,0,0,0,0,0,0,0]\n", "line 5", "field 13 is 65");
  expect_refused(kHead + "[\"k\",0,1,2,0,1,7,5,3,1,1,128,1,1,32,0,0,2,1,1,0,0]\n", "line 5", "do not fill the grid");
  expect_refused(kHead + "[\"c\",9007199254740992,1,2,0,1,7,5,1,1,1]\n", "line 5", "field 1 is 9007199254740992");
  expect_refused(kHead + "[\"k\",0]\n", "line 5", "is no integer");
  expect_refused(kHead + "[\"q\",0]\n", "line 5", "unknown kind");
  expect_refused("[\"p\",2,7,\"serve\"]\n", "line 1", "version 2");
}

TEST_F(Captured, WhyNothingWasRecordedIsSaid) {
  expect_refused("[\"p\",1,7,\"serve\"]\n[\"!\",\"libcupti was not found\"]\n", "", "libcupti was not found");
  EXPECT_THROW(import(kHead + kCall), InputError);
}

}  // namespace
}  // namespace corun
