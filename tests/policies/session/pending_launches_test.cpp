// Launches that wait for the policy are listed in the order of readiness, all of them and by stream.
#include "policies/session/pending_launches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "tests/support/random_trace.h"

namespace corun {
namespace {

LaunchView launch(std::uint32_t serial, std::uint32_t client, std::uint32_t stream) {
  LaunchView l;
  l.id = {serial % 64, serial};
  l.client = {client}, l.stream = {stream};
  return l;
}

/// Two clients, of two streams and of one.
PendingLaunches lists() {
  PendingLaunches pending;
  pending.add_stream({0}, {0});
  pending.add_stream({0}, {1});
  pending.add_stream({1}, {0});
  return pending;
}

std::vector<std::uint32_t> serials(std::span<const LaunchId> ids) {
  std::vector<std::uint32_t> all;
  for (const LaunchId id : ids) all.push_back(id.serial);
  return all;
}

TEST(PendingLaunches, AreInTheOrderOfTheirSerialsWheneverTheyCome) {
  PendingLaunches pending = lists();
  for (const std::uint32_t serial : {5u, 1u, 9u, 3u}) pending.insert(launch(serial, 0, serial == 3));
  EXPECT_EQ(serials(pending.all()), (std::vector<std::uint32_t>{1, 3, 5, 9}));
  EXPECT_EQ(serials(pending.streams()[0].pending), (std::vector<std::uint32_t>{1, 5, 9}));
  EXPECT_EQ(serials(pending.streams()[1].pending), (std::vector<std::uint32_t>{3}));
  EXPECT_TRUE(pending.streams()[2].pending.empty());
}

TEST(PendingLaunches, ToTakeOutWhatIsNotThereChangesNothing) {
  PendingLaunches pending = lists();
  pending.insert(launch(4, 1, 0));
  pending.erase(launch(3, 1, 0));
  pending.erase(launch(5, 1, 0));
  EXPECT_EQ(pending.size(), 1u);
  pending.erase(launch(4, 1, 0));
  EXPECT_TRUE(pending.empty());
}

TEST(PendingLaunches, CountTheKernelsOfAStreamOnTheGpu) {
  PendingLaunches pending = lists();
  pending.came(launch(0, 0, 1));
  pending.came(launch(1, 0, 1));
  pending.went(launch(0, 0, 1));
  EXPECT_EQ(pending.streams()[1].running, 1u);
  EXPECT_EQ(pending.streams()[0].running, 0u);
}

TEST(PendingLaunches, AgreeWithSortedListsInAnyOrderOfComingAndGoing) {
  sim::Dice dice(4);
  PendingLaunches pending = lists();
  const std::array<std::array<std::uint32_t, 2>, 3> streams{{{0, 0}, {0, 1}, {1, 0}}};
  std::vector<LaunchView> kept;
  std::uint32_t serial = 0;
  for (int i = 0; i < 5000; ++i) {
    if (kept.empty() || dice.any(0, 2) != 0) {
      const auto& [client, stream] = streams[dice.any(0, 2)];
      kept.push_back(launch(serial++, client, stream));
      pending.insert(kept.back());
    } else {
      const std::size_t at = dice.any(0, static_cast<std::uint32_t>(kept.size() - 1));
      pending.erase(kept[at]);
      kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(at));
    }
    std::vector<std::uint32_t> all;
    for (const LaunchView& l : kept) all.push_back(l.id.serial);
    std::ranges::sort(all);
    ASSERT_EQ(serials(pending.all()), all);
  }
}

TEST(Snapshot, TheFirstOfEachStreamAreInTheOrderOfReadiness) {
  PendingLaunches pending = lists();
  for (std::uint32_t serial = 0; serial < 9; ++serial)
    pending.insert(launch(serial, serial % 3 == 2, serial % 3 == 1));
  Snapshot now;
  now.streams = pending.streams();
  const auto first = [&](auto most) { return serials(now.first_pending(most)); };
  EXPECT_EQ(first([](const StreamView&) { return 2; }), (std::vector<std::uint32_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(first([](const StreamView& s) { return s.client.value == 1 ? 9 : 0; }),
            (std::vector<std::uint32_t>{2, 5, 8}));
}

}  // namespace
}  // namespace corun
