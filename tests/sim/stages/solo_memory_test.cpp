// What is remembered of a launch that went undisturbed.
#include <gtest/gtest.h>

#include <stdexcept>

#include "sim/stages/solo_replay.h"

namespace corun::sim {
namespace {

Work work_of(std::uint32_t kernel) {
  Work work;
  work.record.kernel = KernelId{kernel};
  work.record.blocks = 10;
  work.block_alone = Time{1000};
  work.load.alone_ps = 900;
  return work;
}

SmMask two() {
  SmMask mask;
  mask.set(0), mask.set(1);
  return mask;
}

constexpr UndisturbedRun kRun{Time{0}, Time{50}, Time{100}, Time{60}, 200, 800};

TEST(SoloMemory, KnowsOnlyWhatItHasLearnt) {
  SoloMemory memory;
  const SoloMemory::Key key = SoloMemory::key_of(work_of(1), two());
  EXPECT_EQ(memory.find(key), nullptr);
  memory.learn(key, kRun);
  ASSERT_NE(memory.find(key), nullptr);
  EXPECT_EQ(memory.find(key)->end, Time{100});
  EXPECT_EQ(memory.find(key)->warp_ps, 800);
}

TEST(SoloMemory, TheLatestRunCounts) {
  SoloMemory memory;
  const SoloMemory::Key key = SoloMemory::key_of(work_of(1), two());
  memory.learn(key, kRun);
  UndisturbedRun later = kRun;
  later.end = Time{120};
  memory.learn(key, later);
  EXPECT_EQ(memory.find(key)->end, Time{120});
}

TEST(SoloMemory, WhatMayGoOtherwiseIsAnother) {
  SoloMemory memory;
  const Work work = work_of(1);
  memory.learn(SoloMemory::key_of(work, two()), kRun);
  EXPECT_EQ(memory.find(SoloMemory::key_of(work_of(2), two())), nullptr);
  SmMask one;
  one.set(0);
  EXPECT_EQ(memory.find(SoloMemory::key_of(work, one)), nullptr);
  Work other = work;
  other.ctas = 2;
  EXPECT_EQ(memory.find(SoloMemory::key_of(other, two())), nullptr);
  other = work;
  other.block_alone += Time{1};
  EXPECT_EQ(memory.find(SoloMemory::key_of(other, two())), nullptr);
  other = work;
  other.load.alone_ps += 1;
  EXPECT_EQ(memory.find(SoloMemory::key_of(other, two())), nullptr);
  other = work;
  other.record.launch = {7, 7}, other.record.client = ClientId{3};
  EXPECT_NE(memory.find(SoloMemory::key_of(other, two())), nullptr) << "who launches it does not matter";
}

TEST(SoloMemory, RefusesARunThatEndsBeforeItBegins) {
  SoloMemory memory;
  const SoloMemory::Key key = SoloMemory::key_of(work_of(1), two());
  UndisturbedRun run = kRun;
  run.end = Time{49};
  EXPECT_THROW(memory.learn(key, run), std::logic_error);
  run = kRun;
  run.sm_ps = -1;
  EXPECT_THROW(memory.learn(key, run), std::logic_error);
}

}  // namespace
}  // namespace corun::sim
