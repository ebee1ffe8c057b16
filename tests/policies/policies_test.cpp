// What does each policy decide?  All of them over random workloads; greedy's Algorithm 1 against a script;
// what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "policies/api/registry.h"
#include "sim/backend/sim_backend.h"
#include "sim/forecast/forecast.h"
#include "sim/run/profile.h"
#include "tests/support/random_trace.h"
#include "tests/support/run_trace.h"
#include "tests/support/scripted_backend.h"
#include "traces/model/error.h"
#include "traces/model/op_order.h"

namespace corun::sim {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> every_policy() {
  std::vector<std::string> names;
  for (const PolicyInfo& p : policies()) names.push_back(p.name);
  names.push_back("tpc-mask:split=even");
  names.push_back("token-bucket:percentages=50,bucket_ms=0.01,interval_ms=0.01");
  for (const char* reef : {"reef:depth=0", "reef:padding=off", "reef-n:padding=on", "reef-n:depth=0"})
    names.emplace_back(reef);
  return names;
}

// ---- every policy -----------------------------------------------------------------------------------------

class EveryPolicy : public testing::TestWithParam<std::string> {};

/// Start and end of one operation on the GPU.
struct Span {
  Time queued{}, finished{};
};

/// Operations of each request as the GPU ran them: within a stream, and along events, one after the other.
void expect_program_order(const Trace& trace, const Ran& ran) {
  std::map<std::tuple<ClientId, std::uint64_t, OpId>, Span> spans;
  for (const KernelRecord& k : ran.kernels) spans[{k.client, k.request, k.op}] = {k.started, k.finished};
  for (const CopyRecord& c : ran.copies) spans[{c.client, c.request, c.op}] = {c.started, c.finished};
  for (const auto& [key, span] : spans) {
    const auto& [client, request, op] = key;
    const OpOrder order(trace.programs[trace.clients[client.value].program.value]);
    for (OpId before : order.predecessors(op)) {
      const auto found = spans.find({client, request, before});
      ASSERT_NE(found, spans.end()) << "operation " << before.value << " never ran";
      ASSERT_GE(span.queued, found->second.finished)
          << "operation " << op.value << " overtook " << before.value;
    }
  }
}

TEST_P(EveryPolicy, FinishesEveryKernelInTheOrderOfStreamsAndEvents) {
  for (std::uint64_t seed = 1001; seed <= 1060; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const auto [gpu, trace] = random_scenario(seed, Requests::one);
    const Ran ran = run_trace(trace, gpu, GetParam());
    ASSERT_EQ(ran.outcome.stuck, "");
    std::size_t kernels = 0, copies = 0;
    for (const Client& client : trace.clients)
      for (const Op& op : trace.programs[client.program.value].ops) {
        kernels += std::holds_alternative<corun::Launch>(op.what);
        copies += std::holds_alternative<Copy>(op.what);
      }
    ASSERT_EQ(ran.kernels.size(), kernels);
    ASSERT_EQ(ran.copies.size(), copies);
    ASSERT_EQ(ran.requests.size(), trace.clients.size());
    for (const KernelRecord& k : ran.kernels) {
      ASSERT_NE(k.finished, kNever);
      ASSERT_LE(k.ready, k.submitted);
      ASSERT_LE(k.submitted + gpu.launch_latency * (gpu.launch_latency < gpu.graph_launch_latency), k.queued);
      ASSERT_LE(k.queued, k.slotted);
      ASSERT_LE(k.slotted, k.started);
      ASSERT_LE(k.started, k.last_block);
      ASSERT_LT(k.last_block, k.finished);
    }
    for (const RequestRecord& r : ran.requests) ASSERT_NE(r.finished, kNever);
    expect_program_order(trace, ran);
  }
}

TEST_P(EveryPolicy, GivesTheSameRecordsForTheSameSeed) {
  for (std::uint64_t seed = 2001; seed <= 2015; ++seed) {
    const auto [gpu, trace] = random_scenario(seed, Requests::repeated);
    const Ran first = run_trace(trace, gpu, GetParam()), second = run_trace(trace, gpu, GetParam());
    ASSERT_EQ(lines(first.kernels), lines(second.kernels)) << "seed " << seed;
    ASSERT_EQ(lines(first.requests), lines(second.requests)) << "seed " << seed;
  }
}

TEST_P(EveryPolicy, NeverStopsWhileRequestsKeepComing) {
  for (std::uint64_t seed = 3001; seed <= 3030; ++seed) {
    const auto [gpu, trace] = random_scenario(seed, Requests::repeated);
    const Ran ran = run_trace(trace, gpu, GetParam());
    ASSERT_EQ(ran.outcome.stuck, "") << "seed " << seed;
    ASSERT_EQ(ran.outcome.end, *trace.run.duration) << "seed " << seed;
    expect_program_order(trace, ran);
  }
}

/// The simulated GPU, but the first decisions are refused.
class ReluctantBackend final : public Backend {
 public:
  ReluctantBackend(SimBackend& backend, std::uint32_t refusals) : backend_(backend), refusals_(refusals) {}
  const Topology& topology() const override { return backend_.topology(); }
  Forecast* forecast() override { return backend_.forecast(); }
  Time now() const override { return backend_.now(); }
  void wait(Time until, std::vector<Notice>& notices) override { backend_.wait(until, notices); }
  Outcome apply(const Decision& d, const LaunchView& l, std::span<const LaunchId> follows) override {
    if (refusals_ == 0) return backend_.apply(d, l, follows);
    --refusals_;
    return Refused{"not now"};
  }
  Outcome pad(const decide::LaunchPadded& d, const LaunchView& l, const LaunchView& padding,
              std::span<const LaunchId> follows) override {
    if (refusals_ == 0) return backend_.pad(d, l, padding, follows);
    --refusals_;
    return Refused{"not now"};
  }
  Outcome copy(const LaunchView& c, std::span<const LaunchId> follows) override {
    return backend_.copy(c, follows);
  }

