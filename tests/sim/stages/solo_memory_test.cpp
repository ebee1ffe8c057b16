// What is remembered of a launch that went undisturbed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <set>
#include <stdexcept>

#include "sim/stages/solo_replay.h"
#include "tests/support/launch_fields.h"
#include "tests/support/stages.h"

namespace corun::sim {
namespace {

Launched any_launch() {
  Launched l;
  l.work.record.blocks = l.work.last = 70;
  l.work.block_alone = Time{1000};
  l.work.load.alone_ps = 900;
  l.allowed = mask({0, 1, 2});
  l.demand = {1, 20, 640, 20'000, 20'000};
  return l;
}

std::optional<SoloMemory::Key> key_of(const Launched& l) { return SoloMemory::key_of(l.work, l.allowed, l.demand); }

constexpr UndisturbedRun kRun{Time{0}, Time{50}, Time{100}, Time{60}, 200, 800};

TEST(SoloMemory, KnowsOnlyWhatItHasLearnt) {
  SoloMemory memory;
  const SoloMemory::Key key = *key_of(any_launch());
  EXPECT_EQ(memory.find(key), nullptr);
  memory.learn(key, kRun);
  ASSERT_NE(memory.find(key), nullptr);
  EXPECT_EQ(memory.find(key)->end, Time{100});
  EXPECT_EQ(memory.find(key)->warp_ps, 800);
}

TEST(SoloMemory, TheLatestRunCounts) {
  SoloMemory memory;
  const SoloMemory::Key key = *key_of(any_launch());
  memory.learn(key, kRun);
  UndisturbedRun later = kRun;
  later.end = Time{120};
  memory.learn(key, later);
  EXPECT_EQ(memory.find(key)->end, Time{120});
}

TEST(SoloMemory, ALaunchOfWhichAnyFieldThatDecidesDiffersIsAnother) {
  SoloMemory memory;
  const Launched usual = any_launch();
  memory.learn(*key_of(usual), kRun);
  std::set<std::string> known, unlike_all;
  std::deque<std::vector<Time>> block_times;
  for (std::size_t number = 0;; ++number) {
    Launched other = usual;
    const std::string name = change_field(other, number, AnotherValue{usual, block_times});
    if (name.empty()) break;
    if (name == "blocks") other.work.last = other.work.record.blocks;
    if (name == "first") other.work.next = other.work.done = other.work.first;
    if (const auto key = key_of(other); !key)
      unlike_all.insert(name);
    else if (memory.find(*key) != nullptr)
      known.insert(name);
  }
  EXPECT_THAT(known, testing::ElementsAre("client", "kernel", "level", "request", "tells_last"))
      << "who launches it, and who is told, do not matter";
  EXPECT_THAT(unlike_all, testing::ElementsAre("block_times", "first", "last", "quota"));
}

TEST(SoloMemory, WhatWasOnTheGpuBeforeIsLikeNoOther) {
  Launched l = any_launch();
  l.work.resumed = true;
  EXPECT_FALSE(key_of(l));
}

TEST(SoloMemory, ForgetsAllWhenItHasLearntTooMany) {
  SoloMemory memory;
  SoloMemory::Key key = *key_of(any_launch());
  const SoloMemory::Key first = key;
  const auto learn = [&](int n) {
    for (; n > 0; --n) {
      key.load.memory.uncached_share /= 1 + 1e-4;
      memory.learn(key, kRun);
    }
  };
  memory.learn(first, kRun);
  learn((1 << 14) - 1);
  EXPECT_NE(memory.find(first), nullptr);
  learn(1);
  EXPECT_EQ(memory.find(first), nullptr);
  EXPECT_NE(memory.find(key), nullptr);
}

TEST(SoloMemory, RefusesARunThatEndsBeforeItBegins) {
  SoloMemory memory;
  const SoloMemory::Key key = *key_of(any_launch());
  UndisturbedRun run = kRun;
  run.end = Time{49};
  EXPECT_THROW(memory.learn(key, run), std::logic_error);
  run = kRun;
  run.sm_ps = -1;
  EXPECT_THROW(memory.learn(key, run), std::logic_error);
}

}  // namespace
}  // namespace corun::sim
