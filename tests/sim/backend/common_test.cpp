// What the results of one trace share is simulated once, however many ask for it at once.
#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

#include "sim/backend/in_parallel.h"
#include "sim/backend/run.h"
#include "traces/json/trace_json.h"

namespace corun::sim {
namespace {

TEST(Common, WhatSeveralThreadsAskForAtOnceIsSimulatedOnce) {
  Common common(read_gpu("h200"));
  std::atomic<int> simulated = 0;
  in_parallel(8, 8, [&](std::size_t) {
    const Common::Requests alone = common.alone(0, kNever, [&] {
      ++simulated;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      return Common::Requests(3);
    });
    EXPECT_EQ(alone.size(), 3u);
  });
  EXPECT_EQ(simulated, 1);
  common.alone(0, Time{1}, [&] { return ++simulated, Common::Requests(); });
  EXPECT_EQ(simulated, 2) << "for another time";
}

TEST(Common, WhoWaitedForARunThatWasEndedSimulatesItself) {
  Common common(read_gpu("h200"));
  std::atomic<int> ended = 0, done = 0;
  in_parallel(4, 4, [&](std::size_t) {
    try {
      common.alone(0, kNever, [&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        if (ended++ == 0) throw std::runtime_error("ended");
        return Common::Requests(1);
      });
      ++done;
    } catch (const std::runtime_error&) {
    }
  });
  EXPECT_EQ(done, 3);
  EXPECT_EQ(ended, 2) << "once ended, once simulated";
}

}  // namespace
}  // namespace corun::sim