 private:
  SimBackend& backend_;
  std::uint32_t refusals_;
};

TEST_P(EveryPolicy, SurvivesRefusals) {
  for (const std::uint32_t refusals : {1u, 2u, 7u, 20u}) {
    TraceBuilder b;
    const KernelId k = b.kernel(kernel(40, 256, us(3)));
    const ProgramId p = b.program({launch(k, 0), launch(k, 1), after(launch(k, 0), {1}), launch(k, 1)});
    b.client("a", p);
    b.client("b", p);
    // Its arrivals are the occasions at which the policy is asked again.
    b.client("ticks", b.program({launch(k)}), Periodic{us(10), us(1)});
    b.trace.run.duration = ms(1);
    Ran ran;
    Timeline timeline;
    timeline.attach(ran);
    const auto policy = make_policy(GetParam());
    SimBackend simulated(b.trace, slow_host_gpu(4), policy->requirements(), timeline, {true, true});
    simulated.offer(make_forecast(b.trace, slow_host_gpu(4), policy->requirements()));
    ReluctantBackend backend(simulated, refusals);
    Session session(b.trace, *policy, backend, timeline, [&](KernelId kernel) {
      return profile_kernel(b.trace.kernels[kernel.value], simulated.topology().gpu);
    });
    const SessionOutcome outcome = session.run();
    EXPECT_GE(outcome.refusals, refusals);
    for (const ClientId client : {ClientId{0}, ClientId{1}}) {
      EXPECT_EQ(ran.of(client).size(), 4u) << refusals << " refusals";
      for (const KernelRecord& record : ran.of(client)) EXPECT_NE(record.finished, kNever);
    }
    expect_program_order(b.trace, ran);
  }
}

constexpr CapabilitySet kSimulated{
    Capability::order,         Capability::priority, Capability::tpc_mask,   Capability::cta_quota,
    Capability::sm_quota,      Capability::progress, Capability::time_slice, Capability::preempt_at_block,
    Capability::preempt_reset, Capability::padding,  Capability::memory_swap};

std::string problem_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const InputError& error) {
    return error.what();
  }
  return "no InputError";
}

