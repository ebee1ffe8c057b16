// Do the timeline's counters show what waits and what runs?
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "sim/run/run.h"
#include "traces/json/trace_json.h"

namespace corun::sim {
namespace {

class Gauges final : public Sink {
 public:
  using Sink::record;
  void record(const GaugeRecord& r) override { values[r.gauge].push_back(r.value); }
  bool wants_gauges() const override { return true; }
  std::map<Gauge, std::vector<double>> values;
};

Gauges gauges_under(const std::string& policy) {
  Trace trace = read_trace("traces/h200/resnet50_b1.json");
  trace.clients.front().issue = Issue::graph;
  trace.clients.front().arrivals = Once{};
  Gauges gauges;
  run(trace, read_gpu("h200"), {{policy, {&gauges}}});
  return gauges;
}

TEST(Gauges, PendingLaunchesFallFromTheWholeGraphToNoneWhereThePolicyHoldsThem) {
  const std::vector<double> pending = gauges_under("greedy").values[Gauge::pending_launches];
  ASSERT_FALSE(pending.empty());
  EXPECT_EQ(pending.front(), 217);  // 218 kernels, the first one launched at once
  EXPECT_EQ(pending.back(), 0);
  EXPECT_TRUE(std::is_sorted(pending.rbegin(), pending.rend()));
}

TEST(Gauges, NothingIsPendingWhereThePolicyLaunchesAtOnce) {
  EXPECT_TRUE(gauges_under("fcfs").values[Gauge::pending_launches].empty());
}

TEST(Gauges, ResidentBlocksRiseAndFallToNone) {
  const std::vector<double> resident = gauges_under("fcfs").values[Gauge::resident_blocks];
  ASSERT_FALSE(resident.empty());
  EXPECT_GT(*std::max_element(resident.begin(), resident.end()), 132);
  EXPECT_EQ(resident.back(), 0);
}

TEST(Gauges, DeviceMemoryRisesWithAllocationsAndFallsWithTheRequestsEnd) {
  Trace trace = read_trace("traces/h200/resnet50_b1.json");
  trace.clients.front().arrivals = Once{};
  trace.clients.front().memory_bytes = 100;
  Program& program = trace.programs.front();
  program.buffers = {"a"};
  Op op;
  op.what = Alloc{0, 30};
  for (Op& other : program.ops)
    for (OpId& before : other.after) ++before.value;
  program.ops.insert(program.ops.begin(), op);
  Gauges gauges;
  run(trace, read_gpu("h200"), {{"fcfs", {&gauges}}});
  EXPECT_EQ(gauges.values[Gauge::device_memory], (std::vector<double>{100, 130, 100}));
}

TEST(Gauges, DeviceMemoryIsSilentWhereTheTraceAllocatesNone) {
  EXPECT_TRUE(gauges_under("fcfs").values[Gauge::device_memory].empty());
}

}  // namespace
}  // namespace corun::sim
