// When does a launch wait for its client's tokens?  Against a script, to the picosecond; and what that comes
// to in the simulator, within one bucket and over seconds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policies/api/registry.h"
#include "tests/support/run_trace.h"
#include "tests/support/scripted_backend.h"
#include "traces/model/error.h"

namespace corun::sim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// One client, limited to half the GPU, whose launches are all called at 0: each takes `solo` and `blocks` of
/// the 160 places for blocks on ten SMs.  Bucket and interval are 10 us.
struct BucketScript : TraceBuilder {
  ScriptedBackend backend{small_gpu(10), {Capability::order, Capability::time_slice}};

  BucketScript(std::uint32_t launches, Time solo, std::uint32_t blocks = 160) {
    Kernel k = sim::kernel(blocks, 128, us(1));
    k.solo_time = solo;
    const KernelId id = kernel(k);
    client("limited", program(std::vector<Op>(launches, launch(id)))).quota = 0.5;
    for (std::uint32_t serial = 0; serial < launches; ++serial) backend.finish(us(200), serial);
  }

  /// When each launch was handed over.
  std::vector<Time> run(const std::string& more = "") {
    Timeline timeline;
    const auto policy = make_policy("token-bucket:bucket_ms=0.01,interval_ms=0.01" + more);
    Session session(trace, *policy, backend, timeline, {});
    EXPECT_EQ(session.run().stuck, "");
    std::vector<Time> times;
    for (const Decided& d : backend.decided)
      if (!d.refused) times.push_back(d.at);
    return times;
  }
};

TEST(TokenBucket, ALaunchGoesAtZeroTokensAndWaitsForTheNextRefillBelow) {
  // 10 us of tokens pay for the first, the second makes 10 us of debt, and each refill pays 5 us of it.
  EXPECT_THAT(BucketScript(3, us(10)).run(), ElementsAre(us(0), us(0), us(20)));
  EXPECT_THAT(BucketScript(3, us(10) + ps(1)).run(), ElementsAre(us(0), us(10), us(30)));
  EXPECT_THAT(BucketScript(3, us(10) - ps(1)).run(), ElementsAre(us(0), us(0), us(20)));
  EXPECT_THAT(BucketScript(3, us(5)).run(), ElementsAre(us(0), us(0), us(0)));
  EXPECT_THAT(BucketScript(4, us(5)).run(), ElementsAre(us(0), us(0), us(0), us(10)));
}

TEST(TokenBucket, ABucketFillsNoFurtherThanItsSize) {
  BucketScript s(4, us(10));
  std::get<Once>(s.trace.clients[0].arrivals).at = us(100);
  EXPECT_THAT(s.run(), ElementsAre(us(100), us(100), us(120), us(140)));
}

TEST(TokenBucket, ALaunchCostsWhatItsBlocksFillOrAllOfItsTime) {
  EXPECT_THAT(BucketScript(4, us(10), 80).run(), ElementsAre(us(0), us(0), us(0), us(10)));
  EXPECT_THAT(BucketScript(4, us(10), 80).run(",tokens=gpu-time"), ElementsAre(us(0), us(0), us(20), us(40)));
  // More blocks than places run one after the other, which the time says.
  EXPECT_THAT(BucketScript(3, us(10), 1600).run(), ElementsAre(us(0), us(0), us(20)));
}

TEST(TokenBucket, ARefusedLaunchCostsNothing) {
  BucketScript s(3, us(10));
  s.one_kernel("occasion", kernel(1, 32, us(1)), us(3)).quota = 1;
  s.backend.finish(us(200), 3);
  s.backend.refuse = [&](const Decision&) { return s.backend.now() < us(3); };
  EXPECT_THAT(s.run(), ElementsAre(us(3), us(3), us(3), us(20)));
}

TEST(TokenBucket, AClientWithoutALimitWaitsForNothing) {
  BucketScript s(4, us(10));
  s.trace.clients[0].quota.reset();
  EXPECT_THAT(s.run(), ElementsAre(us(0), us(0), us(0), us(0)));
  BucketScript whole(4, us(10));
  whole.trace.clients[0].quota = 1;
  EXPECT_THAT(whole.run(), ElementsAre(us(0), us(0), us(0), us(0)));
  EXPECT_THAT(BucketScript(4, us(10)).run(",percentages=100"), ElementsAre(us(0), us(0), us(0), us(0)));
}