TEST_P(EveryPolicy, IsRefusedAtTheStartByABackendThatLacksWhatItNeeds) {
  TraceBuilder b;
  b.one_kernel("client", kernel(1, 32, us(1)));
  const auto policy = make_policy(GetParam());
  const Requirements needs = policy->requirements();
  for (std::uint32_t i = 0; i < kCapabilities; ++i) {
    const auto one = static_cast<Capability>(i);
    const Gpu gpu = small_gpu(1);
    ScriptedBackend backend(gpu, kSimulated.without({one}));
    backend.offer(make_forecast(b.trace, gpu, needs));
    Timeline timeline;
    const auto start = [&] { Session session(b.trace, *policy, backend, timeline, {}); };
    if (needs.capabilities.has(one)) {
      EXPECT_THAT(problem_of(start),
                  AllOf(HasSubstr(to_string(one)), HasSubstr(std::string(policy->name()))));
    } else {
      EXPECT_NO_THROW(start());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Registered, EveryPolicy, testing::ValuesIn(every_policy()), [](const auto& test) {
  std::string name = test.param;
  std::erase_if(name, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); });
  return name;
});

// ---- names and parameters ---------------------------------------------------------------------------------

TEST(Registry, AnUnknownPolicyIsAnInputErrorThatListsTheNames) {
  EXPECT_THAT(problem_of([] { make_policy("greedi"); }),
              AllOf(HasSubstr("'greedi'"), HasSubstr("greedy"), HasSubstr("fcfs")));
}
TEST(Registry, AnUnknownParameterIsAnInputErrorThatListsTheParameters) {
  EXPECT_THAT(problem_of([] { make_policy("tpc-mask:spilt=even"); }),
              AllOf(HasSubstr("spilt"), HasSubstr("split")));
  EXPECT_THAT(problem_of([] { make_policy("fcfs:split=even"); }), HasSubstr("no parameters"));
}
TEST(Registry, AValueThatAParameterCannotHaveIsAnInputErrorThatListsTheChoices) {
  EXPECT_THAT(problem_of([] { make_policy("tpc-mask:split=odd"); }),
              AllOf(HasSubstr("odd"), HasSubstr("even")));
}
TEST(Registry, AParameterWithoutAValueIsAnInputError) {
  EXPECT_THAT(problem_of([] { make_policy("tpc-mask:split"); }), HasSubstr("key=value"));
}
TEST(Registry, ValuesPartedByCommasAreToldHowToBeWritten) {
  EXPECT_THAT(problem_of([] { make_policy("mps:percentages=100,50"); }), AllOf(HasSubstr("'50' does not say of which parameter it is"), HasSubstr("percentages=100/50")));
  EXPECT_THAT(problem_of([] { make_policy("mps:percentages=60,30,10"); }), HasSubstr("percentages=60/30"));
  EXPECT_THAT(problem_of([] { make_policy("mps:100,50"); }), AllOf(HasSubstr("'100' does not say"), HasSubstr("percentages=100/50")));
  EXPECT_THAT(problem_of([] { make_policy("50"); }), AllOf(HasSubstr("a comma begins another policy"), HasSubstr("50/50"))) << "of a list of policies";
}
TEST(Registry, AParameterMayTakeAllThatFollows) {
  const std::vector<Parameter> known{{"a", "", "1"}, {"inside", "", "none", true}};
  EXPECT_EQ(Parameters("p", known, "a=2:inside=q:a=3,b=4").text("inside"), "q:a=3,b=4");
  EXPECT_EQ(Parameters("p", known, "a=2,inside=q").text("a"), "2");
  EXPECT_EQ(Parameters("p", known, "inside=q").text("a"), "1");
  EXPECT_EQ(Parameters("p", known, "a=2").text("inside"), "none");
  EXPECT_THROW(Parameters("p", known, "b=2:inside=q"), InputError);
}
TEST(Registry, APolicyIsFoundByTheWordsOfThoseWhoOperateGpus) {
  EXPECT_EQ(make_policy("equal-slices")->name(), "timeslice");
  EXPECT_EQ(make_policy("green-contexts:split=even")->name(), "tpc-mask");
  EXPECT_EQ(make_policy("gpucores:percentages=20")->name(), "token-bucket");
  EXPECT_EQ(make_policy("static-partitioning:chunks=8/8")->name(), "mps-static");
}
TEST(Registry, NoTwoPoliciesGoByOneName) {
  std::set<std::string> names;
  for (const PolicyInfo& p : policies()) {
    EXPECT_TRUE(names.insert(p.name).second) << p.name;
    for (const std::string& also : p.also_called) EXPECT_TRUE(names.insert(also).second) << also;
  }
}
TEST(Registry, APolicyIsWhatItsNameSays) {
  for (const PolicyInfo& p : policies()) EXPECT_EQ(make_policy(p.name)->name(), p.name);
}

