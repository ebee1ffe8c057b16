// A gate against a slow event queue: in the hold model (pop the first event, schedule one a random increment
// later) it is at least as fast as std::priority_queue with the same element and order. event_queue_bench
// measures more.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <queue>
#include <random>
#include <string>
#include <vector>

#include "sim/engine/event_queue.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define CORUN_SANITIZED
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CORUN_SANITIZED
#endif

namespace corun::sim {
namespace {

struct Payload {
  std::uint16_t kind;
  std::uint16_t unused;
  std::uint32_t a;
  std::uint32_t b;
};

struct Ours {
  EventQueue<Payload> queue;

  void schedule(std::int64_t at, std::uint32_t a) { queue.schedule(Time{at}, 1, {2, 0, a, 0}); }
  std::int64_t pop() { return queue.pop().at.count(); }
};

struct Standard {
  struct Element {
    std::int64_t at;
    std::uint64_t order;
    Payload payload;
    bool operator<(const Element& other) const {
      return at > other.at || (at == other.at && order > other.order);
    }
  };
  std::priority_queue<Element> queue;
  std::uint64_t sequence = 0;

  void schedule(std::int64_t at, std::uint32_t a) {
    queue.push({at, std::uint64_t{1} << 56 | sequence++, {2, 0, a, 0}});
  }
  std::int64_t pop() {
    const Element top = queue.top();
    queue.pop();
    return top.at;
  }
};

template <typename Queue>
class Hold {
 public:
  Hold(std::uint32_t pending, const std::vector<std::int64_t>& increments) : increments_(increments) {
    for (std::uint32_t i = 0; i < pending; ++i) queue_.schedule(next_increment(), i);
    run(2 * pending);
  }

  void run(std::uint32_t events) {
    for (std::uint32_t i = 0; i < events; ++i) {
      now_ = queue_.pop();
      queue_.schedule(now_ + next_increment(), i);
    }
  }

  double seconds(std::uint32_t events) {
    const auto start = std::chrono::steady_clock::now();
    run(events);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  std::int64_t now() const { return now_; }

 private:
  std::int64_t next_increment() { return increments_[position_++ % increments_.size()]; }

  const std::vector<std::int64_t>& increments_;
  std::size_t position_ = 0;
  Queue queue_;
  std::int64_t now_ = 0;
};

class EventQueueSpeedTest : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(EventQueueSpeedTest, HoldsAtLeastAsFastAsStdPriorityQueue) {
#if defined(CORUN_SANITIZED)
  GTEST_SKIP() << "a sanitizer's checks would be measured";
#elif !defined(__OPTIMIZE__) || !defined(NDEBUG)  // g++ does not tell of -fsanitize=undefined
  GTEST_SKIP() << "this is not a release build";
#endif
  std::vector<std::int64_t> increments(1 << 16);
  std::mt19937_64 random{1};
  for (std::int64_t& increment : increments) increment = static_cast<std::int64_t>(random() % 2'000'000);

  Hold<Ours> ours{GetParam(), increments};
  Hold<Standard> standard{GetParam(), increments};
  std::vector<double> ratios;
  for (int round = 0; round < 15; ++round) {
    const double standard_seconds = standard.seconds(100'000);
    ratios.push_back(standard_seconds / ours.seconds(100'000));
  }
  EXPECT_EQ(ours.now(), standard.now());
  const auto median = ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2);
  std::nth_element(ratios.begin(), median, ratios.end());
  RecordProperty("times_as_fast", std::to_string(*median));
  EXPECT_GE(*median, 1.0);
}

INSTANTIATE_TEST_SUITE_P(Pending, EventQueueSpeedTest, ::testing::Values(1'000u, 100'000u),
                         ::testing::PrintToStringParamName());

}  // namespace
}  // namespace corun::sim
