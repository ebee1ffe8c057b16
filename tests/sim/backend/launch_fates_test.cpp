// What is kept of a launch while its slot is used, and what is not.
#include "sim/backend/launch_fates.h"

#include <gtest/gtest.h>

#include <memory>

#include "tests/support/build.h"

namespace corun::sim {
namespace {

/// As a session shows it; of a kernel of 12 blocks, or of a copy.
struct Fated {
  const Kernel twelve = kernel(12, 256, us(10));
  LaunchFates fates;

  Fate& renew(LaunchId id, bool of_copy = false, std::uint32_t context = 0, std::uint32_t stream = 0) {
    LaunchView view;
    view.id = id;
    view.kernel = of_copy ? nullptr : &twelve;
    return fates.renew(view, context, stream);
  }
};

TEST(LaunchFates, NothingIsKnownOfALaunchThatWasNotHandedOver) {
  Fated f;
  EXPECT_EQ(f.fates.find({2, 7}), nullptr);
  f.renew({2, 7});
  ASSERT_NE(f.fates.find({2, 7}), nullptr);
  EXPECT_EQ(f.fates.find({2, 8}), nullptr) << "another launch in its slot";
  EXPECT_EQ(f.fates.find({1, 7}), nullptr) << "a slot that nobody has used";
  EXPECT_EQ(f.fates.find({3, 7}), nullptr) << "nor has one come so far";
}

TEST(LaunchFates, ALaunchIsWhereAndWhatItWasHandedOverAs) {
  Fated f;
  const Fate& fate = f.renew({0, 1}, false, 2, 3);
  EXPECT_EQ(fate.kernel, &f.twelve);
  EXPECT_EQ(fate.blocks, 12u);
  EXPECT_EQ(fate.context, 2u);
  EXPECT_EQ(fate.stream, 3u);
  EXPECT_EQ(f.renew({1, 2}, true).kernel, nullptr);
  EXPECT_EQ(f.fates[1].blocks, 0u);
}

TEST(LaunchFates, ALaunchThatComesBackKeepsWhatItHasDoneAndIsFreeOfItsOldOrders) {
  Fated f;
  Fate& first = f.renew({0, 1});
  first.done = 5, first.preemptions = 2;
  first.record = std::make_unique<KernelRecord>();
  first.end = us(9), first.preemption = 4, first.padded = first.was_held = true;
  const Fate& again = f.renew({0, 1}, false, 0, 1);
  EXPECT_EQ(again.done, 5u);
  EXPECT_EQ(again.preemptions, 2u);
  EXPECT_NE(again.record, nullptr);
  EXPECT_EQ(again.stream, 1u);
  EXPECT_EQ(again.end, kNever);
  EXPECT_EQ(again.preemption, Fate::kNone);
  EXPECT_FALSE(again.padded || again.was_held);
}

TEST(LaunchFates, AnotherLaunchInTheSlotAndACopyBeginAnew) {
  for (const bool of_copy : {false, true}) {
    Fated f;
    Fate& first = f.renew({0, 1}, of_copy);
    first.done = 5, first.spreads = true, first.reaches = us(3), first.wait = us(4);
    const Fate& next = f.renew({0, of_copy ? 1u : 2u}, of_copy);
    EXPECT_EQ(next.done, 0u);
    EXPECT_FALSE(next.spreads);
    EXPECT_EQ(next.reaches, us(0));
    EXPECT_EQ(next.wait, us(0));
  }
}

TEST(LaunchFates, ALaunchWhoseSlotIsUsedAgainEndedLongAgo) {
  Fated f;
  f.renew({0, 1});
  EXPECT_EQ(f.fates.ended_at({0, 1}), kNever);
  f.fates[0].end = us(9);
  EXPECT_EQ(f.fates.ended_at({0, 1}), us(9));
  f.renew({0, 2});
  EXPECT_EQ(f.fates.ended_at({0, 1}), us(0));
  EXPECT_EQ(f.fates.ended_at({0, 2}), kNever);
}

}  // namespace
}  // namespace corun::sim