// ---- tpc-mask
// ------------------------------------------------------------------------------------------------------

TEST(TpcMaskPolicy, EvenSplitKeepsEachClientOnItsTpcs) {
  for (const std::uint32_t clients : {1u, 2u, 3u, 4u}) {
    TraceBuilder b;
    for (std::uint32_t i = 0; i < clients; ++i) b.one_kernel(std::to_string(i), kernel(300, 256, us(3)));
    Gpu gpu = small_gpu(14);
    gpu.sms_per_tpc = 2;
    const Ran ran = run_trace(b.trace, gpu, "tpc-mask:split=even", Record::blocks);
    std::vector<std::set<std::uint32_t>> tpcs(clients);
    for (const BlockRecord& block : ran.blocks) tpcs[block.client.value].insert(block.sm.value / 2);
    std::set<std::uint32_t> used;
    for (const auto& mine : tpcs) {
      EXPECT_GE(mine.size(), 7 / clients);
      EXPECT_LE(mine.size(), (7 + clients - 1) / clients);
      for (const std::uint32_t tpc : mine)
        EXPECT_TRUE(used.insert(tpc).second) << "TPC " << tpc << " has two owners";
    }
    EXPECT_EQ(used.size(), 7u);
  }
}

TEST(TpcMaskPolicy, TheFinestMaskOfTheTraceWins) {
  TraceBuilder b;
  const KernelId k = b.kernel(kernel(40, 256, us(3)));
  Op own = launch(k, 1);
  std::get<corun::Launch>(own.what).tpc_mask = TpcMask::range(2, 3);
  Client& c = b.client("client", b.program({launch(k, 0), launch(k, 1), own}));
  c.tpc_mask = TpcMask::range(0, 1);
  c.streams[1].tpc_mask = TpcMask::range(1, 2);
  const Ran ran = run_trace(b.trace, small_gpu(4), "tpc-mask", Record::blocks);
  for (std::uint32_t op = 0; op < 3; ++op)
    EXPECT_THAT(sms_of(ran.blocks_of(ran.of(ClientId{0})[op].launch)), testing::Each(op));
}

TEST(PriorityPolicy, AStreamsPriorityOverridesItsClients) {
  TraceBuilder b;
  const KernelId k = b.kernel(kernel(1, 256, us(3)));
  Client& c = b.client("client", b.program({launch(k, 0), launch(k, 1)}));
  c.priority = -1;
  c.streams[1].priority = -2;
  const Ran ran = run_trace(b.trace, small_gpu(4), "priority");
  EXPECT_EQ(ran.of(ClientId{0})[0].priority, -1);
  EXPECT_EQ(ran.of(ClientId{0})[1].priority, -2);
}

// ---- greedy: Algorithm 1 of Bashizade, Li and Lebeck
// ---------------------------------------------------------------

/// Four SMs of 64 warps: eight CTAs of 32 warps fit the device.  Each kernel has 100 blocks and a solo time
/// that is its profile's last, so that the profile is that of the launch.
struct Script : TraceBuilder {
  ScriptedBackend backend{small_gpu(4), kSimulated};
  std::vector<Profile> profiles;
  SessionOutcome outcome;

  void kernel_with(Profile profile, Time arrival) {
    Kernel k = sim::kernel(100, 1024, us(1));
    k.solo_time = profile.back().time;
    profiles.push_back(std::move(profile));
    one_kernel(std::to_string(trace.clients.size()), k, arrival);
  }
  void run() {
    Timeline timeline;
    const auto policy = make_policy("greedy");
    Session session(trace, *policy, backend, timeline, [this](KernelId k) { return profiles[k.value]; });
    outcome = session.run();
  }
};

