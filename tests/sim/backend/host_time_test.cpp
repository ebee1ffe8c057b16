// The time of a host that issues with one thread, by itself.
#include "sim/backend/host_thread.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/support/build.h"

namespace corun::sim {
namespace {

constexpr ClientId kOne{0}, kOther{1};

HostCosts costs_of_calls() {
  HostCosts costs;
  costs.launch_call = us(5), costs.held_call = us(3), costs.hand_over = us(8), costs.end_call = us(2),
  costs.take_back = us(1);
  return costs;
}

TEST(HostsTime, WithoutCostsEachCallBeginsAtOnce) {
  HostThread none;
  EXPECT_FALSE(none.takes_time());
  EXPECT_EQ(none.decide(us(7), kOne, false), us(7));
  EXPECT_EQ(none.decide(us(7), kOther, true), us(7));
  EXPECT_EQ(none.free(), Time{});
}

TEST(HostsTime, CallsOfAllClientsFollowEachOther) {
  HostThread thread(costs_of_calls(), 0);
  EXPECT_EQ(thread.decide(us(10), kOne, false), us(10));
  EXPECT_EQ(thread.decide(us(11), kOther, false), us(15));
  EXPECT_EQ(thread.free(), us(20));
  EXPECT_EQ(thread.decide(us(20), kOne, false), us(20)) << "it has just done what it was at";
}

TEST(HostsTime, WhatIsHeldIsDecidedInLessAndHandedOverLater) {
  HostThread thread(costs_of_calls(), 0);
  EXPECT_EQ(thread.decide(us(10), kOne, true), us(10));
  EXPECT_EQ(thread.free(), us(13));
  EXPECT_EQ(thread.hand_over(us(12)), us(13));
  EXPECT_EQ(thread.free(), us(21));
}

TEST(HostsTime, EndsAndWhatIsTakenBackDelayTheNextCall) {
  HostThread thread(costs_of_calls(), 0);
  thread.hear_of_end(us(10));
  EXPECT_EQ(thread.free(), us(12));
  thread.take_back(us(10));
  EXPECT_EQ(thread.free(), us(13));
  EXPECT_EQ(thread.decide(us(10), kOne, false), us(13));
}

TEST(HostsTime, ProcessesHandOverByThemselvesOnceTheThreadHasDecided) {
  HostThread thread(costs_of_calls(), 2);
  EXPECT_EQ(thread.decide(us(10), kOne, false), us(13)) << "3 us to decide";
  EXPECT_EQ(thread.free(), us(13)) << "8 us of the process are not the thread's";
  EXPECT_EQ(thread.decide(us(13), kOther, false), us(16));
  EXPECT_EQ(thread.decide(us(16), kOne, false), us(21)) << "its own process is busy until then";
  EXPECT_THROW(thread.decide(us(30), ClientId{2}, false), std::logic_error);
}

TEST(HostsTime, RefusesNegativeCosts) {
  HostCosts costs = costs_of_calls();
  costs.end_call = us(-1);
  EXPECT_THROW(HostThread(costs, 0), std::logic_error);
}

}  // namespace
}  // namespace corun::sim
