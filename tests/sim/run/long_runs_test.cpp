// Are a run's integrals right when it is long?  A full H200 has 8,448 warps: their time in ps passes 2^63
// after 1,092 s.
#include <gtest/gtest.h>

#include <limits>

#include "sim/run/run.h"
#include "tests/support/build.h"
#include "tests/support/run_trace.h"
#include "traces/json/trace_json.h"

namespace corun::sim {
namespace {

constexpr Time kSecond = std::chrono::seconds(1);

/// Blocks of 32 warps, two on each SM.
Kernel full(const Gpu& gpu, Time block_time) { return kernel(2 * gpu.sms, 1024, block_time); }

RunResult one_after_the_other(Time duration) {
  const Gpu gpu = read_gpu("h200");
  TraceBuilder b;
  b.client("client", b.program({launch(b.kernel(full(gpu, kSecond)))}), ClosedLoop{});
  b.trace.run.duration = duration;
  return run(b.trace, gpu, {{"fcfs"}});
}

TEST(LongRun, OccupancyIsThatOfAShortOne) {
  const RunResult before = one_after_the_other(1000 * kSecond), after = one_after_the_other(1200 * kSecond);
  EXPECT_NEAR(before.occupancy, 1, 1e-3);
  EXPECT_NEAR(after.occupancy, before.occupancy, 1e-6);
  EXPECT_NEAR(after.sm_busy, before.sm_busy, 1e-6);
}

/// The second launch goes as the first: it is not simulated again where there are shortcuts.
TEST(LongRun, OfTwoLaunchesCountsBothWithAndWithoutShortcuts) {
  const Gpu gpu = read_gpu("h200");
  for (const std::int64_t seconds : {1091, 1093}) {
    SCOPED_TRACE(seconds);
    TraceBuilder b;
    const KernelId k = b.kernel(full(gpu, seconds * kSecond));
    b.client("client", b.program({launch(k), sync(), launch(k)}));
    const SmArray::Integral one = SmArray::Integral{64} * gpu.sms * (seconds * kSecond).count();
    EXPECT_EQ(one > std::numeric_limits<std::int64_t>::max(), seconds == 1093);
    const Ran quick = run_trace(b.trace, gpu, "fcfs", Record::kernels, {true, false});
    const Ran audited = run_trace(b.trace, gpu);
    EXPECT_EQ(quick.warp_ps, audited.warp_ps);
    EXPECT_EQ(quick.sm_ps, audited.sm_ps);
    EXPECT_GE(quick.warp_ps, 2 * one);
    EXPECT_LE(quick.warp_ps, 2 * one + one / 1000);
    EXPECT_LE(quick.sm_ps, quick.warp_ps / 64 + gpu.sms * ms(1).count());
  }
}

}  // namespace
}  // namespace corun::sim