const Profile kA{{1, us(100)}, {2, us(60)}, {6, us(30)}};
const Profile kB{{1, us(50)}, {2, us(28)}, {4, us(20)}};

TEST(Greedy, AKernelAloneGetsItsLargestConfiguration) {
  Script s;
  s.kernel_with(kA, us(0));
  s.backend.finish(us(50), 0);
  s.run();
  EXPECT_THAT(s.backend.at(us(0)), ElementsAre("launch 0 ctas 6"));
}

TEST(Greedy, TheKernelWithTheLongestRemainingTimeAdvancesUntilItNoLongerFits) {
  // A 1 (100), B 1 (50): A 2 (60), A 6 (30), B 2 (28); A is at its maximum; B 4 would make 10 of 8: rolled
  // back, marked.
  Script s;
  s.kernel_with(kA, us(0));
  s.kernel_with(kB, us(0));
  s.backend.finish(us(50), 0);
  s.backend.finish(us(50), 1);
  s.run();
  EXPECT_THAT(s.backend.at(us(0)), ElementsAre("launch 0 ctas 6", "launch 1 ctas 2"));
}

TEST(Greedy, AfterARollbackTheOthersGoOn) {
  // A 1 (100), B 1 (50): A 4 (30), B 2 (26); A 8 would make 10: rolled back, marked; B 3 (18), B 4 (14): 8 in
  // all.
  Script s;
  s.kernel_with({{1, us(100)}, {4, us(30)}, {8, us(20)}}, us(0));
  s.kernel_with({{1, us(50)}, {2, us(26)}, {3, us(18)}, {4, us(14)}}, us(0));
  s.backend.finish(us(50), 0);
  s.backend.finish(us(50), 1);
  s.run();
  EXPECT_THAT(s.backend.at(us(0)), ElementsAre("launch 0 ctas 4", "launch 1 ctas 4"));
}

TEST(Greedy, PointsThatAreNotFasterArePruned) {
  // 12 do not fit.  Unpruned it would stop at 2, whose next point is no improvement, or take 7.
  Script s;
  s.kernel_with({{1, us(80)}, {2, us(90)}, {4, us(40)}, {7, us(40)}, {12, us(20)}}, us(0));
  s.backend.finish(us(50), 0);
  s.run();
  EXPECT_THAT(s.backend.at(us(0)), ElementsAre("launch 0 ctas 4"));
}

TEST(Greedy, AsksAllRunningKernelsOnAnArrivalAndWaitsForEveryAnswer) {
  Script s;
  s.kernel_with({{1, us(100)}, {3, us(40)}}, us(0));
  s.kernel_with({{1, us(100)}, {3, us(40)}}, us(0));
  s.kernel_with(kB, us(10));
  s.backend.progress(us(14), 0, 10);
  s.backend.progress(us(18), 1, 10);
  for (std::uint32_t i = 0; i < 3; ++i) s.backend.finish(us(90), i);
  s.run();
  EXPECT_THAT(s.backend.at(us(10)), ElementsAre("query 0", "query 1"));
  EXPECT_THAT(s.backend.at(us(14)), IsEmpty());
  EXPECT_THAT(s.backend.at(us(18)), testing::Contains("launch 2 ctas 2"));
}

TEST(Greedy, TakesCtasFromAKernelThatIsNearlyDone) {
  // A has 10 % left: 10, 6, 3.  B 1 (50), B 2 (28), B 4 (20); then A 2 (6); A 6 would make 10: rolled back.
  Script s;
  s.kernel_with(kA, us(0));
  s.kernel_with(kB, us(10));
  s.backend.progress(us(15), 0, 90);
  s.backend.finish(us(50), 0);
  s.backend.finish(us(50), 1);
  s.run();
  EXPECT_THAT(s.backend.at(us(0)), ElementsAre("launch 0 ctas 6"));
  EXPECT_THAT(s.backend.at(us(15)), ElementsAre("resize 0 ctas 2", "launch 1 ctas 4"));
}

