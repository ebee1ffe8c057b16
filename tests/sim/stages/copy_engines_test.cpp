// When does a copy have its engine, and for how long?
#include "sim/stages/copy_engines.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "tests/support/build.h"

namespace corun::sim {
namespace {

/// The GPU of small_gpu(): 10 bytes a nanosecond to and from the device, 500 within it, as each is read and
/// written.
struct Copying {
  Gpu gpu = small_gpu(1);
  CopyEngines engines{gpu};

  CopyEngines::Slot accept(CopyDirection direction, std::uint64_t bytes, Time now = {}) {
    return engines.accept({direction, bytes}, now);
  }
};

constexpr CopyDirection kTo = CopyDirection::host_to_device, kFrom = CopyDirection::device_to_host,
                        kWithin = CopyDirection::device_to_device;

TEST(CopyEngines, ACopyWaitsForThoseBeforeItInItsDirection) {
  for (const Time second : {us(1) - ps(1), us(1), us(1) + ps(1)}) {
    Copying c;
    const CopyEngines::Slot first = c.accept(kTo, 10'000);
    EXPECT_EQ(first.start, us(0));
    EXPECT_EQ(first.end, us(1));
    const CopyEngines::Slot next = c.accept(kTo, 20'000, second);
    EXPECT_EQ(next.start, std::max(us(1), second));
    EXPECT_EQ(next.end, next.start + us(2));
  }
}

TEST(CopyEngines, DirectionsDoNotWaitForEachOther) {
  Copying c;
  std::set<std::uint32_t> engines;
  for (const CopyDirection direction : {kTo, kFrom, kWithin}) {
    const CopyEngines::Slot slot = c.accept(direction, 1'000'000);
    EXPECT_EQ(slot.start, us(0));
    engines.insert(slot.engine);
  }
  EXPECT_EQ(engines.size(), 3u);
}

TEST(CopyEngines, DirectionsBeyondTheEnginesThatThereAreShareTheLast) {
  const auto starts = [](std::uint32_t engines) {
    Copying c;
    c.gpu.copy_engines = engines;
    std::vector<Time> at;
    for (const CopyDirection direction : {kTo, kFrom, kWithin})
      at.push_back(c.accept(direction, 10'000).start);
    return at;
  };
  EXPECT_EQ(starts(3), (std::vector{us(0), us(0), us(0)}));
  EXPECT_EQ(starts(2), (std::vector{us(0), us(0), us(1)}));
  EXPECT_EQ(starts(1), (std::vector{us(0), us(1), us(2)}));
  EXPECT_EQ(starts(0), starts(1)) << "a description that knows of none";
}

TEST(CopyEngines, ACopyWithinTheDeviceTakesMoreByAKernelFromItsSizeOn) {
  const auto took = [](std::uint64_t bytes) {
    Copying c;
    c.gpu.device_copy = us(3), c.gpu.copy_kernel = us(5), c.gpu.copy_kernel_bytes = 50'000;
    return c.accept(kWithin, bytes).end;
  };
  EXPECT_EQ(took(0), us(3));
  EXPECT_EQ(took(49'999), us(3) + ps(99'998));
  EXPECT_EQ(took(50'000), us(5) + ns(100));
}

TEST(CopyEngines, ACopyToOrFromTheDeviceTakesItsBytesAlone) {
  Copying c;
  c.gpu.device_copy = us(3), c.gpu.copy_kernel = us(5);
  EXPECT_EQ(c.accept(kTo, 500).end, ns(50));
  EXPECT_EQ(c.accept(kFrom, 500).end, ns(50));
}

}  // namespace
}  // namespace corun::sim
