// Which host threads have a core, and until when?
#include "policies/session/cores.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace corun {
namespace {

constexpr Time millis(std::int64_t n) { return Time{n * 1'000'000'000}; }

/// Clients that may use cores by number; slices of 4 ms.
Trace sharing(const std::vector<std::vector<std::uint32_t>>& cpus) {
  Trace trace;
  for (const auto& its : cpus) {
    Client& client = trace.clients.emplace_back();
    client.cpus.emplace();
    for (const std::uint32_t cpu : its) client.cpus->set(cpu);
  }
  return trace;
}

class SharedCores : public testing::Test {
 protected:
  static ClientId at(std::uint32_t i) { return ClientId{i}; }
  /// Goes on until then; which clients run.
  std::vector<std::uint32_t> at_time(Cores& cores, Time until) {
    while (cores.turn()) {
    }
    for (Time now = std::min(cores.next(), until);; now = std::min(cores.next(), until)) {
      cores.advance(now);
      while (cores.turn()) {
      }
      if (now == until) break;
    }
    std::vector<std::uint32_t> running;
    for (std::uint32_t i = 0; i < count_; ++i)
      if (cores.runs(at(i))) running.push_back(i);
    return running;
  }
  /// Ends of `work` begun by all at 0; each sleeps when it has done it.
  std::vector<Time> ends(Cores& cores, const std::vector<Time>& work) {
    count_ = static_cast<std::uint32_t>(work.size());
    std::vector<Time> end(work.size(), kNever);
    for (std::uint32_t i = 0; i < count_; ++i) cores.work(at(i), Time{}, work[i]);
    for (Time now{}; now != kNever; now = cores.next()) {
      cores.advance(now);
      do
        for (std::uint32_t i = 0; i < count_; ++i)
          if (cores.ready(at(i)) && end[i] == kNever) end[i] = now, cores.sleep(at(i));
      while (cores.turn());
    }
    return end;
  }
  std::uint32_t count_ = 0;
};

using Ends = std::vector<Time>;

TEST_F(SharedCores, AThreadAloneWorksWithoutInterruption) {
  Cores cores(sharing({{0}}));
  EXPECT_EQ(ends(cores, {millis(100)}), (Ends{millis(100)}));
}

TEST_F(SharedCores, TwoThreadsOfOneCoreTakeTurnsOfASlice) {
  Cores cores(sharing({{3}, {3}}));
  EXPECT_EQ(ends(cores, {millis(6), millis(5)}), (Ends{millis(10), millis(11)})) << "0 to 4, 8 to 10; 4 to 8, 10 to 11";
}

TEST_F(SharedCores, AsManyThreadsAsCoresDoNotMeet) {
  Cores cores(sharing({{0, 1, 2}, {0, 1, 2}, {0, 1, 2}}));
  EXPECT_EQ(ends(cores, {millis(9), millis(10), millis(11)}), (Ends{millis(9), millis(10), millis(11)}));
}

TEST_F(SharedCores, ThreeThreadsOfTwoCoresGetTwoThirdsOfOneEach) {
  Cores cores(sharing({{0, 1}, {0, 1}, {0, 1}}));
  const Ends all = ends(cores, {millis(80), millis(80), millis(80)});
  for (const Time end : all) EXPECT_NEAR(to_ms(end), 120, 4);
}

TEST_F(SharedCores, AThreadOnlyTakesCoresThatItMayRunOn) {
  Cores cores(sharing({{0}, {0}, {1}}));
  EXPECT_EQ(ends(cores, {millis(8), millis(8), millis(20)}), (Ends{millis(12), millis(16), millis(20)})) << "core 1 is of no use to the first two";
}

TEST_F(SharedCores, AThreadThatSpinsKeepsItsCoreForItsSlice) {
  Cores cores(sharing({{0}, {0}}));
  count_ = 2;
  cores.work(at(0), Time{}, millis(1));
  EXPECT_EQ(at_time(cores, millis(2)), (std::vector{0u})) << "it is ready, and spins";
  cores.work(at(1), millis(2), millis(10));
  EXPECT_EQ(at_time(cores, millis(4) - Time{1}), (std::vector{0u}));
  EXPECT_EQ(at_time(cores, millis(4)), (std::vector{1u}));
  EXPECT_EQ(at_time(cores, millis(8)), (std::vector{0u}));
}

TEST_F(SharedCores, AThreadThatSleepsGivesItsCoreUpAtOnce) {
  Cores cores(sharing({{0}, {0}}));
  count_ = 2;
  cores.work(at(0), Time{}, millis(1));
  EXPECT_EQ(at_time(cores, millis(1)), (std::vector{0u}));
  cores.work(at(1), millis(1), millis(10));
  cores.sleep(at(0));
  EXPECT_EQ(at_time(cores, millis(1)), (std::vector{1u}));
  EXPECT_TRUE(cores.sleeps(at(0)));
  cores.work(at(0), millis(2), Time{});
  EXPECT_EQ(at_time(cores, millis(5)), (std::vector{0u})) << "the other's slice began at 1 ms";
}

TEST_F(SharedCores, NoCoreIsIdleWhileAThreadThatMayRunThereWaits) {
  Cores cores(sharing({{0, 1, 2, 3}, {1}, {1, 2}, {0}, {2, 3}}));
  count_ = 5;
  for (std::uint32_t i = 0; i < count_; ++i) cores.work(at(i), Time{}, millis(7 + 5 * i));
  for (std::int64_t now = 0; now < 20; ++now) EXPECT_EQ(at_time(cores, millis(now)).size(), 4u) << now;
}

TEST_F(SharedCores, NoWorkIsLostOrDoneTwice) {
  Cores cores(sharing({{5}, {5}, {5}, {5}}));
  const std::vector<Time> work{millis(13), millis(9), millis(21), millis(17)};
  const Ends all = ends(cores, work);
  EXPECT_EQ(*std::ranges::max_element(all), std::accumulate(work.begin(), work.end(), Time{})) << "of a core that is never idle";
}

}  // namespace
}  // namespace corun