TEST(Greedy, LeavesASizeAloneThatNeedNotChange) {
  // A has half left: 50, 30, 15, beside B 50, 28, 20: A 2, B 2, A 6; B 4 would make 10.
  Script s;
  s.kernel_with(kA, us(0));
  s.kernel_with(kB, us(10));
  s.backend.progress(us(15), 0, 50);
  s.backend.finish(us(50), 0);
  s.backend.finish(us(50), 1);
  s.run();
  EXPECT_THAT(s.backend.at(us(15)), ElementsAre("launch 1 ctas 2"));
}

TEST(Greedy, GivesCtasBackWhenAnotherStartsItsLastBlock) {
  Script s;
  s.kernel_with(kA, us(0));
  s.kernel_with(kB, us(0));
  s.backend.last_block(us(20), 0);  // A drains: it keeps what it has and is not counted
  s.backend.progress(us(24), 1, 40);
  s.backend.finish(us(30), 0);
  s.backend.finish(us(50), 1);
  s.run();
  EXPECT_THAT(s.backend.at(us(20)), ElementsAre("query 1"));
  EXPECT_THAT(s.backend.at(us(24)), ElementsAre("resize 1 ctas 4"));
  EXPECT_THAT(s.backend.at(us(30)), IsEmpty());  // an end alone calls for nothing
}

TEST(Greedy, AnEndBeforeTheAnswerDoesNotBlockTheRound) {
  Script s;
  s.kernel_with(kA, us(0));
  s.kernel_with(kB, us(10));
  s.backend.last_block(us(12), 0);
  s.backend.finish(us(13), 0);
  s.backend.finish(us(50), 1);
  s.run();
  EXPECT_THAT(s.backend.at(us(10)), ElementsAre("query 0"));
  EXPECT_THAT(s.backend.at(us(12)), ElementsAre("launch 1 ctas 4"));
}

TEST(Greedy, ArrivalsDuringARoundAreTakenIn) {
  Script s;
  s.kernel_with(kA, us(0));
  s.kernel_with(kB, us(10));
  s.kernel_with(kB, us(12));
  s.backend.progress(us(15), 0, 50);
  for (std::uint32_t i = 0; i < 3; ++i) s.backend.finish(us(50), i);
  s.run();
  EXPECT_THAT(s.backend.at(us(12)), IsEmpty());
  // A half done: 50, 30, 15; B and C 50, 28, 20.  A 2, B 2, C 2; A 6 makes 10: marked; B 4 makes 8; C 4
  // makes 10.
  EXPECT_THAT(s.backend.at(us(15)), ElementsAre("resize 0 ctas 2", "launch 1 ctas 4", "launch 2 ctas 2"));
}

TEST(Greedy, KernelsOfWhichNotEvenOneCtaEachFitsWaitForTheNextRound) {
  Script s;
  for (int i = 0; i < 9; ++i) s.kernel_with({{1, us(50)}}, us(0));
  s.backend.last_block(us(40), 3);
  for (std::uint32_t i = 0; i < 8; ++i)
    if (i != 3) s.backend.progress(us(45), i, 50);
  for (std::uint32_t i = 0; i < 9; ++i) s.backend.finish(us(90), i);
  s.run();
  EXPECT_EQ(s.backend.at(us(0)).size(), 8u);
  EXPECT_THAT(s.backend.at(us(40)), testing::SizeIs(7));  // queries
  EXPECT_THAT(s.backend.at(us(45)), ElementsAre("launch 8 ctas 1"));
  EXPECT_EQ(s.outcome.stuck, "");
}

TEST(Greedy, AKernelOfAStreamArrivesWhenItsPredecessorHasEnded) {
  Script s;
  Kernel k = kernel(100, 1024, us(1));
  k.solo_time = kA.back().time;
  s.profiles = {kA};
  const KernelId id = s.kernel(k);
  s.client("client", s.program({launch(id), launch(id)}));
  s.backend.last_block(us(25), 0);
  s.backend.finish(us(30), 0);
  s.backend.finish(us(60), 1);
  s.run();
  EXPECT_THAT(s.backend.at(us(0)), ElementsAre("launch 0 ctas 6"));
  EXPECT_THAT(s.backend.at(us(30)), ElementsAre("launch 1 ctas 6"));
}

