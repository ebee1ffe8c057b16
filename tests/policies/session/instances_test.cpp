// What are the instances that a GPU is divided into, and which divisions are refused?
#include "policies/session/instances.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/build.h"
#include "traces/json/trace_json.h"
#include "traces/model/error.h"

namespace corun::sim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<Instance> under_fcfs(const std::vector<std::string>& profiles) {
  std::vector<Instance> wanted;
  for (const std::string& profile : profiles) wanted.push_back({profile, "fcfs", {}});
  return wanted;
}

class InstancesOfAnH200 : public testing::Test {
 protected:
  std::vector<std::uint32_t> make(const std::vector<std::string>& profiles) {
    std::vector<std::uint32_t> sms;
    for (const Gpu& gpu : instances_of(whole_, under_fcfs(profiles))) sms.push_back(gpu.sms);
    return sms;
  }
  /// Empty: none.
  std::string problem_with(const std::vector<std::string>& profiles) {
    try {
      make(profiles);
    } catch (const InputError& e) {
      return e.problem() + "; " + e.remedy();
    }
    return "";
  }
  const Gpu whole_ = read_gpu("h200");
};

TEST_F(InstancesOfAnH200, HaveTheSmsAndTheShareOfMemoryThatTheirProfilesSay) {
  EXPECT_THAT(make({"3g.71gb", "2g.35gb", "2g.35gb"}), ElementsAre(60, 32, 32));
  const auto share = [&](const char* profile) {
    return instances_of(whole_, under_fcfs({profile})).front().contention.dram_read_bytes_per_second /
           whole_.contention.dram_read_bytes_per_second;
  };
  EXPECT_DOUBLE_EQ(share("3g.71gb"), 4.0 / 8);
  EXPECT_DOUBLE_EQ(share("2g.35gb"), 2.0 / 8);
}

TEST_F(InstancesOfAnH200, AreRefusedWhereTheyWouldOverlap) {
  EXPECT_EQ(make(std::vector<std::string>(7, "1g.18gb")).size(), 7u);
  EXPECT_THAT(problem_with(std::vector<std::string>(8, "1g.18gb")),
              HasSubstr("h200 cannot be divided into 1g.18gb and"));
  EXPECT_EQ(problem_with({"4g.71gb", "3g.71gb"}), "");
  EXPECT_THAT(
      problem_with({"4g.71gb", "4g.71gb"}),
      HasSubstr("3g.71gb (4 of 8 memory slices, from 0 or 4), 4g.71gb (4 of 8 memory slices, from 0)"));
}

TEST_F(InstancesOfAnH200, OfAProfileThatItDoesNotHaveAreRefusedWithTheOnesThatItHas) {
  EXPECT_THAT(problem_with({"3g.71gc"}), testing::AllOf(HasSubstr("no MIG profile '3g.71gc'"),
                                                        HasSubstr("'3g.71gb'"), HasSubstr("'7g.141gb'")));
}

TEST(Instances, OfAGpuWhoseDivisionNobodyKnowsAreRefused) {
  EXPECT_THROW((void)instances_of(small_gpu(4), under_fcfs({"3g.71gb"})), InputError);
}

}  // namespace
}  // namespace corun::sim
