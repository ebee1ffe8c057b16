// The order of events, the growth of the queue, and the refusal of events in the past.
#include "sim/engine/event_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <stdexcept>
#include <tuple>
#include <vector>

namespace corun::sim {
namespace {

struct Payload {
  std::uint16_t kind;
  std::uint16_t unused;
  std::uint32_t a;
  std::uint32_t b;
};

class EventQueueTest : public testing::Test {
 protected:
  void schedule(std::int64_t at, std::uint8_t phase, std::uint32_t id) {
    queue_.schedule(Time{at}, phase, {7, 0, id, ~id});
  }

  std::vector<std::uint32_t> drain() {
    std::vector<std::uint32_t> ids;
    while (!queue_.empty()) ids.push_back(queue_.pop().payload.a);
    return ids;
  }

  EventQueue<Payload> queue_;
};

using Ids = std::vector<std::uint32_t>;

TEST_F(EventQueueTest, EarlierTimeComesFirst) {
  schedule(30, 0, 3);
  schedule(10, 2, 1);
  schedule(20, 1, 2);
  EXPECT_EQ(drain(), (Ids{1, 2, 3}));
}

TEST_F(EventQueueTest, AtOneInstantLowerPhaseComesFirst) {
  schedule(10, 255, 3);
  schedule(10, 0, 1);
  schedule(10, 128, 2);
  EXPECT_EQ(drain(), (Ids{1, 2, 3}));
}

TEST_F(EventQueueTest, AtOneInstantAndPhaseInsertionOrderHolds) {
  // More than the front takes at once, and from a distance that spreads them over all levels of the wheel.
  Ids expected;
  for (std::uint32_t i = 0; i < 5000; ++i) {
    schedule(std::int64_t{1} << 62, 1, i);
    expected.push_back(i);
  }
  EXPECT_EQ(drain(), expected);
}

TEST_F(EventQueueTest, OnePicosecondEarlierComesFirst) {
  for (const std::int64_t t :
       {1LL, 64LL, 4096LL, 1LL << 32, 1LL << 60, std::numeric_limits<long long>::max()}) {
    EventQueue<Payload> queue;
    queue.schedule(Time{t}, 0, {0, 0, 2, 0});
    queue.schedule(Time{t - 1}, 1, {0, 0, 1, 0});
    EXPECT_EQ(queue.next_time(), Time{t - 1});
    EXPECT_EQ(queue.pop().payload.a, 1u);
    EXPECT_EQ(queue.next_time(), Time{t});
    EXPECT_EQ(queue.pop().payload.a, 2u);
  }
}

TEST_F(EventQueueTest, PayloadAndPhaseComeBackUnchanged) {
  queue_.schedule(Time{5}, 200, {0xffff, 0x1234, 0xffffffff, 0x80000000});
  for (const auto& event : {queue_.top(), queue_.pop()}) {
    EXPECT_EQ(event.at, Time{5});
    EXPECT_EQ(event.phase, 200);
    EXPECT_EQ(event.payload.kind, 0xffff);
    EXPECT_EQ(event.payload.unused, 0x1234);
    EXPECT_EQ(event.payload.a, 0xffffffff);
    EXPECT_EQ(event.payload.b, 0x80000000);
  }
}

TEST_F(EventQueueTest, ASchedulingBeforeTheLastPoppedTimeIsRefused) {
  schedule(100, 3, 1);
  schedule(200, 0, 3);
  queue_.pop();
  EXPECT_THROW(schedule(99, 0, 9), std::logic_error);
  EXPECT_EQ(queue_.size(), 1u);
  schedule(100, 0, 2);  // the present instant is not the past, whatever its phase
  EXPECT_EQ(drain(), (Ids{2, 3}));
  EXPECT_THROW(schedule(199, 0, 9), std::logic_error);
}

TEST_F(EventQueueTest, LookingAtTheNextEventDoesNotRefuseAnEarlierOne) {
  for (std::uint32_t i = 0; i < 100; ++i) schedule(1'000'000 + i, 0, 100 + i);
  EXPECT_EQ(queue_.next_time(), Time{1'000'000});
  for (std::uint32_t i = 0; i < 100; ++i) schedule(500'000 + i, 0, i);
  EXPECT_EQ(queue_.next_time(), Time{500'000});
  Ids expected(200);
  for (std::uint32_t i = 0; i < 200; ++i) expected[i] = i;
  EXPECT_EQ(drain(), expected);
}

TEST_F(EventQueueTest, TimesBeforeZeroAreOrderedToo) {
  for (std::uint32_t i = 0; i < 200; ++i) schedule(100 - static_cast<std::int64_t>(i), 0, 200 - i);
  schedule(std::numeric_limits<std::int64_t>::min(), 0, 0);
  Ids expected(201);
  for (std::uint32_t i = 0; i < expected.size(); ++i) expected[i] = i;
  EXPECT_EQ(drain(), expected);
}

TEST_F(EventQueueTest, ItHoldsAsManyEventsAsWereScheduled) {
  EXPECT_TRUE(queue_.empty());
  std::mt19937_64 random{1};
  for (std::size_t n = 1; n <= 100'000; ++n) {
    schedule(static_cast<std::int64_t>(random() % 1'000'000'000), 0, 0);
    ASSERT_EQ(queue_.size(), n);
  }
  for (std::size_t n = 100'000; n > 0; --n) {
    ASSERT_EQ(queue_.size(), n);
    ASSERT_FALSE(queue_.empty());
    queue_.pop();
  }
  EXPECT_TRUE(queue_.empty());
}

TEST_F(EventQueueTest, AnEmptiedQueueTakesEventsAgain) {
  for (std::int64_t round = 0; round < 50; ++round) {
    for (std::uint32_t i = 0; i < 100; ++i) schedule(round * 1'000'000'007 + 50 * (i % 7), 0, i);
    EXPECT_EQ(drain().size(), 100u);
  }
}

// The reference sorts what is pending by (time, phase), stably.
struct Pending {
  std::int64_t at;
  std::uint8_t phase;
  std::uint32_t id;
};

TEST_F(EventQueueTest, AgreesWithStdStableSortOverRandomSchedules) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random{seed};
    EventQueue<Payload> queue;
    std::vector<Pending> pending;
    const int bits = static_cast<int>(random() % 40);  // ties are common for few, absent for many
    const std::uint64_t phases = 1 + random() % 4;
    const std::uint64_t far_one_in = 1 + random() % 50;
    std::int64_t now = 0;
    std::uint32_t id = 0;
    for (int round = 0; round < 200; ++round) {
      // Growing, shrinking and drained queues, and bursts at one instant.
      const std::uint64_t added = random() % 3 == 0 ? random() % 200 : random() % 8;
      for (std::uint64_t i = 0; i < added; ++i) {
        const bool far = random() % far_one_in == 0;
        const std::uint64_t delay = random() >> (64 - std::min(bits + (far ? 20 : 1), 55));
        const auto phase = static_cast<std::uint8_t>(random() % phases);
        pending.push_back({now + static_cast<std::int64_t>(delay), phase, id});
        queue.schedule(Time{pending.back().at}, phase, {0, 0, id++, 0});
      }
      std::stable_sort(pending.begin(), pending.end(), [](const Pending& x, const Pending& y) {
        return std::tie(x.at, x.phase) < std::tie(y.at, y.phase);
      });
      ASSERT_EQ(queue.size(), pending.size());
      const std::size_t popped =
          std::min<std::size_t>(random() % 5 == 0 ? random() % 300 : random() % 8, pending.size());
      for (std::size_t i = 0; i < popped; ++i) {
        if (random() % 2 == 0) {
          ASSERT_EQ(queue.next_time(), Time{pending[i].at});
        }
        const auto event = queue.pop();
        ASSERT_EQ(event.at, Time{pending[i].at});
        ASSERT_EQ(event.phase, pending[i].phase);
        ASSERT_EQ(event.payload.a, pending[i].id);
        now = pending[i].at;
      }
      pending.erase(pending.begin(), pending.begin() + static_cast<std::ptrdiff_t>(popped));
      if (!pending.empty() && random() % 4 == 0) {
        ASSERT_EQ(queue.next_time(), Time{pending[0].at});
      }
    }
  }
}

// An event that comes schedules others at its own instant, in any phase: the reference is the order at each
// pop.
TEST_F(EventQueueTest, EventsScheduledAtThePresentInstantComeInTheirPhase) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random{seed};
    EventQueue<Payload> queue;
    std::vector<Pending> pending;
    std::uint32_t id = 0;
    const auto add = [&](std::int64_t at) {
      pending.push_back({at, static_cast<std::uint8_t>(random() % 5), id});
      queue.schedule(Time{at}, pending.back().phase, {0, 0, id++, 0});
    };
    for (int i = 0; i < 300; ++i) add(static_cast<std::int64_t>(random() % 3));
    while (!pending.empty()) {
      const auto first =
          std::min_element(pending.begin(), pending.end(), [](const Pending& x, const Pending& y) {
            return std::tie(x.at, x.phase, x.id) < std::tie(y.at, y.phase, y.id);
          });
      const std::int64_t now = first->at;
      ASSERT_EQ(queue.pop().payload.a, first->id);
      pending.erase(first);
      if (id < 2000) {
        add(now);
        if (random() % 8 == 0) add(now + static_cast<std::int64_t>(random() % 3));
      }
    }
    EXPECT_TRUE(queue.empty());
  }
}

}  // namespace
}  // namespace corun::sim
