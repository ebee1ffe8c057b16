// What REEF's evaluation shows (Han et al., OSDI 2022, section 7), in the scenarios of experiments/papers:
// real-time requests get the GPU in under 40 us whatever runs on it, and lose under 2 %.
#include <gtest/gtest.h>

#include <algorithm>

#include "policies/api/registry.h"
#include "policies/session/session.h"
#include "sim/backend/sim_backend.h"
#include "sim/run/run.h"
#include "tests/support/run_trace.h"
#include "traces/json/trace_json.h"

namespace corun::sim {
namespace {

constexpr const char* kNetworks[] = {"vgg19", "resnet152", "densenet201", "inception3", "distilbert"};

RunResult run_paper(const std::string& trace, const std::string& policy) {
  const Trace t = read_trace("experiments/papers/traces/reef-" + trace + ".json");
  return run(t, read_gpu(t.gpu), {{policy}});
}

/// Mean over the real-time clients.
double real_time_ms(const RunResult& r) {
  double sum = 0;
  int n = 0;
  for (const ClientResult& c : r.clients)
    if (c.service_class == ServiceClass::real_time) sum += c.mean_ms, ++n;
  return sum / n;
}
std::uint64_t best_effort_done(const RunResult& r) {
  std::uint64_t done = 0;
  for (const ClientResult& c : r.clients)
    if (c.service_class == ServiceClass::best_effort) done += c.finished;
  return done;
}

TEST(Reef, PreemptsEveryNetworkInUnder40UsAndAllAlike) {
  double least = 1e9, most = 0;
  for (const char* network : kNetworks) {
    const RunResult r = run_paper(std::string("preempts-") + network, "reef");
    EXPECT_GE(r.preemption.count, 30u) << network;
    EXPECT_LT(r.preemption.latency.max_us, 40) << network;
    least = std::min(least, r.preemption.latency.p99_us);
    most = std::max(most, r.preemption.latency.p99_us);
  }
  EXPECT_LT(most, 1.05 * least);
}

TEST(Reef, WaitingTakesLongerTheMoreIsQueuedAndAtLeastTenTimesAsLongForResNet152) {
  const RunResult reef = run_paper("preempts-resnet152", "reef"),
                  wait = run_paper("preempts-resnet152", "wait"),
                  short_queue = run_paper("preempts-vgg19", "wait");
  EXPECT_GT(wait.preemption.latency.mean_us, 10 * reef.preemption.latency.mean_us);
  EXPECT_GT(wait.preemption.latency.mean_us, short_queue.preemption.latency.mean_us);
  EXPECT_EQ(wait.preemption.redone_blocks, 0u);
  EXPECT_GT(reef.preemption.redone_blocks, 0u);
}

TEST(Reef, ARealTimeClientThatThinksHasNoRequestWaiting) {
  for (const char* policy : {"reef", "reef-n", "wait"}) {
    TraceBuilder b;
    Client& camera = b.one_kernel("camera", kernel(10, 256, us(10)), Time{});
    camera.service_class = ServiceClass::real_time;
    camera.arrivals = ClosedLoop{us(1000), 1};
    b.one_kernel("batch", kernel(10, 256, us(10)), Time{}).arrivals = ClosedLoop{};
    b.trace.run.duration = us(10'000);
    std::uint64_t batch = 0;
    for (const RequestRecord& r : run_trace(b.trace, small_gpu(10), policy).requests)
      batch += r.client == ClientId{1} && r.finished != kNever;
    EXPECT_GT(batch, 400u) << policy << ": while the camera thinks the GPU is the batch's";
  }
}

TEST(Reef, TheDeviceQueuesCapacityIsWhatAPreemptionCosts) {
  double before = 0;
  for (const int depth : {1, 2, 4, 8, 16, 32, 64}) {
    const double us =
        run_paper("preempts-resnet152", "reef:depth=" + std::to_string(depth)).preemption.latency.mean_us;
    EXPECT_GT(us, before) << depth;
    before = us;
  }
  // Published: device queues are empty after 31 us at capacity 4 and after 424 without limit; 3.5 more
  // for the kill.
  EXPECT_NEAR(run_paper("preempts-resnet152", "reef").preemption.latency.mean_us, 36, 6);
  EXPECT_NEAR(run_paper("preempts-resnet152", "reef:depth=0").preemption.latency.mean_us, 429, 85);
}

TEST(Reef, CostsRealTimeRequestsUnder2PercentInDisbAToE) {
  for (const std::string letter : {"a", "b", "c", "d", "e"}) {
    const RunResult alone = run_paper("disb-" + letter + "-real-time-only", "reef"),
                    beside = run_paper("disb-" + letter + "-mi50", "reef");
    EXPECT_LT(real_time_ms(beside), 1.02 * real_time_ms(alone)) << letter;
    EXPECT_GE(real_time_ms(beside), real_time_ms(alone)) << letter;
    EXPECT_GT(best_effort_done(beside), 0u) << letter;
  }
}

TEST(Reef, PaddingLetsBestEffortOnWhileRealTimeNeverPauses) {
  // A real-time kernel of 4 blocks on 6 SMs, over and over; best effort has only what it leaves.
  TraceBuilder b;
  const KernelId rt = b.kernel(whole_sm_kernel(4, us(100))), be = b.kernel(whole_sm_kernel(10, us(40)));
  b.trace.kernels[rt.value].solo_time = us(100);
  b.trace.kernels[be.value].solo_time = us(80);
  b.client("rt", b.program({launch(rt), launch(rt), launch(rt)}), ClosedLoop{}).service_class =
      ServiceClass::real_time;
  b.client("be", b.program({launch(be)}), ClosedLoop{});
  b.trace.run.duration = ms(20);
  const auto done = [&](const std::string& policy, std::uint32_t client) {
    const Ran ran = run_trace(b.trace, slow_host_gpu(6), policy);
    return std::count_if(ran.requests.begin(), ran.requests.end(), [&](const RequestRecord& r) {
      return r.client.value == client && r.finished != kNever && !r.dropped;
    });
  };
  EXPECT_EQ(done("reef:padding=off", 1), 0);
  EXPECT_GE(done("reef", 1), 20);
  EXPECT_GE(done("reef", 0), done("reef:padding=off", 0) * 95 / 100);
}

/// The simulated GPU, but the first preemptions and padded launches are refused.
class RefusesToPreempt final : public Backend {
 public:
  RefusesToPreempt(SimBackend& backend, std::uint32_t refusals) : backend_(backend), left_(refusals) {}
  const Topology& topology() const override { return backend_.topology(); }
  Time now() const override { return backend_.now(); }
  void wait(Time until, std::vector<Notice>& notices) override { backend_.wait(until, notices); }
  Outcome apply(const Decision& d, const LaunchView& l, std::span<const LaunchId> follows) override {
    if (std::holds_alternative<decide::Preempt>(d) && left_ != 0) return --left_, Refused{"not now"};
    return backend_.apply(d, l, follows);
  }
  Outcome pad(const decide::LaunchPadded& d, const LaunchView& l, const LaunchView& padding,
              std::span<const LaunchId> follows) override {
    if (left_ != 0) return --left_, Refused{"not now"};
    return backend_.pad(d, l, padding, follows);
  }
  Outcome copy(const LaunchView& c, std::span<const LaunchId> follows) override {
    return backend_.copy(c, follows);
  }

 private:
  SimBackend& backend_;
  std::uint32_t left_;
};

TEST(PreemptingPolicies, SurviveRefusals) {
  for (const char* name : {"reef", "reef-n:padding=on", "wait"})
    for (const std::uint32_t refusals : {1u, 3u, 10u, 1000u}) {
      TraceBuilder b;
      const KernelId rt = b.kernel(whole_sm_kernel(3, us(20))), be = b.kernel(whole_sm_kernel(9, us(15)));
      for (Kernel& k : b.trace.kernels) k.idempotent = true;
      b.client("rt", b.program({launch(rt), launch(rt)}), Periodic{us(300), us(50)}).service_class =
          ServiceClass::real_time;
      b.client("be", b.program({launch(be, 0), launch(be, 1), launch(be, 0)}), ClosedLoop{});
      b.trace.run.duration = ms(6);
      Ran ran;
      Timeline timeline;
      timeline.attach(ran);
      const auto policy = make_policy(name);
      SimBackend simulated(b.trace, slow_host_gpu(4), policy->requirements(), timeline, {true, true});
      RefusesToPreempt backend(simulated, refusals);
      Session session(b.trace, *policy, backend, timeline, {});
      const SessionOutcome outcome = session.run();
      EXPECT_EQ(outcome.stuck, "") << name << ", " << refusals;
      EXPECT_GE(outcome.refusals, std::min(refusals, 10u)) << name << ", " << refusals;
      const auto done = [&](std::uint32_t client) {
        return std::count_if(ran.requests.begin(), ran.requests.end(), [&](const RequestRecord& r) {
          return r.client.value == client && r.finished != kNever && !r.dropped;
        });
      };
      EXPECT_GE(done(0), 19) << name << ", " << refusals;
      EXPECT_GE(done(1), 10) << name << ", " << refusals;
    }
}

TEST(ReefN, TakesLongerThanAResetButFarLessThanWaiting) {
  for (const std::string letter : {"a", "c"}) {
    const double reef_n = run_paper("disb-" + letter + "-v100", "reef-n").preemption.latency.mean_us;
    EXPECT_GT(reef_n, run_paper("disb-" + letter + "-mi50", "reef").preemption.latency.mean_us) << letter;
    EXPECT_GT(run_paper("disb-" + letter + "-v100", "wait").preemption.latency.mean_us, 4 * reef_n) << letter;
    EXPECT_GT(reef_n, 45) << letter;  // published for A to E: 71 to 288 us
    EXPECT_LT(reef_n, 288) << letter;
  }
}

TEST(Sequential, ServesOneRequestAtATimeRealTimeFirst) {
  TraceBuilder b;
  const KernelId k = b.kernel(kernel(4, 256, us(100)));
  b.client("first", b.program({launch(k), launch(k)}), Once{});
  b.client("second", b.program({launch(k), launch(k)}), Once{us(1)});
  b.client("real-time", b.program({launch(k)}), Once{us(2)}).service_class = ServiceClass::real_time;
  const Ran ran = run_trace(b.trace, small_gpu(4), "sequential");
  EXPECT_EQ(most_at_once(ran.kernels), 1u);
  const Time first = ran.of(ClientId{0}).back().finished;
  EXPECT_GE(ran.only(ClientId{2}).started, first);
  EXPECT_GE(ran.of(ClientId{1}).front().started, ran.only(ClientId{2}).finished);
}

}  // namespace
}  // namespace corun::sim
