// Which launch of which channel may go on to the GPU, and when?
#include "sim/stages/host.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/build.h"

namespace corun::sim {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Submission submission(std::uint32_t stream, std::uint32_t serial, Time reaches = {}, Time gap = {}) {
  Submission s;
  s.launch = {serial, serial};
  s.stream = stream;
  s.reaches_gpu = reaches, s.gap = gap;
  return s;
}

/// Of the head of the channel, where no launch of another stream has ended.
Time ready(const Host& host, std::uint32_t channel) {
  return host.ready_at(channel, [](LaunchId) { return kNever; });
}

/// The serial of the head, which goes on.
std::uint32_t go_on(Host& host, std::uint32_t channel) {
  const std::uint32_t serial = host.take(channel).launch.serial;
  host.drop(channel);
  return serial;
}

TEST(HostChannels, AnEmptyStreamTakesAnIdleChannelElseTheNextInTurn) {
  Gpu gpu = small_gpu(1);
  gpu.host_channels = 3;
  Host host(gpu, 6);
  for (const std::uint32_t stream : {0, 1, 2}) EXPECT_EQ(host.accept(submission(stream, stream)), stream);
  go_on(host, 1);
  host.ended(1, us(1), {});
  EXPECT_EQ(host.accept(submission(3, 3)), 1u) << "the idle one, though it is the turn of channel 0";
  EXPECT_EQ(host.accept(submission(4, 4)), 2u) << "none is idle";
  EXPECT_EQ(host.accept(submission(5, 5)), 0u);
  EXPECT_EQ(host.accept(submission(4, 6)), 2u) << "its stream is not empty";
}

TEST(HostChannels, EachGroupOfStreamsHasChannelsOfItsOwn) {
  const Gpu gpu = small_gpu(1);
  Host host(gpu, 2, {0, 1, 1, 1, 0});
  ASSERT_EQ(host.channels(), 4u);
  std::vector<std::uint32_t> channels;
  for (std::uint32_t stream = 0; stream < 5; ++stream)
    channels.push_back(host.accept(submission(stream, stream)));
  EXPECT_THAT(channels, ElementsAre(0, 2, 3, 2, 1));
}

TEST(HostChannels, WhatWaitsForItsStreamHoldsUpOtherStreamsBehindIt) {
  Gpu gpu = small_gpu(1);
  gpu.host_channels = 1;
  Host host(gpu, 2);
  host.accept(submission(0, 10));
  host.accept(submission(0, 11, us(1), us(3)));
  host.accept(submission(1, 12, us(2)));
  EXPECT_EQ(go_on(host, 0), 10u);
  EXPECT_EQ(ready(host, 0), kNever) << "its predecessor has not ended";
  host.ended(0, us(20), us(4));
  EXPECT_EQ(ready(host, 0), us(27)) << "the end, 4 late, and the gap";
  EXPECT_EQ(go_on(host, 0), 11u);
  EXPECT_EQ(ready(host, 0), us(2));
}

TEST(HostChannels, AHeadGoesOneGapAfterItsEventsButNotBeforeItReachesTheGpu) {
  const Gpu gpu = small_gpu(1);
  for (const Time reaches : {us(12) - ps(1), us(12), us(12) + ps(1)}) {
    Host host(gpu, 1);
    Submission s = submission(0, 1, reaches, us(2));
    s.follows = {{7, 7}, {8, 8}};
    host.accept(std::move(s));
    EXPECT_EQ(ready(host, 0), kNever);
    EXPECT_EQ(host.ready_at(0, [](LaunchId l) { return l.serial == 7 ? us(10) : us(9); }),
              std::max(us(12), reaches));
    EXPECT_EQ(host.ready_at(0, [](LaunchId l) { return l.serial == 7 ? us(10) : kNever; }), kNever);
  }
}

TEST(HostChannels, AChannelRefusesMoreThanItHolds) {
  Gpu gpu = small_gpu(1);
  gpu.host_channels = 1, gpu.channel_depth = 2;
  Host host(gpu, 2);
  host.accept(submission(0, 0));
  EXPECT_FALSE(host.full(0));
  host.accept(submission(1, 1));
  EXPECT_TRUE(host.full(0));
  EXPECT_TRUE(host.full(1)) << "whichever stream has filled it";
  go_on(host, 0);
  EXPECT_FALSE(host.full(0));
}

TEST(HostChannels, OfWhatIsEvictedThatVanishesWhichHasNotReachedTheGpu) {
  for (const bool mark : {false, true}) {
    const Gpu gpu = small_gpu(1);
    Host host(gpu, 1);
    host.accept(submission(0, 0, us(5), us(3)));
    host.accept(submission(0, 1, us(5) + ps(1)));
    host.accept(submission(0, 2, us(9)));
    std::vector<LaunchId> vanished;
    host.evict({{0, 0}, {1, 1}}, us(5), mark, vanished);
    ASSERT_THAT(vanished, ElementsAre(LaunchId{1, 1}));
    EXPECT_EQ(host.take(0).evicted, mark);
    host.drop(0);
    host.ended(0, us(6), {});
    EXPECT_EQ(go_on(host, 0), 2u) << "which nobody ordered off";
  }
}

TEST(HostChannels, WhatPassesTheGpuEvictedWaitsForNoEventAndNoGap) {
  const Gpu gpu = small_gpu(1);
  Host host(gpu, 1);
  Submission s = submission(0, 0, us(5), us(3));
  s.follows = {{7, 7}};
  host.accept(std::move(s));
  std::vector<LaunchId> vanished;
  host.evict({{0, 0}}, us(5), true, vanished);
  EXPECT_THAT(vanished, IsEmpty());
  EXPECT_EQ(ready(host, 0), us(5));
}

TEST(HostChannels, AClosedHostKeepsWhatHadNotReachedTheGpuUntilItIsOpened) {
  for (const Time reaches : {us(5), us(5) + ps(1)}) {
    const bool read = reaches == us(5);
    const Gpu gpu = small_gpu(1);
    Host host(gpu, 2);
    const std::uint32_t first = host.accept(submission(0, 0, reaches));
    host.close(us(5));
    const std::uint32_t later = host.accept(submission(1, 1, us(4)));
    EXPECT_EQ(ready(host, first) != kNever, read);
    EXPECT_EQ(ready(host, later), kNever) << "it came after that";
    EXPECT_EQ(host.has_work(us(6)), read);
    host.open();
    EXPECT_EQ(ready(host, first), reaches);
    EXPECT_EQ(ready(host, later), us(4));
  }
}

TEST(HostChannels, AreReadWholeWhereAllIsReadAheadAndNoMoreThanTheFrontEndReads) {
  const auto read_whole = [](std::uint32_t most, std::uint32_t launches, bool ahead) {
    Gpu gpu = small_gpu(1);
    gpu.read_ahead_launches = most;
    Host host(gpu, 2);
    for (std::uint32_t i = 0; i < launches; ++i) {
      Submission s = submission(i % 2, i);
      s.ahead = ahead || i % 2 == 0;
      host.accept(std::move(s));
    }
    return host.read_whole();
  };
  EXPECT_TRUE(read_whole(3, 3, true));
  EXPECT_FALSE(read_whole(3, 4, true));
  EXPECT_FALSE(read_whole(3, 3, false)) << "one stream is not";
  EXPECT_FALSE(read_whole(0, 0, true)) << "a GPU that reads none ahead";
}

}  // namespace
}  // namespace corun::sim
