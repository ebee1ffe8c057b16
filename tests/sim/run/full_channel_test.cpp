// A full hardware channel holds the thread that calls: what it would do next comes as much later.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/build.h"
#include "tests/support/run_trace.h"
#include "traces/json/trace_json.h"

namespace corun::sim {
namespace {

struct Scene : TraceBuilder {
  Gpu gpu = slow_host_gpu(8);
  KernelId longer = kernel(sim::kernel(1, 256, us(190))), small = kernel(sim::kernel(1, 256, us(10)));
  Scene() { gpu.channel_depth = 20; }
};

/// Earliest start of a kernel: the one under way and those in the channel are there, and the next call waits for the first end.
TEST(FullChannel, ASmallKernelOfAnotherStreamComesAfterTheThreadIsFree) {
  Scene s;
  std::vector<Op> ops(100, launch(s.longer));
  ops.push_back(launch(s.small, 1));
  s.client("c", s.program(ops));
  const Ran ran = run_trace(s.trace, s.gpu);
  const std::vector<KernelRecord> kernels = ran.of(ClientId{0});
  // The hundredth call returns once the 79th kernel has ended and the 80th has left the channel.
  EXPECT_GE(kernels[100].started, kernels[78].finished);
  EXPECT_LE(kernels[100].started, kernels[80].started + us(10));
  EXPECT_EQ(kernels[99].finished - kernels[0].started, 99 * s.gpu.stream_gap + 100 * us(190)) << "the GPU never waits for the host";
}

class FullChannelUnder : public testing::TestWithParam<const char*> {};
TEST_P(FullChannelUnder, EachPolicyAThreadIsHeldAsLong) {
  Scene s;
  std::vector<Op> ops(100, launch(s.longer));
  ops.push_back(launch(s.small, 1));
  s.client("c", s.program(ops));
  const std::vector<KernelRecord> kernels = run_trace(s.trace, s.gpu, GetParam()).of(ClientId{0});
  EXPECT_GE(kernels[100].started, kernels[78].finished);
  EXPECT_LE(kernels[100].started, kernels[80].started + us(10));
}
INSTANTIATE_TEST_SUITE_P(Each, FullChannelUnder, testing::Values("priority", "mps", "timeslice", "tpc-mask"), [](const auto& each) {
  std::string name = each.param;
  std::erase(name, '-');
  return name;
});

TEST(FullChannel, OfTwoTheOneThatIsCalledLastHolds) {
  Scene s;
  std::vector<Op> ops;
  for (std::uint32_t i = 0; i < 100; ++i) ops.push_back(launch(s.longer, i % 2));
  ops.push_back(launch(s.small, 2));
  s.client("c", s.program(ops));
  std::vector<KernelRecord> kernels = run_trace(s.trace, s.gpu).of(ClientId{0});
  std::ranges::sort(kernels, {}, [](const KernelRecord& k) { return k.op.value; });
  // The fiftieth call of the second stream returns once its 29th kernel has ended and the 30th has left the channel.
  EXPECT_GE(kernels[100].started, kernels[2 * 28 + 1].finished);
  EXPECT_LE(kernels[100].started, kernels[2 * 30 + 1].started + us(10));
}

TEST(FullChannel, WhatFitsHoldsNobody) {
  Scene s;
  std::vector<Op> ops(20, launch(s.longer));
  ops.push_back(launch(s.small, 1));
  s.client("c", s.program(ops));
  EXPECT_LT(run_trace(s.trace, s.gpu).of(ClientId{0})[20].started, us(20 * 3 + 6));
}

TEST(FullChannel, AnH200sHoldsAThousandAndSome) {
  TraceBuilder b;
  const KernelId k = b.kernel(sim::kernel(4, 256, us(190))), small = b.kernel(sim::kernel(1, 256, us(10)));
  std::vector<Op> ops(3000, launch(k));
  ops.push_back(launch(small, 1));
  b.client("c", b.program(ops));
  const Time started = run_trace(b.trace, read_gpu("h200"), "fcfs", Record::kernels, {}).of(ClientId{0}).back().started;
  EXPECT_NEAR(to_ns(started) / 1e6, 376 + 1978 * 0.0009, 2);
}

TEST(FullChannel, ACopyHoldsAndIsHeldAsALaunch) {
  Scene s;
  std::vector<Op> ops(100, launch(s.longer));
  ops.push_back(copy(CopyDirection::host_to_device, 1000, 0));
  ops.push_back(launch(s.small, 1));
  s.client("c", s.program(ops));
  const Ran ran = run_trace(s.trace, s.gpu);
  const std::vector<KernelRecord> kernels = ran.of(ClientId{0});
  ASSERT_EQ(kernels.size(), 101u);
  EXPECT_GE(kernels[100].started, kernels[79].finished) << "a place later than without the copy";
  EXPECT_LE(kernels[100].started, kernels[81].started + us(10));
}

TEST(FullChannel, OtherThreadsGoOn) {
  Scene s;
  s.client("c", s.program(std::vector<Op>(100, launch(s.longer))));
  s.client("d", s.program({launch(s.small)}), Once{ms(1)}).process = "c";
  EXPECT_LT(run_trace(s.trace, s.gpu).of(ClientId{1})[0].started, ms(1) + us(10));
}

TEST(FullChannel, ALoopWithoutWaitsIsHeldToo) {
  Scene s;
  std::vector<Op> ops(30, launch(s.longer));
  s.client("c", s.program(ops), ClosedLoop{Time{}, 4});
  s.trace.run.duration = ms(60);
  const Ran ran = run_trace(s.trace, s.gpu);
  std::size_t most = 0;  // called and not begun
  const std::vector<KernelRecord> kernels = ran.of(ClientId{0});
  for (const KernelRecord& at : kernels) {
    std::size_t waiting = 0;
    for (const KernelRecord& k : kernels) waiting += k.ready <= at.ready && k.started > at.ready ? 1 : 0;
    most = std::max(most, waiting);
  }
  EXPECT_LE(most, 22u) << "a channel of 20, one call, and one on the way";
  EXPECT_GE(most, 20u);
}

}  // namespace
}  // namespace corun::sim
