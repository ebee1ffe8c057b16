// Does a run tell which resource its kernels lacked, all of it and to the picosecond, and is it the same run?
#include <gtest/gtest.h>

#include <sstream>

#include "policies/api/registry.h"
#include "policies/session/run.h"
#include "sim/backend/sim_backend.h"
#include "sim/run/profile.h"
#include "sim/run/run.h"
#include "tests/support/build.h"
#include "tests/support/collect.h"
#include "tests/support/random_trace.h"
#include "traces/json/trace_json.h"
#include "traces/timeline/latency_parts.h"
#include "traces/timeline/report.h"

namespace corun::sim {
namespace {

/// What the clients ran together under a policy, with parts.
std::vector<RequestRecord> requests_of(const Trace& trace, const Gpu& gpu, const std::string& named) {
  const auto policy = make_policy(named);
  const Requirements needed = policy->requirements();
  Timeline timeline;
  PartsMeter meter(trace, needed.contexts == Contexts::per_process, true);
  timeline.attach(meter);
  SimBackend backend(trace, gpu, needed, timeline, {true, false});
  play(trace, *policy, backend, timeline,
       [&](KernelId id) { return profile_kernel(trace.kernels[id.value], gpu); });
  return meter.requests();
}

TEST(Losses, AddUpToTheRunningTimeOfEachRequestToThePicosecond) {
  std::size_t split = 0, lost = 0;
  for (std::uint64_t seed = 1; seed <= 25; ++seed) {
    const Scenario s = random_scenario(seed, Requests::repeated);
    for (const char* policy : {"fcfs", "timeslice", "greedy", "priority"}) {
      std::vector<RequestRecord> requests;
      try {
        requests = requests_of(s.trace, s.gpu, policy);
      } catch (const InputError&) {
        continue;  // the policy cannot run this trace
      }
      for (const RequestRecord& r : requests) {
        if (r.dropped || r.finished == kNever) continue;
        const RunningParts& p = r.parts.of_running;
        EXPECT_EQ(p.sum(), r.parts.running) << policy << ", seed " << seed;
        EXPECT_EQ(r.parts.sum(), r.finished - r.arrival) << policy << ", seed " << seed;
        for (const Time part : {p.alone, p.places, p.issue, p.pipes, p.l2, p.dram, p.clock})
          EXPECT_GE(part, Time{}) << policy << ", seed " << seed;
        ++split;
        lost += p.sum() > p.alone;
      }
    }
  }
  EXPECT_GT(split, 500u);
  EXPECT_GT(lost, 100u);
}

std::string told(const Trace& trace, const Gpu& gpu, const std::string& policy, bool resources, bool with_parts) {
  Collector all;
  RunOptions options;
  options.policy = policy, options.resources = resources, options.sinks = {&all};
  RunResult result = run(trace, gpu, options);
  if (resources) {
    EXPECT_TRUE(result.clients.front().running_parts.has_value());
  }
  for (ClientResult& c : result.clients)
    if (!with_parts) c.running_parts.reset();
  result.wall_s = 0, result.events = 0;
  std::ostringstream text;
  write_summary(result, text);
  return text.str() + testing::PrintToString(lines(all.kernels)) + testing::PrintToString(all.requests.size());
}

TEST(Losses, AskingForThemChangesNoResult) {
  Trace trace = read_trace("traces/h200/examples/realtime-resnet50-beside-resnet152.json");
  trace.run.duration = ms(15);
  const Gpu gpu = read_gpu("h200");
  for (const char* policy : {"fcfs", "priority", "timeslice", "reef-n", "greedy"})
    EXPECT_EQ(told(trace, gpu, policy, true, false), told(trace, gpu, policy, false, false)) << policy;
  EXPECT_NE(told(trace, gpu, "fcfs", true, true), told(trace, gpu, "fcfs", false, true)) << "the parts are told";
}

TEST(Losses, AreNotInAResultThatWasNotAskedForThem) {
  Trace trace = read_trace("traces/h200/examples/realtime-resnet50-beside-resnet152.json");
  trace.run.duration = ms(5);
  const RunResult result = run(trace, read_gpu("h200"), {{.policy = "fcfs"}});
  std::ostringstream text;
  write_summary(result, text);
  EXPECT_EQ(text.str().find("running_parts_ms"), std::string::npos);
}

/// Two clients, each with a kernel of 100 us in a closed loop, two blocks on every SM.
RunningPartsMs parts_of_two(const Kernel& kernel, const Gpu& gpu, const std::string& policy = "fcfs") {
  TraceBuilder b;
  for (const char* name : {"a", "b"}) {
    Kernel k = kernel;
    k.name = name;
    b.client(name, b.program({launch(b.kernel(k))}), ClosedLoop{});
  }
  b.trace.run.duration = ms(10);
  RunOptions options;
  options.policy = policy, options.resources = true;
  const RunResult result = run(b.trace, gpu, options);
  return result.clients.front().running_parts.value();
}

Kernel kernel_of(const Gpu& gpu) {
  Kernel k = kernel(2 * gpu.sms, 256, us(1));
  k.block_times.clear();
  k.solo_time = us(100);
  k.registers_per_thread = 32;
  k.counters.warp_instructions = 1e4;
  k.counters.issue_active_pct = 1;
  k.counters.dram_read_bytes = k.counters.dram_write_bytes = k.counters.l2_bytes = 0;
  return k;
}

TEST(Losses, OfAMixThatFightsForDramOnlyAreAtDram) {
  const Gpu gpu = read_gpu("h200");
  Kernel k = kernel_of(gpu);
  k.counters.dram_read_bytes = k.counters.l2_bytes = 0.8 * gpu.dram_bytes_per_second * 100e-6;
  const RunningPartsMs p = parts_of_two(k, gpu);
  const double lost = p.places + p.issue + p.pipes + p.l2 + p.dram + p.clock;
  EXPECT_GT(lost, 0.015) << "of 0.1 ms alone";
  EXPECT_GT(p.dram, 0.9 * lost);
}

TEST(Losses, OfAMixThatFightsForIssueSlotsOnlyAreThere) {
  const Gpu gpu = read_gpu("h200");
  Kernel k = kernel_of(gpu);
  k.counters.issue_active_pct = 85;
  k.counters.warp_instructions = 0.85 * 100e-6 * gpu.clock_hz * 4 * gpu.sms;
  const RunningPartsMs p = parts_of_two(k, gpu);
  const double lost = p.places + p.issue + p.pipes + p.l2 + p.dram + p.clock;
  EXPECT_GT(lost, 0.03) << "of 0.1 ms alone";
  EXPECT_GT(p.issue, 0.9 * lost);
}

TEST(Losses, OfLaunchesThatMayUseHalfOfTheSmsAreTheWantOfPlaces) {
  const Gpu gpu = read_gpu("h200");
  Kernel k = kernel_of(gpu);
  k.grid = {16 * gpu.sms, 1, 1};
  k.dynamic_shared_memory_bytes = 100'000;  // two blocks an SM
  const RunningPartsMs p = parts_of_two(k, gpu, "tpc-mask:split=even");
  const double lost = p.places + p.issue + p.pipes + p.l2 + p.dram + p.clock;
  EXPECT_NEAR(lost, 0.1, 0.01) << "as long again as alone";
  EXPECT_GT(p.places, 0.9 * lost);
}

}  // namespace
}  // namespace corun::sim