/// Kernels of 1 ms without a pause on a GPU of one SM, which each fills.
Trace without_a_pause(std::uint32_t clients, Time duration) {
  TraceBuilder b;
  Kernel k = whole_sm_kernel(1, ms(1));
  k.solo_time = ms(1);
  const KernelId id = b.kernel(k);
  for (std::uint32_t i = 0; i < clients; ++i)
    b.client("client" + std::to_string(i), b.program({launch(id)}), ClosedLoop{});
  b.trace.run.duration = duration;
  return b.trace;
}

std::size_t started(const Ran& ran, std::uint32_t client, Time from, Time until) {
  return static_cast<std::size_t>(std::ranges::count_if(ran.kernels, [&](const KernelRecord& k) {
    return k.client.value == client && k.started >= from && k.started < until;
  }));
}

TEST(TokenBucket, AFifthIsTheWholeGpuWithinOneBucketAndAFifthOverSeconds) {
  const Trace trace = without_a_pause(1, ms(4800));
  const Ran alone = run_trace(trace, small_gpu(1), "timeslice");
  const Ran limited = run_trace(trace, small_gpu(1), "token-bucket:percentages=20");
  EXPECT_EQ(started(limited, 0, {}, ms(120)), started(alone, 0, {}, ms(120)));
  EXPECT_NEAR(static_cast<double>(started(limited, 0, ms(1200), ms(4800))), 0.2 * 3600, 1);
  EXPECT_GT(started(alone, 0, ms(1200), ms(4800)), 3590u);
}

TEST(TokenBucket, ABurstThatItsLimitPaysForIsNeverHeldBack) {
  Trace trace = without_a_pause(1, ms(2400));
  trace.programs[0].ops = std::vector<Op>(24, trace.programs[0].ops[0]);
  trace.clients[0].arrivals = Periodic{ms(120), Time{}};
  const Ran alone = run_trace(trace, small_gpu(1), "timeslice");
  const Ran limited = run_trace(trace, small_gpu(1), "token-bucket:percentages=20");
  EXPECT_EQ(limited.kernels.size(), 20u * 24);
  EXPECT_EQ(lines(limited.kernels), lines(alone.kernels));
}

TEST(TokenBucket, LimitsHoldBesideEachOther) {
  const Ran ran = run_trace(without_a_pause(2, ms(4800)), small_gpu(1), "token-bucket:percentages=10/40");
  EXPECT_NEAR(static_cast<double>(started(ran, 0, ms(1200), ms(4800))), 360, 12);
  EXPECT_NEAR(static_cast<double>(started(ran, 1, ms(1200), ms(4800))), 1440, 48);
}

std::string problem_of(const Trace& trace, const std::string& policy) {
  try {
    run_trace(trace, small_gpu(1), policy);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(TokenBucket, AListThatIsNoneOrNotOneForEachClientIsRefused) {
  Trace trace = without_a_pause(2, ms(1));
  for (const char* wrong : {"0/80", "101", "20/", "a"})
    EXPECT_THAT(problem_of(trace, std::string("token-bucket:percentages=") + wrong),
                HasSubstr("is not a list of percentages"))
        << wrong;
  EXPECT_THAT(problem_of(trace, "token-bucket:percentages=20/20/20"),
              HasSubstr("3 percentages for 2 clients"));
  EXPECT_THAT(problem_of(trace, "token-bucket:interval_ms=0"), HasSubstr("interval_ms=0"));
  EXPECT_EQ(problem_of(trace, "token-bucket:percentages=0.1/100"), "");
  EXPECT_EQ(problem_of(trace, "token-bucket:percentages=20"), "");
}

TEST(TokenBucket, AQuotaTooSmallToKeepIsRefusedWithItsPlace) {
  Trace trace = without_a_pause(2, ms(1));
  trace.clients[1].origin = {"t.json", "/clients/1"};
  trace.clients[1].quota = 0.001;
  EXPECT_EQ(problem_of(trace, "token-bucket"), "");
  trace.clients[1].quota = 0.00099;
  EXPECT_THAT(problem_of(trace, "token-bucket"),
              testing::AllOf(HasSubstr("t.json"), HasSubstr("/clients/1/quota"), HasSubstr("client1")));
}

}  // namespace
}  // namespace corun::sim
