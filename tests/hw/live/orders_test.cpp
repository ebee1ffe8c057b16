// Are the memory orders of the page's words (hw/live/wire.h) enough, and is each of them needed?  Each protocol is written here as the
// service and the library have it, and every execution of a short run of it is looked at; then again with one order after the
// other left out, which must show.  The next to the last words of each step say where it stands.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/hw/live/weak_memory.h"

namespace corun::weak {
namespace {

using enum Order;
using Orders = std::map<std::string, Order>;
using Make = std::function<std::vector<Thread>(World&, Orders)>;

void expect(bool so, const char* what) {
  if (!so) throw Wrong(what);
}

void is_right(const char* name, const Make& make, const Orders& orders) {
  const Outcome all = every_execution([&](World& world) { return make(world, orders); });
  EXPECT_EQ(all.wrong, "") << name << ", in execution " << all.executions;
  EXPECT_GT(all.executions, 20u) << name;
  for (const auto& [step, order] : orders) {
    // The next weaker one that the step may have.
    const bool writes = step.ends_with("+") || step.ends_with("=");
    Orders weaker = orders;
    weaker[step] = order == seq_cst ? (writes ? release : acquire) : relaxed;
    EXPECT_NE(every_execution([&](World& world) { return make(world, weaker); }).wrong, "") << name << " is as right with " << step << " weaker";
  }
}

/// Requests of a program: Client::say, Service::look_at_messages and hear_all.  A ring of two, and three requests.
namespace ring {
enum { said, heard, slots };
Thread program(World& w, Orders o) {
  for (int n = 0; n < 3; ++n) {
    if (n >= 2) co_await w.find(heard, o["heard"], [n](Value v) { return n - v < 2; });
    co_await w.write(slots + n % 2, 100 + n);
    co_await w.store(said, n + 1, o["said ="]);
  }
}
Thread service(World& w, Orders o) {
  for (Value has = 0; has < 3;) {
    const Value until = co_await w.find(said, o["said"], [has](Value v) { return v > has; });
    for (; has < until; ++has) {
      const Value request = co_await w.read(slots + has % 2);
      expect(request == 100 + has, "another request");
    }
    co_await w.store(heard, has, o["heard ="]);
  }
}
}  // namespace ring

TEST(Orders, ARequestIsHeardOnceAndWholeAndItsPlaceIsNotTakenBefore) {
  is_right("ring", [](World& w, Orders o) {
    std::vector<Thread> all;
    all.push_back(ring::program(w, o)), all.push_back(ring::service(w, o));
    return all;
  }, {{"said =", release}, {"said", acquire}, {"heard =", release}, {"heard", acquire}});
}

/// The service sleeps in poll() until a program rings: Client::say and Service::run, without the time that poll() has.
namespace sleeping {
enum { said, sleeps, rung };
Thread program(World& w, Orders o) {
  for (int n = 0; n < 2; ++n) {
    co_await w.store(said, n + 1, o["said ="]);
    const Value asleep = co_await w.load(sleeps, o["sleeps"]);
    if (asleep != 0) co_await w.add(rung, 1, seq_cst);
  }
}
Thread service(World& w, Orders o) {
  Value taken = 0;
  for (Value has = 0; has < 2;) {
    co_await w.store(sleeps, 1, o["sleeps ="]);
    const Value seen = co_await w.load(said, o["said"]);
    if (seen == has) taken = co_await w.find(rung, seq_cst, [taken](Value v) { return v > taken; });
    co_await w.store(sleeps, 0, relaxed);
    has = co_await w.load(said, acquire);
  }
}
}  // namespace sleeping

TEST(Orders, AServiceThatGoesToSleepIsWokenByARequestThatItHasNotSeen) {
  is_right("sleep", [](World& w, Orders o) {
    std::vector<Thread> all;
    all.push_back(sleeping::program(w, o)), all.push_back(sleeping::service(w, o));
    return all;
  }, {{"said =", seq_cst}, {"sleeps", seq_cst}, {"sleeps =", seq_cst}, {"said", seq_cst}});
}

/// A thread sleeps until its launch is granted, and reads the launch's terms: Client::wait_until_granted and terms, Service::grant.
namespace grants {
enum { granted, sleeps, terms };
Thread program(World& w, Orders o) {
  for (;;) {
    const Value seen = co_await w.load(granted, o["granted"]);
    if (seen != 0) break;
    co_await w.store(sleeps, 1, o["sleeps ="]);
    const Value before = co_await w.load(granted, seq_cst);
    if (before == 0) co_await w.sleep_if(granted, before);
  }
  co_await w.store(sleeps, 0, relaxed);
  const Value its = co_await w.read(terms);
  expect(its == 10, "other terms than the launch's");
}
Thread service(World& w, Orders o) {
  co_await w.write(terms, 10);
  co_await w.store(granted, 1, o["granted ="]);
  const Value asleep = co_await w.load(sleeps, o["sleeps"]);
  if (asleep != 0) co_await w.wake(granted);
}
}  // namespace grants

TEST(Orders, AThreadThatSleepsIsWokenByItsGrantAndReadsItsTerms) {
  is_right("grant", [](World& w, Orders o) {
    std::vector<Thread> all;
    all.push_back(grants::program(w, o)), all.push_back(grants::service(w, o));
    return all;
  }, {{"granted", acquire}, {"sleeps =", seq_cst}, {"granted =", seq_cst}, {"sleeps", seq_cst}});
}

/// Standing terms: Service::tell_standing and Client::standing.
namespace seqlock {
enum { version, priority, tpcs };
Thread service(World& w, Orders o) {
  for (int n = 1; n <= 2; ++n) {
    co_await w.add(version, 1, o["version odd +"]);
    co_await w.store(priority, n, o["priority ="]);
    co_await w.store(tpcs, n, o["tpcs ="]);
    co_await w.add(version, 1, o["version even +"]);
  }
}
Thread program(World& w, Orders o) {
  Value known = 0;
  for (;;) {
    const Value at = co_await w.load(version, o["version"]);
    if (at == known) co_return;
    const Value p = co_await w.load(priority, relaxed), t = co_await w.load(tpcs, relaxed);
    co_await w.fence(o["fence"]);
    const Value again = co_await w.load(version, relaxed);
    if (at % 2 != 0 || again != at) co_return;  // it looks again; a further look is as this one
    expect(p == t && p == at / 2, "torn");
    known = at;
  }
}
}  // namespace seqlock

TEST(Orders, StandingTermsAreReadAsTheyWereWrittenTogether) {
  is_right("seqlock", [](World& w, Orders o) {
    std::vector<Thread> all;
    all.push_back(seqlock::service(w, o)), all.push_back(seqlock::program(w, o));
    return all;
  }, {{"priority =", release}, {"tpcs =", release}, {"version even +", release}, {"version", acquire}, {"fence", acquire}});
}

}  // namespace
}  // namespace corun::weak
