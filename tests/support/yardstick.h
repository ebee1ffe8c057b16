// How fast this machine is now, in work of the standard library: bounds of speed are ratios to it, measured in the same run,
// so that neither a slow machine nor a busy one fails them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <functional>
#include <limits>
#include <queue>
#include <random>
#include <vector>

namespace corun::testing {

/// CPU seconds of this process so far.
inline double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// CPU seconds of one hold of std::priority_queue: the first of a thousand events is popped and one a random increment later
/// pushed.
inline double seconds_of_a_hold() {
  constexpr int kHolds = 50'000;
  std::mt19937_64 random{1};
  std::priority_queue<std::int64_t, std::vector<std::int64_t>, std::greater<>> queue;
  const auto increment = [&] { return static_cast<std::int64_t>(random() % 2'000'000); };
  for (int i = 0; i < 1000; ++i) queue.push(increment());
  const double began = cpu_seconds();
  for (int i = 0; i < kHolds; ++i) {
    const std::int64_t now = queue.top();
    queue.pop();
    queue.push(now + increment());
  }
  return (cpu_seconds() - began) / kHolds;
}

/// Holds that `work` takes, which tells its CPU seconds: the least of each over rounds, as other work on the machine only adds.
/// Goes on until they are below `bound`, 5 rounds at least and 60 at most.
inline double holds_of(const std::function<double()>& work, double bound) {
  double hold = std::numeric_limits<double>::infinity(), least = hold;
  for (int round = 0; round < 5 || (round < 60 && least >= bound * hold); ++round) {
    hold = std::min(hold, seconds_of_a_hold());
    least = std::min(least, work());
  }
  return least / hold;
}

}  // namespace corun::testing
