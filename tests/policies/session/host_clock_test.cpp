// When does the host of a client go on that stands still now and then?
#include "policies/session/host_clock.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

namespace corun {
namespace {

constexpr Time kSecond{1'000'000'000'000};

Client stalled(Time observed, std::vector<HostStalls::Stall> stalls, const std::string& name = "c") {
  Client client;
  client.name = name;
  client.host_stalls = HostStalls{observed, std::move(stalls)};
  return client;
}

/// Of the record, at a time of the run.
Time place(const HostClock& clock, const Client& client, Time at) { return (at + clock.place()) % client.host_stalls->observed; }

bool stands(const HostClock& clock, const Client& client, Time at) {
  const Time there = place(clock, client, at);
  return std::ranges::any_of(client.host_stalls->stalls,
                             [&](const HostStalls::Stall& s) { return s.at <= there && there < s.at + s.lasting; });
}

/// One picosecond after the other.
Time counted(const HostClock& clock, const Client& client, Time from, Time work) {
  for (Time done{};; from += Time{1})
    if (!stands(clock, client, from)) {
      if (done == work) return from;
      done += Time{1};
    }
}

/// A time of the run at that place of the record, the first after one period.
Time time_of(const HostClock& clock, const Client& client, Time there) {
  const Time observed = client.host_stalls->observed;
  return observed + (there - clock.place() + observed) % observed;
}

TEST(HostClock, WithoutStallsWorkTakesItsTime) {
  EXPECT_EQ(HostClock().after(Time{5}, Time{7}), Time{12});
  const Client none = stalled(Time{100}, {});
  EXPECT_EQ(HostClock(none, 1).after(Time{5}, Time{7}), Time{12});
  EXPECT_EQ(HostClock(Client{}, 1).after(Time{5}), Time{5});
}

TEST(HostClock, AStallHoldsFromItsBeginningToJustBeforeItsEnd) {
  const Client client = stalled(Time{1000}, {{Time{200}, Time{50}}});
  const HostClock clock(client, 1);
  const Time begins = time_of(clock, client, Time{200});
  EXPECT_EQ(clock.after(begins - Time{1}), begins - Time{1});
  EXPECT_EQ(clock.after(begins), begins + Time{50});
  EXPECT_EQ(clock.after(begins + Time{49}), begins + Time{50});
  EXPECT_EQ(clock.after(begins + Time{50}), begins + Time{50});
}

TEST(HostClock, WorkThatEndsBeforeAStallIsNotHeldAndWorkThatEndsWithItsBeginningIs) {
  const Client client = stalled(Time{1000}, {{Time{200}, Time{50}}});
  const HostClock clock(client, 1);
  const Time begins = time_of(clock, client, Time{200});
  EXPECT_EQ(clock.after(begins - Time{10}, Time{9}), begins - Time{1});
  EXPECT_EQ(clock.after(begins - Time{10}, Time{10}), begins + Time{50});
  EXPECT_EQ(clock.after(begins - Time{10}, Time{11}), begins + Time{51});
}

TEST(HostClock, ItGoesAsIfEachPicosecondWereCounted) {
  std::mt19937 dice(1);
  const auto below = [&](std::int64_t n) { return Time{static_cast<std::int64_t>(dice()) % n}; };
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    std::vector<HostStalls::Stall> stalls;
    Time over = below(2) * below(20).count();
    for (auto i = dice() % 5; i > 0; --i) {
      stalls.push_back({over, Time{1} + below(20)});
      over = stalls.back().at + stalls.back().lasting + below(2) * below(20).count();
    }
    const Client client = stalled(over + Time{1} + below(3) * 10, std::move(stalls));
    const HostClock clock(client, seed);
    for (int i = 0; i < 20; ++i) {
      const Time from = below(400), work = below(2) * below(300).count();
      ASSERT_EQ(clock.after(from, work), counted(clock, client, from, work)) << "seed " << seed << ", " << from.count() << ", " << work.count();
    }
  }
}

TEST(HostClock, WorkOfManyPeriodsIsExact) {
  const Time period{1'000'000};
  const Client client = stalled(period, {{Time{500'000}, Time{99'999}}});
  const HostClock clock(client, 7);
  const Time ends = time_of(clock, client, Time{599'999}), goes = period - Time{99'999};
  constexpr std::int64_t kTimes = 1'000'000'000;
  EXPECT_EQ(clock.after(ends, goes * kTimes - Time{1}), ends + period * kTimes - Time{99'999} - Time{1});
  EXPECT_EQ(clock.after(ends, goes * kTimes), ends + period * kTimes);
  EXPECT_EQ(clock.after(kNever), kNever);
}

TEST(HostClock, ItsPlaceInTheRecordComesFromSeedAndName) {
  const auto begins = [](const std::string& name, std::uint64_t seed) {
    const Client client = stalled(kSecond, {{Time{0}, Time{1}}}, name);
    return HostClock(client, seed).place();
  };
  EXPECT_EQ(begins("a", 1), begins("a", 1));
  std::set<Time> different;
  for (std::uint64_t seed = 1; seed <= 50; ++seed)
    for (const char* name : {"a", "b"}) different.insert(begins(name, seed));
  EXPECT_EQ(different.size(), 100u);
  EXPECT_GE(*different.begin(), Time{});
  EXPECT_LT(*different.rbegin(), kSecond);
  EXPECT_LT(*different.begin(), kSecond / 10) << "of a hundred some are early";
  EXPECT_GT(*different.rbegin(), kSecond / 10 * 9) << "and some late";
}

}  // namespace
}  // namespace corun
