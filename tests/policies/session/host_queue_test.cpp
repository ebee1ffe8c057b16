// The host's queue without a backend: which held launches go to the device, and which wait.
#include "policies/session/host_queue.h"

#include <gmock/gmock.h>

#include <set>
#include <string>

#include "tests/support/build.h"

namespace corun::sim {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr ClientId kClient{0};

class HostQueueTest : public testing::Test {
 protected:
  HostQueueTest()
      : queue_([this](LaunchId id) { return padding.contains(id.slot); },
               [this](ClientId, std::string name) { handed_over.push_back(std::move(name)); }) {
    for (std::size_t client = 0; client < 2; ++client) queue_.add_client(2);
  }

  static HostLaunch launch(std::uint32_t number, Time solo) {
    return {.id = {number, number + 100}, .solo = solo, .stoppable = true};
  }
  static HostLaunch copy(std::uint32_t number) {
    return {.id = {number, number + 100}, .copy = true, .stoppable = true};
  }
  void hold(HostLaunch launch, std::uint32_t stream = 0, ClientId client = kClient) {
    const std::string name = std::to_string(launch.id.slot);
    queue_.hold(client, StreamId{stream}, std::move(launch), name);
  }
  void over(std::uint32_t number) {
    if (const auto client = queue_.over({number, number + 100})) queue_.hand_over_needed(*client);
  }
  std::vector<std::string> handed() { return std::exchange(handed_over, {}); }

  std::set<std::uint32_t> padding;  // under way, past the queue
  std::vector<std::string> handed_over;
  HostQueue<std::string> queue_;
};

TEST_F(HostQueueTest, ThreeLaunchesOfAStreamAreOnTheDevice) {
  for (std::uint32_t i = 0; i < 5; ++i) hold(launch(i, us(5)));
  EXPECT_THAT(handed(), ElementsAre("0", "1", "2"));
  EXPECT_FALSE(queue_.hand_over_one());
  over(0);
  EXPECT_THAT(handed(), ElementsAre("3"));
}

TEST_F(HostQueueTest, TwoWhereTheSecondHasWorkEnough) {
  for (const auto& [behind, most] : {std::pair(us(25), 2), std::pair(us(25) - Time{1}, 3)}) {
    queue_.clear();
    for (std::uint32_t i = 0; i < 4; ++i) hold(launch(i, i == 0 ? Time{} : behind));
    while (queue_.hand_over_one()) {
    }
    EXPECT_EQ(handed().size(), most) << behind.count();
  }
}

TEST_F(HostQueueTest, WhatTheGpuHasNoNeedOfYetWaitsUntilNothingElseIsToBeDone) {
  hold(launch(0, us(25)));
  hold(launch(1, us(25)));
  EXPECT_THAT(handed(), ElementsAre("0"));
  EXPECT_TRUE(queue_.hand_over_one());
  EXPECT_THAT(handed(), ElementsAre("1"));
  EXPECT_FALSE(queue_.hand_over_one());
}

TEST_F(HostQueueTest, ACopyIsAloneOnTheDevice) {
  hold(launch(0, us(5)));
  hold(copy(1));
  hold(launch(2, us(5)));
  EXPECT_THAT(handed(), ElementsAre("0"));
  over(0);
  EXPECT_THAT(handed(), ElementsAre("1"));
  over(1);
  EXPECT_THAT(handed(), ElementsAre("2"));
}

TEST_F(HostQueueTest, WhatFollowsALaunchThatMayBeStoppedWaitsForItsEnd) {
  hold(launch(0, us(5)));
  HostLaunch next = launch(1, us(5));
  next.follows = {{0, 100}};
  hold(next, 1);
  EXPECT_THAT(handed(), ElementsAre("0"));
  over(0);
  EXPECT_THAT(handed(), ElementsAre("1"));
}

TEST_F(HostQueueTest, WhatFollowsOneThatMayNotBeStoppedGoesAsSoonAsThatIsHandedOver) {
  HostLaunch growing = launch(0, us(5)), plain = launch(1, us(5)), next = launch(2, us(5));
  growing.stoppable = plain.stoppable = next.stoppable = false;
  growing.grows = true;
  next.follows = {{1, 101}};
  hold(growing);
  hold(plain);
  hold(next, 1);
  EXPECT_THAT(handed(), ElementsAre("0"));
  over(0);
  EXPECT_THAT(handed(), ElementsAre("1", "2"));
}

TEST_F(HostQueueTest, WhatIsBehindALaunchThatMayGrowWaitsForItsEnd) {
  HostLaunch growing = launch(0, us(5));
  growing.grows = true;
  hold(growing);
  hold(launch(1, us(5)));
  EXPECT_THAT(handed(), ElementsAre("0"));
  EXPECT_FALSE(queue_.hand_over_one());
  over(0);
  EXPECT_THAT(handed(), ElementsAre("1"));
}

TEST_F(HostQueueTest, WhatFollowsAPaddingWaitsForItsEnd) {
  padding = {7};
  HostLaunch next = launch(1, us(5));
  next.follows = {{7, 107}};
  hold(next);
  EXPECT_THAT(handed(), IsEmpty());
  padding.clear();
  EXPECT_FALSE(queue_.over({7, 107}));
  queue_.hand_over_needed(kClient);
  EXPECT_THAT(handed(), ElementsAre("1"));
}

TEST_F(HostQueueTest, LaunchesThatMayNotBeStoppedGoAtOnce) {
  for (std::uint32_t i = 0; i < 5; ++i) {
    HostLaunch plain = launch(i, us(100));
    plain.stoppable = false;
    hold(plain);
  }
  EXPECT_EQ(handed().size(), 5u);
}

TEST_F(HostQueueTest, OnlyWhatIsHeldCanBeTakenBackAndItMayComeAgain) {
  for (std::uint32_t i = 0; i < 4; ++i) hold(launch(i, us(5)));
  EXPECT_FALSE(queue_.take_back({0, 100}));
  EXPECT_TRUE(queue_.take_back({3, 103}));
  EXPECT_FALSE(queue_.take_back({3, 103}));
  for (std::uint32_t i = 0; i < 3; ++i) over(i);
  EXPECT_THAT(handed(), ElementsAre("0", "1", "2"));
  hold(launch(3, us(5)));
  EXPECT_THAT(handed(), ElementsAre("3"));
}

TEST_F(HostQueueTest, AnotherLaunchInTheSameSlotIsAnotherLaunch) {
  hold(launch(0, us(5)));
  over(0);
  HostLaunch later = launch(0, us(5));
  later.id.serial = 200;
  hold(later);
  EXPECT_FALSE(queue_.over({0, 100}));
  EXPECT_EQ(queue_.over({0, 200}), kClient);
}

TEST_F(HostQueueTest, StreamsAndClientsDoNotWaitForEachOther) {
  for (std::uint32_t i = 0; i < 4; ++i) hold(launch(i, us(5)));
  hold(launch(4, us(5)), 1);
  hold(launch(5, us(5)), 0, ClientId{1});
  EXPECT_THAT(handed(), ElementsAre("0", "1", "2", "4", "5"));
}

}  // namespace
}  // namespace corun::sim
