// With contention not modelled, blocks take as long beside others as alone, and clients cost each other places alone.
#include <gmock/gmock.h>

#include <map>
#include <set>

#include "sim/run/run.h"
#include "tests/support/run_trace.h"
#include "traces/json/trace_json.h"

namespace corun::sim {
namespace {

const Gpu kH200 = read_gpu("h200");

Trace two_networks() {
  Trace trace = read_trace("traces/h200/examples/realtime-resnet50-beside-resnet152.json");
  trace.run.duration = std::chrono::milliseconds(3);
  return trace;
}

/// Launches of which some blocks took longer than others.
std::size_t uneven_launches(bool modelled) {
  std::map<LaunchId, std::set<Time>> lengths;
  for (const BlockRecord& b : run_trace(two_networks(), kH200, "fcfs", Record::blocks, {true, true, modelled}).blocks)
    lengths[b.launch].insert(b.end - b.start);
  EXPECT_GE(lengths.size(), 100u);
  return static_cast<std::size_t>(std::ranges::count_if(lengths, [](const auto& of) { return of.second.size() > 1; }));
}

TEST(ContentionChoice, WithoutContentionAllBlocksOfALaunchTakeTheSameTimeWhateverRunsBesideThem) {
  EXPECT_EQ(uneven_launches(false), 0u);
  EXPECT_GT(uneven_launches(true), 10u);
}

TEST(ContentionChoice, ALaunchAloneTakesItsSoloTimeWithAndWithoutContention) {
  Trace trace = read_trace("traces/h200/resnet50_b1.json");
  trace.clients.resize(1);
  for (const bool modelled : {true, false}) {
    const Ran ran = run_trace(trace, kH200, "fcfs", Record::kernels, {true, true, modelled});
    ASSERT_GE(ran.kernels.size(), 50u);
    for (const KernelRecord& k : ran.kernels)
      EXPECT_NEAR(to_ns(k.finished - k.started) / to_ns(k.solo), 1, 0.01) << trace.kernels[k.kernel.value].name;
  }
}

/// Beside the other client on SMs of its own, over alone on the same SMs: mean latency of the first client's requests.
double slowed_on_its_own_sms(bool modelled) {
  Trace both = two_networks();
  both.clients[0].tpc_mask = TpcMask::range(0, 33), both.clients[1].tpc_mask = TpcMask::range(33, 66);
  Trace one = both;
  one.clients.pop_back();
  const auto mean = [&](const Trace& trace) {
    Time sum{};
    std::int64_t n = 0;
    for (const RequestRecord& r : run_trace(trace, kH200, "tpc-mask", Record::kernels, {true, true, modelled}).requests)
      if (r.client == ClientId{0} && r.finished != kNever) sum += r.finished - r.arrival, ++n;
    EXPECT_GE(n, 1);
    return to_ns(sum) / static_cast<double>(n);
  };
  return mean(both) / mean(one);
}

TEST(ContentionChoice, WithoutContentionClientsOnSmsOfTheirOwnWaitForTheDispatcherAlone) {
  EXPECT_NEAR(slowed_on_its_own_sms(false), 1.0, 0.01);
  EXPECT_GT(slowed_on_its_own_sms(true), 1.03);
}

TEST(ContentionChoice, TheResultSaysThatContentionIsNotModelled) {
  const auto notes = [](bool modelled) { return texts_of(run(two_networks(), kH200, {{.policy = "fcfs"}, {.contention = modelled}})); };
  EXPECT_THAT(notes(false), testing::Contains(testing::HasSubstr("contention is not modelled")));
  EXPECT_THAT(notes(true), testing::Not(testing::Contains(testing::HasSubstr("contention is not modelled"))));
}

TEST(ContentionChoice, TheShortcutsGiveTheSameWithoutContention) {
  for (const char* policy : {"fcfs", "greedy", "timeslice"}) {
    const Ran slow = run_trace(two_networks(), kH200, policy, Record::kernels, {false, false, false});
    const Ran fast = run_trace(two_networks(), kH200, policy, Record::kernels, {true, false, false});
    ASSERT_EQ(slow.kernels.size(), fast.kernels.size());
    for (std::size_t i = 0; i < slow.kernels.size(); ++i)
      ASSERT_EQ(slow.kernels[i].finished, fast.kernels[i].finished) << policy;
  }
}

}  // namespace
}  // namespace corun::sim
