// What are the instances that a GPU is divided into, and which divisions are refused?
#include "sim/run/instances.h"

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
using testing::IsEmpty;

std::vector<Instance> instances_of(const std::vector<std::string>& profiles) {
  std::vector<Instance> wanted;
  for (const std::string& profile : profiles) wanted.push_back({profile, "fcfs", {}});
  return wanted;
}

class InstancesOfAnH200 : public testing::Test {
 protected:
  std::vector<std::uint32_t> make(const std::vector<std::string>& profiles) {
    return instances_.make(instances_of(profiles));
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
  Instances instances_{whole_};
};

TEST_F(InstancesOfAnH200, HaveTheSmsAndTheShareOfMemoryThatTheirProfilesSay) {
  EXPECT_THAT(make({"3g.71gb", "2g.35gb", "2g.35gb"}), ElementsAre(60, 32, 32));
  EXPECT_EQ(instances_.gpu("3g.71gb").sms, 60u);
  const auto share = [&](const char* profile) {
    return instances_.gpu(profile).contention.dram_read_bytes_per_second /
           whole_.contention.dram_read_bytes_per_second;
  };
  EXPECT_DOUBLE_EQ(share("3g.71gb"), 4.0 / 8);
  EXPECT_DOUBLE_EQ(share("2g.35gb"), 2.0 / 8);
}

TEST_F(InstancesOfAnH200, AreMadeOnceAProfile) {
  make({"3g.71gb"});
  const Gpu* const gpu = &instances_.gpu("3g.71gb");
  Common* const common = &instances_.common("3g.71gb");
  make({"3g.71gb", "3g.71gb"});
  EXPECT_EQ(&instances_.gpu("3g.71gb"), gpu);
  EXPECT_EQ(&instances_.common("3g.71gb"), common);
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

TEST_F(InstancesOfAnH200, AreToldWithTheirPoliciesOnceTheyAreMade) {
  EXPECT_THAT(instances_.notes(), IsEmpty());
  problem_with({"4g.71gb", "4g.71gb"});
  EXPECT_THAT(instances_.notes(), IsEmpty()) << "nothing was made";
  instances_.make({{"1g.18gb", "timeslice", {}}, {"3g.71gb", "mps", {}}});
  ASSERT_EQ(instances_.notes().size(), 2u);
  EXPECT_EQ(instances_.notes()[0],
            "instances: 1g.18gb (16 SMs, 16 GiB, 0.58 TB/s) under timeslice, 3g.71gb (60 SMs, 70 GiB, 2.3 "
            "TB/s) under mps");
}

TEST(Instances, OfAGpuWhoseDivisionNobodyKnowsAreRefused) {
  const Gpu gpu = small_gpu(4);
  Instances instances(gpu);
  EXPECT_THROW(instances.make(instances_of({"3g.71gb"})), InputError);
}

}  // namespace
}  // namespace corun::sim
