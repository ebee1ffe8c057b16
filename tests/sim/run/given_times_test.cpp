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

RunResult alone(std::uint32_t blocks, Time given, const std::string& gpu) {
  TraceBuilder b;
  Kernel k = kernel(blocks, 32, us(1));
  k.name = "tiny", k.block_times.clear(), k.solo_time = given;
  b.client("c", b.program({launch(b.kernel(k)), sync()}));
  RunOptions options;
  options.policy = "fcfs";
  return run(b.trace, read_gpu(gpu), options);
}

std::vector<std::string> texts(const RunResult& result) {
  std::vector<std::string> all;
  for (const auto& note : result.notes) all.push_back(note.text);
  return all;
}

TEST(GivenTimes, OneTooShortForTheDispatcherIsSaid) {
  const RunResult result = alone(1 << 20, us(640), "rtx-3090");
  ASSERT_EQ(result.clients.size(), 1u);
  EXPECT_THAT(texts(result), Contains(AllOf(HasSubstr("rtx-3090 hands out a block each 0.703"), HasSubstr("' with its 1048576 blocks takes at least 0.737"),
                                            HasSubstr("instead of 0.64"))));
}

TEST(GivenTimes, OneThatIsHeldIsNotSpokenOf) {
  for (const Time given : {us(800), us(5000)}) {
    const RunResult result = alone(1 << 20, given, "rtx-3090");
    EXPECT_THAT(texts(result), Each(Not(HasSubstr("hands out a block")))) << to_ns(given);
    EXPECT_NEAR(result.clients[0].mean_ms, to_ms(given), 0.012) << "and it is held";
  }
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
