// A kernel's time alone is held, or a note says what cannot hold it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "sim/run/run.h"
#include "tests/support/build.h"
#include "traces/json/trace_json.h"

namespace corun::sim {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::HasSubstr;
using testing::Not;

RunResult alone(std::uint32_t blocks, Time given, const Gpu& gpu, std::uint32_t threads = 32) {
  TraceBuilder b;
  Kernel k = kernel(blocks, threads, us(1));
  k.name = "tiny", k.block_times.clear(), k.solo_time = given;
  b.client("c", b.program({launch(b.kernel(k)), sync()}));
  RunOptions options;
  options.policy = "fcfs";
  return run(b.trace, gpu, options);
}
/// On which an interval of 0.703 ns was measured.
Gpu measured_3090() {
  Gpu gpu = read_gpu("rtx-3090");
  gpu.dispatch_assumed = false;
  return gpu;
}

std::vector<std::string> texts(const RunResult& result) {
  std::vector<std::string> all;
  for (const auto& note : result.notes) all.push_back(note.text);
  return all;
}

TEST(GivenTimes, OneTooShortForTheDispatcherIsSaid) {
  const RunResult result = alone(1 << 20, us(640), measured_3090());
  ASSERT_EQ(result.clients.size(), 1u);
  EXPECT_THAT(texts(result), Contains(AllOf(HasSubstr("rtx-3090 hands out a block each 0.703"), HasSubstr("' with its 1048576 blocks takes at least 0.737"),
                                            HasSubstr("instead of 0.64"))));
}

TEST(GivenTimes, OneThatIsHeldIsNotSpokenOf) {
  for (const Time given : {us(800), us(5000)}) {
    const RunResult result = alone(1 << 20, given, measured_3090());
    EXPECT_THAT(texts(result), Each(Not(HasSubstr("hands out a block")))) << to_ns(given);
    EXPECT_NEAR(result.clients[0].mean_ms, to_ms(given), 0.012) << "and it is held";
  }
}

/// A measured time counts more than an interval that nobody measured on such a card, up to a block a cycle of its clock.
struct Given {
  const char* gpu;
  std::uint32_t blocks, threads;
  Time time;
};
class HeldTimes : public testing::TestWithParam<Given> {};
TEST_P(HeldTimes, AreHeldWhereOnlyAnAssumedIntervalIsAgainstThem) {
  const auto& [gpu, blocks, threads, time] = GetParam();
  ASSERT_TRUE(read_gpu(gpu).dispatch_assumed);
  ASSERT_GT(to_ns(read_gpu(gpu).dispatch_interval) * blocks, to_ns(time)) << "the interval is against it";
  const RunResult result = alone(blocks, time, read_gpu(gpu), threads);
  // A launch and its answer take some us beside.
  EXPECT_NEAR(result.clients[0].mean_ms, to_ms(time), 0.012 + 0.001 * to_ms(time));
  EXPECT_THAT(texts(result), Contains(AllOf(HasSubstr("is taken to hand out a block each"), HasSubstr("which nobody measured"))));
  EXPECT_THAT(texts(result), Each(Not(HasSubstr("not as long alone as given"))));
}
INSTANTIATE_TEST_SUITE_P(Each, HeldTimes,
                         testing::Values(Given{"rtx-3090", 1 << 20, 32, us(640)}, Given{"rtx-3090", 1 << 20, 256, us(640)}, Given{"a100", 400'000, 32, us(300)},
                                         Given{"v100", 3'000'000, 64, us(2250)}, Given{"turing-68sm", 1 << 18, 32, us(180)}));

TEST(GivenTimes, NoCardHandsOutMoreThanABlockACycle) {
  const Gpu gpu = read_gpu("rtx-3090");
  const RunResult result = alone(1 << 20, us(100), gpu);
  const double least_ms = 1e3 * (1 << 20) / gpu.clock_hz;
  EXPECT_NEAR(result.clients[0].mean_ms, least_ms, 0.012 + 0.002 * least_ms);
  EXPECT_THAT(texts(result), Contains(HasSubstr("not as long alone as given")));
}

TEST(GivenTimes, AMeasuredIntervalStays) {
  ASSERT_FALSE(read_gpu("h200").dispatch_assumed);
  EXPECT_THAT(texts(alone(1 << 20, us(500), read_gpu("h200"))), Contains(HasSubstr("h200 hands out a block each 0.602")));
}

TEST(GivenTimes, OneOfALaunchCountsToo) {
  TraceBuilder b;
  Kernel k = kernel(1 << 20, 32, us(1));
  k.block_times.clear(), k.solo_time = ms(5);
  Op op = launch(b.kernel(k));
  std::get<corun::Launch>(op.what).solo_time = us(100);
  b.client("c", b.program({op}));
  RunOptions options;
  options.policy = "fcfs";
  EXPECT_THAT(texts(run(b.trace, read_gpu("h200"), options)), Contains(HasSubstr("1 kernel is not as long alone as given")));
}

}  // namespace
}  // namespace corun::sim
