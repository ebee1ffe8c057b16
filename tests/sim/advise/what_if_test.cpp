// Does an assumption that changes the advice say so, and one that does not keep silent?
#include "sim/advise/what_if.h"

#include <gtest/gtest.h>

#include "tests/sim/advise/advised_traces.h"
#include "traces/model/error.h"

namespace corun::sim {
namespace {

struct Answer {
  AdviseOptions options;
  Advice advice;
  std::vector<WhatIf> what_if;

  const WhatIf* about(const std::string& word) const {
    for (const WhatIf& what : what_if)
      if (what.assumed.find(word) != std::string::npos) return &what;
    return nullptr;
  }
  const Tried& best() const { return advice.tried[*advice.best]; }
};

Answer answer(const Trace& trace, const std::vector<std::string>& slos, const std::string& goal) {
  Answer a;
  const std::vector<AdvisedCard> cards{{read_gpu("h200"), trace}};
  a.options.slos = promised(slos, trace);
  a.options.goal = parse_goal(goal, trace);
  a.options.seeds = usual_seeds(trace);
  a.advice = advise(cards, a.options);
  a.what_if = what_would_change(cards, a.advice, a.options);
  return a;
}

/// The same setting in a run of its own.
double camera_p99(Trace trace, const Setting& setting, std::uint64_t seed) {
  trace.run.seed = seed;
  return run(under(setting, trace), read_gpu("h200"), {{.policy = setting.policy}}).clients[1].p99_ms;
}

TEST(WhatIf, RandomArrivalsThatBreakThePromiseChangeTheAdvice) {
  const Answer a = answer(two_clients(), {"camera:p99=0.6ms"}, "batch:throughput");
  ASSERT_TRUE(a.advice.best);
  const WhatIf* what = a.about("Poisson");
  ASSERT_NE(what, nullptr);
  EXPECT_EQ(what->refused, "");
  EXPECT_TRUE(what->changes);
  ASSERT_TRUE(what->named);
  EXPECT_FALSE(what->named->holds());
  double worst = 0;
  for (std::uint64_t seed : {1, 2, 3}) worst = std::max(worst, camera_p99(with_random_camera(), a.best().setting, seed));
  EXPECT_GT(worst, 0.6) << "as runs of their own say";
  EXPECT_LE(what->named->use, worst / 0.6 + 1e-9);
  if (what->instead) {
    EXPECT_TRUE(what->instead->holds());
    EXPECT_NE(what->instead->setting.policy, a.best().setting.policy);
  }
}

TEST(WhatIf, ArrivalsThatLeaveThePromiseKeptDoNotChangeTheAdvice) {
  const Answer a = answer(two_clients(), {"camera:p99=20ms"}, "stp");
  const WhatIf* what = a.about("Poisson");
  ASSERT_NE(what, nullptr);
  EXPECT_FALSE(what->changes);
  Answer again = answer(with_random_camera(), {"camera:p99=20ms"}, "stp");
  ASSERT_TRUE(again.advice.best);
  for (const Tried& t : again.advice.tried) {
    if (t.setting.policy == a.best().setting.policy) {
      EXPECT_TRUE(t.holds());
      EXPECT_LE(apart(again.best().value, t.value), kClose) << "asked with these arrivals it is as good as any";
    }
  }
}

TEST(WhatIf, PeriodicArrivalsUnderWhichSomethingHoldsAreNamed) {
  const Answer a = answer(with_random_camera(), {"camera:p99=0.25ms"}, "batch:throughput");
  ASSERT_FALSE(a.advice.best);
  const WhatIf* what = a.about("periodic");
  ASSERT_NE(what, nullptr);
  EXPECT_TRUE(what->changes);
  EXPECT_FALSE(what->named) << "nothing was named";
  ASSERT_TRUE(what->instead);
  Trace periodic = two_clients();
  periodic.clients[1].stale = Stale::queue;
  EXPECT_LE(camera_p99(periodic, what->instead->setting, 1), 0.25);
  EXPECT_EQ(a.about("errs"), nullptr) << "of no setting that holds";
}

TEST(WhatIf, AnotherSettingThatServesTheGoalBetterIsSaidWithTheDistance) {
  // Random requests that wait need a margin that periodic ones leave to the batch.
  const Answer a = answer(with_random_camera(), {"camera:p99=0.5ms"}, "batch:throughput");
  ASSERT_TRUE(a.advice.best);
  const WhatIf* what = a.about("periodic");
  ASSERT_NE(what, nullptr);
  ASSERT_TRUE(what->named && what->named->holds());
  ASSERT_TRUE(what->changes && what->instead) << a.best().setting.words << " " << a.best().value << " " << what->named->value;
  EXPECT_GT(what->apart, kClose);
  EXPECT_NEAR(what->instead->value / what->named->value, 1 + what->apart, 1e-9);
}

TEST(WhatIf, TheModelsErrorChangesWhatDoesNotHoldSurely) {
  const Answer unsure = answer(two_clients(), {"camera:p99=0.6ms"}, "batch:throughput");
  ASSERT_TRUE(unsure.advice.best);
  ASSERT_NE(unsure.about("errs"), nullptr);
  EXPECT_EQ(unsure.about("errs")->changes, !unsure.best().holds_surely());
  const Answer sure = answer(two_clients(), {"camera:p99=20ms"}, "batch:throughput");
  ASSERT_TRUE(sure.best().holds_surely());
  EXPECT_FALSE(sure.about("errs")->changes);
  const Answer tight = answer(two_clients(), {"camera:p99=0.41ms"}, "batch:throughput");
  ASSERT_TRUE(tight.advice.best && !tight.best().holds_surely());
  EXPECT_TRUE(tight.about("errs")->changes);
  ASSERT_TRUE(tight.about("errs")->instead) << tight.best().setting.words;
  EXPECT_TRUE(tight.about("errs")->instead->holds_surely());
}

TEST(WhatIf, OnlyWhatTheTraceLeavesOpenIsVaried) {
  const Answer periodic = answer(two_clients(), {"camera:p99=20ms"}, "stp");
  EXPECT_NE(periodic.about("as graphs"), nullptr) << "the programs are eager";
  EXPECT_EQ(periodic.about("single calls"), nullptr);
  EXPECT_EQ(periodic.about("periodic"), nullptr);
  EXPECT_EQ(periodic.about("seed"), nullptr);
  Trace closed = two_clients();
  closed.clients.pop_back();
  closed.clients[0].issue = Issue::graph;
  const Answer alone = answer(closed, {}, "stp");
  EXPECT_EQ(alone.about("Poisson"), nullptr);
  EXPECT_NE(alone.about("single calls"), nullptr);
  EXPECT_EQ(alone.about("errs"), nullptr) << "nothing was promised";
  EXPECT_NE(answer(with_random_camera(), {"camera:p99=20ms"}, "stp").about("seeds by itself"), nullptr);
}

}  // namespace
}  // namespace corun::sim
