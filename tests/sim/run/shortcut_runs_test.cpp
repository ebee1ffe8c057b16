// Do runs give the same with shortcuts, without, and with an observer, which turns them off?  Under policies that stop
// launches one kernel is two: as it is, and as it may be stopped.
#include <gtest/gtest.h>

#include "sim/run/run.h"
#include "tests/support/random_trace.h"
#include "tests/support/run_trace.h"
#include "tests/support/stages.h"
#include "traces/json/trace_json.h"

namespace corun::sim {
namespace {

constexpr const char* kStopping[] = {"wait", "reef", "reef-n"};

/// All kernels and requests, and what clients have of the run beside theirs alone, if that is asked for.
struct Whole {
  std::vector<std::string> kernels, requests;
  double stp = 0, antt = 0;
  bool operator==(const Whole&) const = default;
};
void PrintTo(const Whole& w, std::ostream* out) {
  *out << w.stp << ' ' << w.antt;
  for (const std::string& line : w.kernels) *out << '\n' << line;
}
Whole whole(const Trace& trace, const std::string& policy, EngineOptions engine, bool with_blocks = false, bool alone = true) {
  Collector collected(with_blocks);
  RunOptions options{{.policy = policy, .sinks = {&collected}, .alone = alone}, engine, 1};
  const RunResult result = run(trace, read_gpu(trace.gpu), options);
  return {lines(collected.kernels), lines(collected.requests), alone ? result.stp : 0, alone ? result.antt : 0};
}

TEST(ShortcutRuns, AKernelThatMayBeStoppedForOneClientIsNotTakenForThatOfAnother) {
  Trace trace = read_trace("tests/data/one_kernel_two_classes.json");
  for (const bool exchanged : {false, true}) {
    if (exchanged) std::swap(trace.clients[0].arrivals, trace.clients[1].arrivals);
    for (const char* policy : kStopping) {
      Collector collected;
      RunOptions options{{.policy = policy, .sinks = {&collected}}, kShortcuts, 1};
      run(trace, read_gpu(trace.gpu), options);
      const KernelRecord &plain = collected.only(ClientId{0}), &stoppable = collected.only(ClientId{1});
      EXPECT_NEAR(to_ns(plain.finished - plain.started), 10'000, 20) << policy;
      EXPECT_NEAR(to_ns(stoppable.finished - stoppable.started), 20'000, 20) << policy;
      const Whole quick = whole(trace, policy, kShortcuts);
      EXPECT_EQ(quick, whole(trace, policy, kPlain)) << policy;
      EXPECT_EQ(quick, whole(trace, policy, kShortcuts, true)) << policy << ", blocks recorded";
    }
  }
}

/// Of two clients, one kernel's data in L2 are replaced more or less by the other's; and networks of which one is
/// both real-time and best-effort.
TEST(ShortcutRuns, OfMeasuredMixesGiveTheSameWithShortcutsAndWithout) {
  for (const char* file : {"experiments/h200/policies/mixes/poisson.json", "experiments/h200/disb/disb-a.json"})
    for (const char* policy : kStopping) {
      Trace trace = read_trace(file);
      trace.run.duration = ms(8), trace.run.warm_up = {};
      const Whole quick = whole(trace, policy, kShortcuts, false, false), plain = whole(trace, policy, kPlain, false, false);
      EXPECT_TRUE(quick == plain) << file << ' ' << policy;
      EXPECT_GT(quick.kernels.size(), 20u);
    }
}

/// Kernels that may be stopped, for clients of both classes.
Scenario with_stoppable_kernels(std::uint64_t seed) {
  Scenario s = random_scenario(seed, Requests::repeated);
  Dice dice(seed ^ 0x570b);
  for (Kernel& k : s.trace.kernels)
    if (!dice.one_in(4)) k.stoppable = {{*k.solo_time * dice.any(8, 30) / 10, dice.one_in(2)}};
  const std::size_t clients = s.trace.clients.size();
  for (std::size_t i = 0; i < clients; ++i) {
    Client other = s.trace.clients[i];
    other.name += " too", other.process += " too";
    other.service_class =
        other.service_class == ServiceClass::real_time ? ServiceClass::best_effort : ServiceClass::real_time;
    if (dice.one_in(2)) other.arrivals = Periodic{us(dice.any(30, 200)), us(dice.any(0, 50))};
    if (clients < 4 || dice.one_in(2)) s.trace.clients.push_back(std::move(other));
  }
  return s;
}

TEST(ShortcutRuns, OfKernelsThatMayBeStoppedGiveTheSameWithShortcutsAndWithout) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    const Scenario s = with_stoppable_kernels(seed);
    for (const char* policy : {"wait", "reef", "reef-n", "smguard", "priority"}) {
      SCOPED_TRACE(testing::Message() << policy << ", seed " << seed);
      const Ran quick = run_trace(s.trace, s.gpu, policy, Record::kernels, kShortcuts);
      const Ran plain = run_trace(s.trace, s.gpu, policy, Record::kernels, kPlain);
      ASSERT_EQ(lines(quick.kernels), lines(plain.kernels));
      ASSERT_EQ(lines(quick.requests), lines(plain.requests));
      ASSERT_EQ(quick.outcome.end, plain.outcome.end);
      ASSERT_EQ(quick.sm_ps, plain.sm_ps);
      ASSERT_EQ(quick.warp_ps, plain.warp_ps);
      const Ran observed = run_trace(s.trace, s.gpu, policy, Record::blocks, kShortcuts);
      ASSERT_EQ(lines(quick.kernels), lines(observed.kernels));
    }
  }
}

}  // namespace
}  // namespace corun::sim