TEST(Greedy, ARefusedLaunchIsDecidedAgain) {
  Script s;
  std::uint32_t refusals = 2;
  s.backend.refuse = [&](const Decision&) { return refusals != 0 && refusals-- != 0; };
  s.kernel_with(kA, us(0));
  s.kernel_with(kB, us(10));
  s.kernel_with(kB, us(20));
  for (std::uint32_t i = 0; i < 3; ++i) s.backend.finish(us(90), i);
  s.backend.progress(us(25), 1, 0);
  s.run();
  EXPECT_THAT(s.backend.at(us(0)), ElementsAre("refused: launch 0 ctas 6"));
  EXPECT_THAT(s.backend.at(us(10)), ElementsAre("refused: launch 0 ctas 6", "launch 1 ctas 2"));
  EXPECT_THAT(s.backend.at(us(20)), ElementsAre("query 1"));
  EXPECT_THAT(s.backend.at(us(25)), testing::Contains(HasSubstr("launch 0")));
  EXPECT_EQ(s.outcome.refusals, 2u);
}

TEST(Greedy, ARefusedQueryDoesNotStopTheRound) {
  Script s;
  s.backend.refuse = [&](const Decision& d) { return std::holds_alternative<decide::Query>(d); };
  s.kernel_with(kA, us(0));
  s.kernel_with(kB, us(10));
  s.kernel_with(kB, us(20));
  s.backend.last_block(us(70), 0);
  s.backend.finish(us(80), 0);
  s.backend.finish(us(90), 1);
  s.backend.finish(us(90), 2);
  s.run();
  EXPECT_EQ(s.outcome.stuck, "");
}

// ---- profiles ---------------------------------------------------------------------------------------------

TEST(ProfileKernel, HasPowersOfTwoBelowOneCtaPerSmAndThenWholeNumbersPerSm) {
  Gpu gpu = slow_host_gpu(6);
  std::vector<std::uint32_t> ctas;
  for (const ProfilePoint& p : profile_kernel(kernel(1000, 512, us(3)), gpu)) ctas.push_back(p.ctas);
  EXPECT_THAT(ctas, ElementsAre(1, 2, 4, 6, 12, 18, 24));
}

TEST(ProfileKernel, EndsAtTheNumberOfBlocks) {
  std::vector<std::uint32_t> ctas;
  for (const ProfilePoint& p : profile_kernel(kernel(9, 512, us(3)), slow_host_gpu(6)))
    ctas.push_back(p.ctas);
  EXPECT_THAT(ctas, ElementsAre(1, 2, 4, 6, 9));
}

TEST(ProfileKernel, ATimeIsThatOfSoManyWorkers) {
  const Gpu gpu = slow_host_gpu(6);
  const Profile profile = profile_kernel(kernel(100, 512, us(3)), gpu);
  const Time task = us(3) + gpu.persistent_task;
  EXPECT_EQ(profile[0].time, task * 100);
  EXPECT_EQ(profile[1].time, task * 50 + gpu.dispatch_interval);
}

TEST(ProfileBySm, HasSmCountsByPowersOfTwoAndFivesAndCtasUpToWhatAnSmHolds) {
  std::set<std::uint32_t> sms, each;
  for (const ProfilePoint& p : profile_by_sm(kernel(1000, 512, us(3)), slow_host_gpu(10))) {
    EXPECT_EQ(p.ctas, p.sms * p.ctas_per_sm);
    sms.insert(p.sms), each.insert(p.ctas_per_sm);
  }
  EXPECT_THAT(sms, ElementsAre(1, 2, 4, 5, 8, 10));
  EXPECT_THAT(each, ElementsAre(1, 2, 3, 4));
}

TEST(ProfileBySm, ALongKernelTakesAsLongAsIfAllOfItHadBeenSimulated) {
  const Gpu gpu = slow_host_gpu(4);
  const auto time_of = [&](std::uint32_t blocks) {
    for (const ProfilePoint& p : profile_by_sm(kernel(blocks, 512, us(3)), gpu))
      if (p.sms == 2 && p.ctas_per_sm == 2) return p.time;
    return Time{};
  };
  // 48 rounds of 4 workers are simulated in full; one round more is not.
  EXPECT_EQ(time_of(49 * 4) - time_of(48 * 4), us(3) + gpu.persistent_task);
}

}  // namespace
}  // namespace corun::sim
