// Which instances can a GPU be divided into, and what is an instance as a GPU?
#include "traces/model/mig.h"

#include <gtest/gtest.h>

#include "traces/json/mig_json.h"
#include "traces/json/trace_json.h"

namespace corun {
namespace {

class Mig : public testing::Test {
 protected:
  bool places(const std::vector<std::string>& names) const {
    std::vector<const MigProfile*> profiles;
    for (const std::string& name : names) profiles.push_back(geometry_.find(name));
    return geometry_.places(profiles);
  }
  const Gpu gpu_ = read_gpu("h200");
  const MigGeometry geometry_ = *mig_geometry(gpu_);
};

/// The tables of the MIG User Guide: a four- and a three-slice instance, seven small ones, never two of four.
TEST_F(Mig, InstancesAreThereAtOnceAsTheGuidesTablesHaveThem) {
  EXPECT_TRUE(places({"3g.71gb", "4g.71gb"}));
  EXPECT_TRUE(places({"3g.71gb", "3g.71gb"}));
  EXPECT_FALSE(places({"4g.71gb", "4g.71gb"}));
  EXPECT_TRUE(places(std::vector<std::string>(7, "1g.18gb")));
  EXPECT_FALSE(places(std::vector<std::string>(8, "1g.18gb")));
  EXPECT_TRUE(places(std::vector<std::string>(4, "1g.35gb")));
  EXPECT_TRUE(places(std::vector<std::string>(3, "2g.35gb")));
  EXPECT_FALSE(places(std::vector<std::string>(4, "2g.35gb")));
  EXPECT_TRUE(places({"7g.141gb"}));
  EXPECT_FALSE(places({"7g.141gb", "1g.18gb"}));
}

TEST_F(Mig, TheOrderInWhichTheyAreNamedDoesNotMatter) {
  EXPECT_TRUE(places({"1g.18gb", "2g.35gb", "4g.71gb"}));
  EXPECT_TRUE(places({"4g.71gb", "2g.35gb", "1g.18gb"}));
}

TEST_F(Mig, AnInstanceHasItsShareOfMemory) {
  const Gpu part = instance_of(gpu_, geometry_, *geometry_.find("4g.71gb"));
  EXPECT_EQ(part.sms, 64u);
  EXPECT_EQ(part.placement_order.size(), 64u);
  EXPECT_EQ(part.memory_bytes, 74625056768u);
  EXPECT_DOUBLE_EQ(part.contention.dram_read_bytes_per_second,
                   gpu_.contention.dram_read_bytes_per_second / 2);
  EXPECT_EQ(part.l2_bytes, gpu_.l2_bytes / 2);
  EXPECT_EQ(part.launch_latency, gpu_.launch_latency);
}

/// What device properties say in instances of an A100 80GB (NJIT, "MIG Profile Comparison"): SMs, bits of the memory
/// bus, MB of L2, copy engines.
TEST_F(Mig, AnA100sInstancesAreWhatTheirProgramsAreTold) {
  struct Told {
    const char* profile;
    std::uint32_t sms, bus, l2_mb, copy_engines;
  };
  const Gpu whole = read_gpu("a100-80gb");
  const MigGeometry geometry = *mig_geometry(whole);
  for (const Told& told :
       {Told{"1g.10gb", 14, 640, 5, 1}, Told{"2g.20gb", 28, 1280, 10, 2}, Told{"3g.40gb", 42, 2560, 20, 3}}) {
    const Gpu part = instance_of(whole, geometry, *geometry.find(told.profile));
    EXPECT_EQ(part.sms, told.sms);
    EXPECT_DOUBLE_EQ(part.dram_bytes_per_second, whole.dram_bytes_per_second * told.bus / 5120);
    EXPECT_EQ(part.l2_bytes, told.l2_mb << 20);
    EXPECT_EQ(part.copy_engines, told.copy_engines);
  }
}

TEST_F(Mig, AnA30HasFourSlices) {
  const MigGeometry geometry = *mig_geometry(read_gpu("a30"));
  const MigProfile *one = geometry.find("1g.6gb"), *two = geometry.find("2g.12gb");
  EXPECT_TRUE(geometry.places(std::vector<const MigProfile*>(4, one)));
  EXPECT_FALSE(geometry.places(std::vector<const MigProfile*>(5, one)));
  EXPECT_TRUE(geometry.places(std::vector{two, one, one}));
  EXPECT_FALSE(geometry.places(std::vector{two, two, one}));
}

TEST_F(Mig, NoInstanceHasMoreMemoryThanItsCard) {
  for (const std::string& name : gpus_with_mig()) {
    const Gpu gpu = read_gpu(name);
    const MigGeometry geometry = *mig_geometry(gpu);
    for (const MigProfile& p : geometry.profiles)
      EXPECT_LE(instance_of(gpu, geometry, p).memory_bytes, gpu.memory_bytes) << name << " " << p.name;
  }
}

TEST_F(Mig, EveryDescribedGeometryHasInstancesThatFit) {
  for (const std::string& name : gpus_with_mig()) {
    Gpu gpu;
    gpu.name = name;
    const MigGeometry geometry = *mig_geometry(gpu);
    for (const MigProfile& p : geometry.profiles) {
      const MigProfile* one[] = {&p};
      EXPECT_TRUE(geometry.places(one)) << name << " " << p.name;
    }
    EXPECT_EQ(geometry.profiles.back().memory_slices, geometry.memory_slices) << name;
  }
}

TEST_F(Mig, AGpuThatIsNotDescribedHasNone) { EXPECT_FALSE(mig_geometry(read_gpu("v100"))); }

TEST_F(Mig, ACalibratedCardIsFoundByItsProduct) {
  Gpu mine = gpu_;
  mine.name = "my-gpu";
  EXPECT_TRUE(mig_geometry(mine));
}

}  // namespace
}  // namespace corun
