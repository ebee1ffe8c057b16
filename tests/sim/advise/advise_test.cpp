// Is the setting that is advised one that holds, the best of these, and surely where the margin exceeds the model's
// error?
#include "sim/advise/advise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/sim/advise/advised_traces.h"
#include "traces/json/mig_json.h"
#include "traces/model/error.h"
#include "traces/model/statistics.h"

namespace corun::sim {
namespace {

Advice ask(const std::vector<std::string>& slos, const std::string& goal, std::vector<AdvisedCard> cards = {}) {
  const Trace trace = two_clients();
  AdviseOptions options;
  for (const std::string& slo : slos) options.slos.push_back(parse_slo(slo, trace));
  options.goal = parse_goal(goal, trace);
  if (cards.empty()) cards.push_back({read_gpu("h200"), trace});
  return advise(cards, options);
}

Advice ask(const Trace& trace, const std::vector<std::string>& slos, const std::string& goal) {
  AdviseOptions options;
  options.slos = promised(slos, trace);
  options.goal = parse_goal(goal, trace);
  return advise({{read_gpu("h200"), trace}}, options);
}

TEST(Advise, TheBestOfTheSettingsThatLikelyHoldIsNamed) {
  const Advice advice = ask({"camera:p99=0.6ms"}, "batch:throughput");
  ASSERT_TRUE(advice.best);
  const Tried& best = advice.tried[*advice.best];
  EXPECT_TRUE(best.holds_likely());
  bool one_does_not_hold = false;
  for (const Tried& t : advice.tried) {
    one_does_not_hold |= t.ran() && !t.holds();
    if (t.holds_likely()) {
      EXPECT_LE(t.value, best.value) << t.setting.words;
    }
  }
  EXPECT_TRUE(one_does_not_hold) << "else the promise decides nothing";
  ASSERT_TRUE(advice.next);
  EXPECT_NE(advice.tried[*advice.next].setting.mode, best.setting.mode) << "the runner-up is another way of sharing";
  EXPECT_TRUE(advice.tried[*advice.next].holds());
}

TEST(Advise, OnlyTheModesThatWereAskedForAreTried) {
  const Trace trace = two_clients();
  AdviseOptions options;
  options.modes = {parse_mode("time-slicing"), parse_mode("green-contexts")};
  std::set<SharingMode> tried;
  for (const Tried& t : advise({{read_gpu("h200"), trace}}, options).tried) tried.insert(t.setting.mode);
  EXPECT_EQ(tried, (std::set{SharingMode::time_slicing, SharingMode::green_contexts}));
  EXPECT_THROW(parse_mode("timeslicing"), InputError);
}

TEST(Advise, OneClientHasTheWholeGpuOrAnInstanceOfMig) {
  Trace trace = two_clients();
  trace.clients.pop_back();
  trace.clients.front().arrivals = Periodic{from_ns(10e6)};
  const Gpu gpu = read_gpu("h200");
  AdviseOptions options;
  options.slos = {parse_slo("batch:p99=1.5ms", trace)};  // 0.4 ms on all 132 SMs
  const Advice advice = advise({{gpu, trace}}, options);
  ASSERT_TRUE(advice.best && advice.next);
  EXPECT_EQ(advice.tried[*advice.best].setting.policy, "fcfs") << "of equal ones what is simplest";
  EXPECT_EQ(advice.tried.size(), 1 + mig_geometry(gpu)->profiles.size()) << "each profile, not the largest";
  EXPECT_FALSE(advice.tried[1].holds()) << "16 SMs are too few";
  EXPECT_EQ(advice.tried[*advice.next].setting.mode, SharingMode::mig);
  EXPECT_FALSE(advice.tried[*advice.next - 1].holds_surely()) << "the next is the smallest that serves as well";
  EXPECT_LT(*advice.next, advice.tried.size() - 1);
  options.modes = {SharingMode::time_slicing};
  const Advice whole = advise({{gpu, trace}}, options);
  ASSERT_EQ(whole.tried.size(), 1u) << "the whole GPU is there without being set up";
  EXPECT_EQ(whole.tried.front().setting.policy, "fcfs");
}

TEST(Advise, WhereNothingHoldsTheNearestIsNamed) {
  const Advice advice = ask({"camera:p99=0.1ms"}, "stp");
  EXPECT_FALSE(advice.best || advice.next);
  ASSERT_TRUE(advice.nearest);
  for (const Tried& t : advice.tried)
    if (t.ran()) {
      EXPECT_GE(t.use, advice.tried[*advice.nearest].use) << t.setting.words;
    }
}

TEST(Advise, APromiseIsSureThatHoldsAtTheBadEndOfItsInterval) {
  Tried tried;
  tried.use = 0.8;
  tried.worst_use = 1;
  EXPECT_TRUE(tried.holds_surely());
  tried.worst_use = std::nextafter(1, 2);
  EXPECT_FALSE(tried.holds_surely());
  EXPECT_TRUE(tried.holds_likely());
  tried.worst_use = 1.6;
  EXPECT_FALSE(tried.holds_likely());
  EXPECT_TRUE(tried.holds());
  tried.use = std::nextafter(1.0, 2);
  EXPECT_FALSE(tried.holds());
}

TEST(Advise, TheLargestLatencyIsNoSurerThanItsP99) {
  for (const Tried& t : ask({"camera:max=0.6ms"}, "stp").tried)
    if (t.ran() && std::isfinite(t.use)) {
      EXPECT_GT(t.worst_use, 1.02 * t.use) << t.setting.words;
    }
}

TEST(Advise, RequestsThatAreDroppedBreakAPromiseOfLatency) {
  Trace trace = two_clients();
  trace.clients[1].arrivals = Periodic{from_ns(100'000)};  // twice what it can serve
  AdviseOptions options;
  options.slos = {parse_slo("camera:p99=1s", trace)};
  const Advice advice = advise({{read_gpu("h200"), trace}}, options);
  EXPECT_FALSE(advice.best);
}

TEST(Advise, EveryWayOfSharingIsTried) {
  const Advice advice = ask({}, "stp");
  std::set<SharingMode> modes;
  for (const Tried& t : advice.tried) {
    modes.insert(t.setting.mode);
    EXPECT_TRUE(t.ran()) << t.setting.words << ": " << t.refused;
    EXPECT_FALSE(t.setting.to_do.empty());
  }
  EXPECT_EQ(modes, (std::set{SharingMode::mps, SharingMode::priority, SharingMode::time_slicing,
                             SharingMode::percentages, SharingMode::green_contexts, SharingMode::mig}))
      << "streams would take one process for both";
}

TEST(Advise, WhatToTypeHasTheDevicePluginsConfigurationWhereItCanSetTheSettingUp) {
  Trace trace = two_clients();
  const auto plugin_of = [](const Setting& s) {
    const auto at = s.to_do.find("Kubernetes device plugin: ");
    return at == std::string::npos ? std::string() : s.to_do.substr(at + 26);
  };
  EXPECT_EQ(plugin_of(plain_settings(trace).front()),
            "{version: v1, sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 2}]}}}");
  std::size_t equal = 0;
  for (const Setting& s : percentage_settings(trace)) {
    if (s.policy != "mps:percentages=50/50") {
      EXPECT_EQ(plugin_of(s), "") << "it gives each client the same share: " << s.policy;
      continue;
    }
    ++equal;
    EXPECT_EQ(plugin_of(s), "{version: v1, sharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 2}]}}}");
  }
  EXPECT_EQ(equal, 1u);
  for (const Setting& s : mig_settings(trace, read_gpu("h200")))
    if (s.policy == "mig:profile=3g.71gb/4g.71gb") {
      EXPECT_EQ(plugin_of(s), "{version: v1, flags: {migStrategy: mixed}}, with nvidia.com/mig-3g.71gb, nvidia.com/mig-4g.71gb");
    }
  trace.clients.push_back(trace.clients[1]);
  trace.clients.back().name = "third";
  std::set<std::string> policies;
  for (const Setting& s : percentage_settings(trace))
    if (!plugin_of(s).empty()) policies.insert(s.policy);
  EXPECT_EQ(policies, std::set<std::string>{"mps:percentages=33/33/33"});
}

TEST(Advise, PercentagesAreTriedUnevenAndWithPriorities) {
  const Advice advice = ask({}, "batch:throughput");
  std::set<std::string> tried;
  bool camera_capped = false;
  for (const Tried& t : advice.tried) {
    if (t.setting.percent.empty()) continue;
    EXPECT_TRUE(tried.insert(t.setting.policy).second) << "twice: " << t.setting.policy;
    camera_capped |= t.setting.percent[1] < 100 && t.setting.percent[0] != t.setting.percent[1];
    const bool ranked = t.setting.policy.starts_with("priority:");
    EXPECT_EQ(t.setting.to_do.find("batch: CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=80 CUDA_MPS_CLIENT_PRIORITY=1") != std::string::npos,
              ranked && t.setting.percent[0] == 80);
    EXPECT_EQ(t.setting.to_do.find("CUDA_MPS_CLIENT_PRIORITY") != std::string::npos, ranked);
  }
  EXPECT_TRUE(camera_capped) << "the client that is in haste may leave SMs to the others";
  EXPECT_TRUE(tried.contains("priority:percentages=80/100"));
}

TEST(Advise, PercentagesUnderPrioritiesLimitAndRank) {
  const Trace trace = under(percentage_setting(two_clients(), {90, 100}, true), two_clients());
  const auto ran = [&](const std::string& policy) { return run(trace, read_gpu("h200"), {{.policy = policy}}).clients; };
  EXPECT_LT(ran("priority:percentages=100")[1].p99_ms, ran("mps:percentages=100")[1].p99_ms) << "the camera goes first";
  EXPECT_LT(ran("priority:percentages=30/100")[0].throughput_per_s, 0.5 * ran("priority")[0].throughput_per_s) << "the batch has its limit";
  EXPECT_THROW(ran("priority:percentages=50/50/50"), InputError);
  EXPECT_THROW(ran("priority:percentages=0"), InputError);
}

TEST(Advise, AStepOfPercentagesChangesOneClientAndStaysInRange) {
  const Trace trace = two_clients();
  std::set<std::string> policies;
  for (const Setting& s : uneven_settings(trace, percentage_setting(trace, {80, 100}, true), 20)) policies.insert(s.policy);
  EXPECT_EQ(policies, (std::set<std::string>{"priority:percentages=60/100", "priority:percentages=80/80"})) << "100/100 limits nobody";
  policies.clear();
  for (const Setting& s : uneven_settings(trace, percentage_setting(trace, {20, 50}, false), 10)) policies.insert(s.policy);
  EXPECT_EQ(policies, (std::set<std::string>{"mps:percentages=10/50", "mps:percentages=30/50", "mps:percentages=20/40", "mps:percentages=20/60"}));
}

TEST(Advise, ThreeClientsShareTwoInstancesInEveryWay) {
  Trace trace = two_clients();
  trace.clients.push_back(trace.clients[1]);
  trace.clients.back().name = trace.clients.back().process = "third";
  const Gpu gpu = read_gpu("h200");
  std::set<std::string> policies;
  for (const Setting& s : shared_mig_settings(trace, gpu)) policies.insert(s.policy);
  EXPECT_TRUE(policies.contains("mig:profile=4g.71gb/3g.71gb,clients=batch/camera+third,inside=mps"));
  EXPECT_TRUE(policies.contains("mig:profile=3g.71gb/4g.71gb,clients=batch+third/camera,inside=mps"));
  EXPECT_EQ(policies.size(), 3 * 2u) << "three ways, two divisions";
  AdviseOptions options;
  options.modes = {SharingMode::mig};
  std::size_t ran = 0;
  for (const Tried& t : advise({{gpu, trace}}, options).tried) ran += t.ran() && policies.contains(t.setting.policy);
  EXPECT_EQ(ran, policies.size());
  EXPECT_TRUE(shared_mig_settings(two_clients(), gpu).empty()) << "each has one of its own";
  trace.clients.back().name = "a+b";
  EXPECT_TRUE(shared_mig_settings(trace, gpu).empty()) << "the policy parts names there";
}

TEST(Advise, ASettingThatCannotHoldWeightsAndCachesIsRefusedWithNumbers) {
  Trace trace = two_clients();
  trace.clients[0].memory_bytes = 60'000'000'000;
  trace.clients[1].memory_bytes = 78'000'000'000;
  const Advice advice = advise({{read_gpu("h200"), trace}}, {});
  ASSERT_TRUE(advice.best);
  std::size_t instances = 0;
  for (const Tried& t : advice.tried) {
    if (t.setting.mode != SharingMode::mig) {
      EXPECT_TRUE(t.ran()) << t.setting.words << t.refused;
      continue;
    }
    ++instances;
    EXPECT_EQ(t.refused.find("78 GB for camera is needed, and ") != std::string::npos, true) << t.refused;
    EXPECT_NE(t.refused.find("g.71gb has 7"), std::string::npos) << t.refused;
  }
  EXPECT_GT(instances, 0u);
  trace.clients[0].memory_bytes = 80'000'000'000;
  const Advice none = advise({{read_gpu("h200"), trace}}, {});
  EXPECT_FALSE(none.best || none.nearest);
  EXPECT_EQ(none.tried.front().refused, "80 GB for batch and 78 GB for camera are needed, and h200 has 151 GB");
}

TEST(Advise, ASettingUnderWhichAProgramFailsIsNotNamed) {
  Trace trace = two_clients();
  trace.clients[0].memory_bytes = 60'000'000'000;
  Program& batch = trace.programs[0];
  batch.buffers = {"cache"};
  Op grow;
  grow.what = Alloc{0, 30'000'000'000};
  batch.ops.insert(batch.ops.begin(), grow);
  const Advice advice = ask(trace, {}, "stp");
  ASSERT_TRUE(advice.best);
  for (const Tried& t : advice.tried)
    if (t.setting.mode == SharingMode::mig) {
      EXPECT_NE(t.refused.find("batch: out of memory: it asks for 30 GB"), std::string::npos) << t.refused;
    }
}

TEST(Advise, PrioritiesFollowTheClassesWhereTheTraceHasNone) {
  const Trace trace = two_clients();
  for (const Setting& setting : plain_settings(trace))
    if (setting.mode == SharingMode::priority) {
      EXPECT_EQ(under(setting, trace).clients[1].priority, -5);
      EXPECT_EQ(under(setting, trace).clients[0].priority, 0);
      Trace own = trace;
      own.clients[0].priority = -2;
      EXPECT_EQ(under(setting, own).clients[1].priority, 0) << "the trace's own are kept";
    }
}

TEST(Advise, OfTheCardsThatHoldTheFirstIsTaken) {
  const Trace trace = two_clients();
  const AdvisedCard small{read_gpu("l4"), trace}, large{read_gpu("h200"), trace};
  const Advice loose = ask({"camera:p99=100ms"}, "batch:throughput", {small, large});
  ASSERT_TRUE(loose.best);
  EXPECT_EQ(loose.tried[*loose.best].card, 0u);
}

TEST(Advise, UpToTheHighestRateThePromiseHoldsAndAboveItDoesNot) {
  Trace trace = two_clients();
  AdviseOptions options;
  options.slos = {parse_slo("camera:p99=0.6ms", trace)};
  const AdvisedCard card{read_gpu("h200"), trace};
  const Setting setting{SharingMode::priority, "priority", "", "", true};
  const auto rate = highest_rate(card, setting, 1, options);
  ASSERT_TRUE(rate);
  EXPECT_NEAR(rate->now, 500, 1e-6);
  ASSERT_FALSE(rate->more);
  const auto holds = [&](double per_s) {
    AdvisedCard at = card;
    at.trace.clients[1].arrivals = Periodic{from_ns(1e9 / per_s)};
    for (const Tried& t : advise({at}, options).tried)
      if (t.setting.policy == "priority") return t.holds();
    return false;
  };
  EXPECT_TRUE(holds(rate->highest));
  EXPECT_FALSE(holds(rate->highest * 1.05));
  EXPECT_FALSE(highest_rate(card, setting, 0, options)) << "a closed loop has no rate";
}

TEST(Advise, WhatAServerPromisedDecidesWhichSettingIsNamed) {
  const Advice loose = ask(server_and_training(0, 0), {}, "train:throughput");
  const Advice kept = ask(server_and_training(1.5, 1), {}, "train:throughput");
  ASSERT_TRUE(loose.best && kept.best);
  const auto first_token = [](const Advice& a) { return value_of(a.tried[*a.best].results.front().clients[0], Metric::ttft); };
  EXPECT_GT(first_token(loose), 1.5) << "else the promise decides nothing";
  EXPECT_LE(first_token(kept), 1.5);
  EXPECT_LE(value_of(kept.tried[*kept.best].results.front().clients[0], Metric::tbt), 1);
  EXPECT_LT(kept.tried[*kept.best].value, loose.tried[*loose.best].value);
  EXPECT_GT(kept.tried[*kept.best].worst_use, kept.tried[*kept.best].use) << "a server's times err as its steps do";
  const Advice none = ask(server_and_training(0.2, 0), {}, "train:throughput");
  EXPECT_FALSE(none.best) << "the prompt alone takes longer";
}

TEST(Advise, EachClientsOwnPromiseIsKeptBesideWhatIsWritten) {
  Trace trace = server_and_training(200, 50);
  trace.clients[1].deadline = from_ns(9e6);
  const auto texts = [&](const std::vector<std::string>& written) {
    std::set<std::string> all;
    for (const Slo& slo : promised(written, trace)) all.insert(slo.text);
    return all;
  };
  EXPECT_EQ(texts({}), (std::set<std::string>{"llm:ttft=200ms", "llm:tbt=50ms", "train:p99=9ms"}));
  EXPECT_EQ(texts({"llm:ttft=100ms", "train:throughput=30"}),
            (std::set<std::string>{"llm:ttft=100ms", "llm:tbt=50ms", "train:p99=9ms", "train:throughput=30"}))
      << "of the same metric what is written is meant";
}

TEST(Advise, AServerOfWhichNoSequenceEndsKeepsNoPromise) {
  Trace trace = server_and_training(200, 50);
  for (Sequence& s : trace.clients[0].serving->sequences) s.generated = 900;  // of 90 ms alone
  const Advice advice = ask(trace, {}, "train:throughput");
  ASSERT_TRUE(advice.best);
  EXPECT_GT(advice.tried[*advice.best].together.clients[0].served->finished, 0u);
  EXPECT_TRUE(std::ranges::any_of(advice.tried, [](const Tried& t) { return t.ran() && t.together.clients[0].served->finished == 0 && !t.holds(); }))
      << "its tokens come in time, but it falls behind";
  for (Sequence& s : trace.clients[0].serving->sequences) s.generated = 1'000'000;
  EXPECT_THROW(ask(trace, {}, "train:throughput"), InputError) << "the window is too short";
}

TEST(Advise, ARateThatWasPromisedIsAFloor) {
  const Trace trace = server_and_training(1.5, 0);
  EXPECT_TRUE(ask(trace, {"llm:tokens=300"}, "stp").best);
  EXPECT_FALSE(ask(trace, {"llm:tokens=900"}, "stp").best) << "18 sequences of 5 tokens in 200 ms are 450";
  EXPECT_FALSE(ask(trace, {"llm:goodput=100"}, "stp").best) << "90 come";
  const Advice good = ask(trace, {"llm:goodput=80/s"}, "llm:tokens");
  ASSERT_TRUE(good.best);
  EXPECT_GE(value_of(good.tried[*good.best].results.front().clients[0], Metric::goodput), 80);
}

TEST(Advise, AMetricThatTheClientCannotHaveIsRefusedWithThoseThatItHas) {
  const Trace trace = server_and_training(0, 0);
  const auto said = [&](const std::string& slo) {
    try {
      parse_slo(slo, trace);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  for (const char* has : {"llm", "p99", "step", "ttft", "tbt", "goodput", "tokens"})
    EXPECT_NE(said("llm:p99=20ms").find(has), std::string::npos) << said("llm:p99=20ms");
  EXPECT_NE(said("llm:throughput=3").find("tokens"), std::string::npos);
  for (const char* has : {"train", "no server", "p99", "throughput"})
    EXPECT_NE(said("train:ttft=20ms").find(has), std::string::npos) << said("train:ttft=20ms");
  EXPECT_NE(said("llm:tftt=20ms").find("did you mean"), std::string::npos);
  EXPECT_EQ(said("llm:tokens=900tokens/s"), "");
  EXPECT_NE(said("llm:goodput=4ms").find("sequences"), std::string::npos);
  EXPECT_THROW(parse_goal("llm:mean", trace), InputError);
}

TEST(Advise, APromiseThatNothingJudgesIsRefused) {
  Trace trace = server_and_training(200, 0);
  trace.run.warm_up = from_ns(190e6);  // after the last sequence has come
  EXPECT_THROW(ask(trace, {}, "train:throughput"), InputError);
  EXPECT_THROW(ask(trace, {"llm:ttft=1s"}, "llm:tokens"), InputError);
  trace.clients[0].serving->first_token_slo.reset();
  EXPECT_THROW(ask(trace, {}, "llm:tokens"), InputError) << "nor a goal";
  EXPECT_TRUE(ask(trace, {}, "train:throughput").best) << "which nobody asked for";
  Trace late = two_clients();
  late.clients[1].arrivals = ExplicitTimes{{from_ns(60e6)}};  // after the end
  EXPECT_THROW(ask(late, {"camera:p99=1ms"}, "stp"), InputError);
  Trace single = server_and_training(0, 50);
  for (Sequence& s : single.clients[0].serving->sequences) s.generated = 1;
  EXPECT_THROW(ask(single, {}, "stp"), InputError) << "a sequence of one token has no time between tokens";
}

TEST(Advise, AServersHighestRateIsOfItsSequences) {
  const Trace trace = server_and_training(1.5, 0);
  AdviseOptions options;
  options.slos = promised({}, trace);
  const auto rate = highest_rate({read_gpu("h200"), trace}, {SharingMode::priority, "priority", "", "", true}, 0, options);
  ASSERT_TRUE(rate);
  EXPECT_NEAR(rate->now, 100, 1e-6);
  EXPECT_GT(rate->highest, 100);
}

TEST(Advise, ASettingHoldsWhereTheRequestsOfAllSeedsTogetherKeepThePromise) {
  const Trace trace = with_random_camera();
  AdviseOptions options;
  options.goal = parse_goal("batch:throughput", trace);
  options.modes = {SharingMode::priority};  // one setting
  options.seeds = {1, 2, 3, 4, 5};
  options.slos = {parse_slo("camera:p99=100ms", trace)};
  const Tried loose = advise({{read_gpu("h200"), trace}}, options).tried.front();
  ASSERT_EQ(loose.results.size(), 5u);
  std::vector<Time> all;
  for (const RunResult& r : loose.results) all.insert(all.end(), r.clients[1].latencies.ended.begin(), r.clients[1].latencies.ended.end());
  std::ranges::sort(all);
  EXPECT_EQ(loose.together.clients[1].p99_ms, percentile_ms(all, 99));
  EXPECT_EQ(loose.held_in, 5u);

  const auto p99 = [](const RunResult& r) { return r.clients[1].p99_ms; };
  options.slos.front().limit = loose.together.clients[1].p99_ms;
  ASSERT_LT(options.slos.front().limit, estimate(loose.results, p99).most) << "one of the seeds breaks it by itself";
  const Advice just = advise({{read_gpu("h200"), trace}}, options);
  ASSERT_TRUE(just.best);
  EXPECT_LT(just.tried.front().held_in, 5u);
  options.slos.front().limit *= 0.999;
  EXPECT_FALSE(advise({{read_gpu("h200"), trace}}, options).best);
}

TEST(Advise, IntervalsOfSeveralSeedsAreWiderByHowFarTheseLieApart) {
  const Trace trace = with_random_camera();
  AdviseOptions options;
  options.modes = {SharingMode::priority};
  options.seeds = {1, 2, 3, 4, 5};
  options.slos = {parse_slo("camera:p99=100ms", trace)};
  const Tried t = advise({{read_gpu("h200"), trace}}, options).tried.front();
  const Interval model = t.together.clients[1].intervals->p99_ms;
  const Interval both = interval_of(t, 1, Metric::p99);
  EXPECT_LT(both.low, model.low);
  EXPECT_GT(both.high, model.high);
  Tried one = t;
  one.results.resize(1);
  EXPECT_EQ(interval_of(one, 1, Metric::p99).high, model.high) << "one seed says nothing of others";
}

TEST(Advise, ASettingThatServesTheGoalBetterHasMoreSeedsAsLongAsItMayHold) {
  const Trace trace = with_random_camera();
  AdviseOptions options;
  options.goal = parse_goal("batch:throughput", trace);
  options.slos = {parse_slo("camera:p99=0.65ms", trace)};
  options.seeds = {1, 2, 3, 4, 5};
  const Advice advice = advise({{read_gpu("h200"), trace}}, options);
  ASSERT_TRUE(advice.best);
  const Tried& best = advice.tried[*advice.best];
  ASSERT_EQ(best.results.size(), 5u);
  EXPECT_LE(best.use, 1);
  std::size_t under_one = 0;
  for (const Tried& t : advice.tried) {
    under_one += t.results.size() == 1;
    if (t.ran() && t.value > best.value && t.results.size() < 5) {
      EXPECT_FALSE(t.may_hold()) << t.setting.words;
    }
  }
  EXPECT_GT(under_one, advice.tried.size() / 2) << "others are not worth five runs";
}

TEST(Advise, OnlyWhatIsRandomHasSeveralSeeds) {
  Trace trace = two_clients();
  trace.run.seed = 7;
  EXPECT_EQ(usual_seeds(trace), std::vector<std::uint64_t>{7});
  trace.clients[1].arrivals = Poisson{500, 0};
  EXPECT_EQ(usual_seeds(trace), (std::vector<std::uint64_t>{7, 8, 9, 10, 11}));
  trace = two_clients();
  trace.clients[0].host_stalls = HostStalls{from_ns(1e9), {{from_ns(1e6), from_ns(1e5)}}};
  EXPECT_EQ(usual_seeds(trace).size(), 5u) << "the seed says where in its record a host stands still";
}

TEST(Advise, WhereNothingHoldsTheNearestIsSoUnderEverySeed) {
  const Trace trace = with_random_camera();
  AdviseOptions options;
  options.slos = {parse_slo("camera:p99=0.1ms", trace)};
  options.seeds = {1, 2, 3};
  const Advice advice = advise({{read_gpu("h200"), trace}}, options);
  ASSERT_TRUE(advice.nearest);
  EXPECT_EQ(advice.tried[*advice.nearest].results.size(), 3u);
  EXPECT_EQ(advice.tried[*advice.nearest].held_in, 0u);
}

TEST(Advise, WhatIsPromisedMustNameAClientAMetricAndALimit) {
  const Trace trace = two_clients();
  EXPECT_DOUBLE_EQ(parse_slo("camera:p99=500us", trace).limit, 0.5);
  EXPECT_DOUBLE_EQ(parse_slo("batch:throughput=30/s", trace).limit, 30);
  for (const char* bad : {"camera", "camera:p99", "camer:p99=1ms", "camera:p98=1ms", "camera:p99=1", "camera:p99=0ms",
                          "camera:p99=ms", "batch:throughput=30ms", "batch:throughput=-1"})
    EXPECT_THROW(parse_slo(bad, trace), InputError) << bad;
  EXPECT_THROW(parse_goal("batch", trace), InputError);
  Trace with_deadline = trace;
  with_deadline.clients[1].deadline = from_ns(2e6);
  ASSERT_EQ(slos_of(with_deadline).size(), 1u);
  EXPECT_DOUBLE_EQ(slos_of(with_deadline)[0].limit, 2);
}

}  // namespace
}  // namespace corun::sim
