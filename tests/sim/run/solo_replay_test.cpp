// Does one client alone run as it was recorded?  Six networks on an H200, as PyTorch's profiler saw every
// kernel.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "sim/run/run.h"
#include "traces/json/input_file.h"
#include "traces/json/trace_json.h"

namespace corun::sim {
namespace {

class Kernels final : public Sink {
 public:
  using Sink::record;
  void record(const KernelRecord& r) override { all.push_back(r); }
  std::vector<KernelRecord> all;
};

struct Network {
  const char* name;
  double graph_ms;  // whole inference as a CUDA graph, measured
};

std::vector<KernelRecord> replay(const std::string& name, Issue issue) {
  Trace trace = read_trace("traces/h200/" + name + ".json");
  trace.clients.front().issue = issue;
  trace.clients.front().arrivals = Once{};
  Kernels kernels;
  run(trace, read_gpu(trace.gpu), {{"fcfs", {&kernels}}});
  return kernels.all;
}

Time length(const std::vector<KernelRecord>& kernels) {
  return kernels.back().finished - kernels.front().started;
}

class SoloReplay : public testing::TestWithParam<Network> {};

TEST_P(SoloReplay, EveryKernelStartsAndEndsWhereItWasRecordedWithinOnePercentOfTheInference) {
  const auto in =
      open_input(std::string("experiments/reference/dnn/") + GetParam().name + ".kernels.json.gz");
  const auto recorded = nlohmann::json::parse(*in);
  const auto start_ns = [&](std::size_t i) {
    return (recorded[i]["ts"].get<double>() - recorded[0]["ts"].get<double>()) * 1e3;
  };
  const auto end_ns = [&](std::size_t i) { return start_ns(i) + recorded[i]["dur"].get<double>() * 1e3; };
  const std::vector<KernelRecord> simulated = replay(GetParam().name, Issue::eager);
  ASSERT_EQ(simulated.size(), recorded.size());
  const double allowed_ns = end_ns(recorded.size() - 1) / 100;
  double worst_ns = 0;
  for (std::size_t i = 0; i < simulated.size(); ++i) {
    const double start = to_ns(simulated[i].started - simulated.front().started);
    const double end = to_ns(simulated[i].finished - simulated.front().started);
    worst_ns = std::max({worst_ns, std::abs(start - start_ns(i)), std::abs(end - end_ns(i))});
  }
  RecordProperty("worst_ns", std::to_string(worst_ns));
  EXPECT_LE(worst_ns, allowed_ns);
}

TEST_P(SoloReplay, BackToBackTheTotalIsTheSumOfDurationsAndGapsWithinTwoPercent) {
  const Trace trace = read_trace(std::string("traces/h200/") + GetParam().name + ".json");
  const Gpu gpu = read_gpu("h200");
  Time sum{};
  std::int64_t launches = 0;
  for (const Op& op : trace.programs.front().ops)
    if (const auto* launch = std::get_if<Launch>(&op.what)) {
      sum += launch->solo_time ? *launch->solo_time : *trace.kernels[launch->kernel.value].solo_time;
      ++launches;
    }
  const double expected = to_ns(sum + gpu.graph_gap * (launches - 1));
  EXPECT_NEAR(to_ns(length(replay(GetParam().name, Issue::graph))), expected, expected / 50);
}

// Measured are graphs of experiments/h200/networks, DenseNet's experiments/reference/dnn.  Where they differ: the
// records of DistilBERT lack its graph's 30 memsets and 85 of its kernels; on the card and day of DenseNet's time
// ResNet-50's graph took 0.82 ms, a tenth less than here, as its recording still has it; Inception's is of that day, too.  Closing a gap shows here.
TEST_P(SoloReplay, TheMeasuredGraphIsReproducedOrTheKnownGapStands) {
  const std::map<std::string, double> known_gap{{"distilbert_b1s128", 0.115}, {"densenet201_b1", -0.07}, {"resnet50_b1", 0.035}, {"inception3_b1", 0.02}};
  const double ratio = to_ms(length(replay(GetParam().name, Issue::graph))) / GetParam().graph_ms;
  RecordProperty("simulated_over_measured", std::to_string(ratio));
  const auto gap = known_gap.find(GetParam().name);
  EXPECT_NEAR(ratio, gap == known_gap.end() ? 1.0 : 1.0 - gap->second, 0.025);
}

INSTANTIATE_TEST_SUITE_P(H200, SoloReplay,
                         testing::Values(Network{"resnet50_b1", 0.897}, Network{"vgg19_b1", 0.772},
                                         Network{"densenet201_b1", 2.96}, Network{"inception3_b1", 1.767},
                                         Network{"resnet152_b8", 4.157}, Network{"distilbert_b1s128", 1.634}),
                         [](const auto& network) { return std::string(network.param.name); });

}  // namespace
}  // namespace corun::sim
