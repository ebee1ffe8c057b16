#include <gmock/gmock.h>

#include "hw/backend/cuda_backend.h"
#include "hw/run/profile.h"
#include "policies/api/registry.h"
#include "policies/session/session.h"
#include "tests/support/backend_notices.h"
#include "tests/support/fake_driver.h"
#include "traces/json/trace_json.h"

namespace corun::hw {
namespace {

using testing::HasSubstr;

/// A client with `launches` launches of one kernel.
Trace trace_of(const std::string& kernel, std::uint32_t launches, ServiceClass service_class) {
  Trace trace;
  trace.name = "stoppable", trace.gpu = "h200";
  Kernel k;
  k.name = kernel, k.grid = find_kernel(kernel)->grid, k.block = find_kernel(kernel)->block;
  k.solo_time = from_ns(3000);
  trace.kernels = {k};
  Program program{"p", Issue::eager, {{"main"}}, {}, {}};
  for (std::uint32_t i = 0; i < launches; ++i)
    program.ops.push_back(Op{corun::Launch{KernelId{0}, {}, {}}, StreamId{0}, Time{}, {}, {}, {}});
  trace.programs = {program};
  Client client;
  client.name = client.process = "c", client.program = ProgramId{0}, client.streams.resize(1);
  client.arrivals = Once{}, client.service_class = service_class;
  trace.clients = {client};
  return trace;
}

TEST(Stoppable, NoChunkIsTakenAheadWhereAStopWouldWaitForItLongerThan25Us) {
  for (std::uint64_t blocks : {1u, 100u, 264u, 1056u, 1057u, 42240u, 131072u, 1000000u})
    for (std::uint32_t workers : {132u, 264u, 1056u, 2112u})
      for (double us : {3.0, 20.0, 400.0, 5000.0})
        for (const Taking& t : stoppable_takings_for(blocks, workers, from_ns(us * 1000))) {
          const double block_us = us * static_cast<double>(std::min<std::uint64_t>(workers, blocks)) /
                                  static_cast<double>(blocks);
          EXPECT_TRUE(!t.prefetch || blocks <= workers || (t.chunk > 1 && 2 * t.chunk * block_us <= 25));
          if (t.once) {
            EXPECT_LE(blocks, 10'000u * t.chunk) << "all of them have to pass the GPU after a stop";
          }
        }
}

TEST(Stoppable, OnlyShortBlocksAreTakenInChunks) {
  const auto chunk = [](double block_us) {
    std::uint32_t most = 0;
    for (const Taking& t : stoppable_takings_for(1056 * 40, 1056, from_ns(block_us * 40'000)))
      most = std::max(most, t.chunk);
    return most;
  };
  EXPECT_EQ(chunk(5.0), 1u);
  EXPECT_EQ(chunk(4.9), 4u);
  EXPECT_EQ(chunk(1.25), 4u);
  EXPECT_EQ(chunk(1.2), 8u);
}

TEST(Stoppable, ItsTimeAloneIsMeasuredAsItIsRun) {
  FakeDriver driver;
  FakeCompiler compiler;
  {
    Workbench work(driver, compiler);
    const Gpu gpu = read_gpu("h200");
    const LibraryKernel& k = *find_kernel("spin10");  // 40 blocks of 10 us for each of 1,056 workers
    const Kernel::Stoppable measured = measure_stoppable(k, from_ns(4e5), gpu, work);
    EXPECT_NEAR(to_ns(measured.time), 4e5, 1e4);
    const Kernel::Stoppable longer = measure_stoppable(*find_kernel("spin100_few"), from_ns(1e5), gpu, work);
    EXPECT_NEAR(to_ns(longer.time), 1e5, 1e4);
  }
  EXPECT_EQ(driver.left(), 0u);
}

TEST(Stoppable, MoreThanTheGpuNeedsNowIsHandedOverWhenNothingElseIsToBeDone) {
  for (const double solo_us : {400.0, 3.0}) {
    Trace trace = trace_of("spin10", 2, ServiceClass::best_effort);
    trace.kernels[0].solo_time = from_ns(solo_us * 1000);
    FakeDriver driver;
    FakeCompiler compiler;
    Workbench work(driver, compiler);
    Timeline timeline;
    CudaBackend backend(trace, read_gpu("h200"), make_policy("reef-n")->requirements(), timeline, work, {});
    backend.start();
    std::vector<std::size_t> made;  // each launch on the device takes two events
    for (std::uint32_t i = 0; i < 2; ++i) {
      LaunchView l;
      l.id = {i, i}, l.client = ClientId{0}, l.kernel_id = KernelId{0}, l.op = OpId{i};
      l.kernel = &trace.kernels[0], l.operation = &trace.programs[0].ops[i];
      l.solo_time = *trace.kernels[0].solo_time;
      ASSERT_TRUE(std::holds_alternative<Applied>(backend.apply(decide::Launch{l.id, 0, {}, 0}, l, {})));
      made.push_back(driver.left());
    }
    std::vector<Notice> notices;
    backend.wait(backend.now() + from_ns(2000), notices);
    made.push_back(driver.left());
    const bool waits = solo_us > 25;
    EXPECT_EQ(made[1] - made[0], waits ? 0u : 2u);
    EXPECT_EQ(made[2] - made[1], waits ? 2u : 0u);
    while (only<KernelFinished>(notices).size() < 2) backend.wait(kNever, notices);
    backend.close();
    EXPECT_EQ(backend.blocks_run(), 2 * std::uint64_t{42240});
  }
}

TEST(Stoppable, LaunchesOfRealTimeClientsAreNot) {
  const Trace trace = trace_of("spin10", 1, ServiceClass::real_time);
  FakeDriver driver;
  FakeCompiler compiler;
  Workbench work(driver, compiler);
  Timeline timeline;
  CudaBackend backend(trace, read_gpu("h200"), make_policy("wait")->requirements(), timeline, work, {});
  backend.start();
  LaunchView l;
  l.kernel = &trace.kernels[0], l.operation = &trace.programs[0].ops[0];
  EXPECT_TRUE(std::holds_alternative<Applied>(backend.apply(decide::Launch{}, l, {})));
  const Outcome outcome = backend.apply(decide::Preempt{}, l, {});
  ASSERT_TRUE(std::holds_alternative<Refused>(outcome));
  EXPECT_THAT(std::get<Refused>(outcome).reason, HasSubstr("plain kernel"));
}

TEST(Stoppable, CountersAreUsedAgain) {
  const Trace trace = trace_of("tick", 3000, ServiceClass::best_effort);  // of 1,024 counters
  FakeDriver driver;
  FakeCompiler compiler;
  Workbench work(driver, compiler);
  Timeline timeline;
  const std::unique_ptr<Policy> policy = make_policy("reef-n");
  CudaBackend backend(trace, read_gpu("h200"), policy->requirements(), timeline, work, {});
  Session session(trace, *policy, backend, timeline, {});
  backend.start();
  const SessionOutcome outcome = session.run();
  backend.close();
  EXPECT_EQ(outcome.stuck, "");
  EXPECT_EQ(outcome.refusals, 0u);
  EXPECT_EQ(backend.blocks_run(), 3000u * 132);
  EXPECT_THAT(backend.verify(), testing::IsEmpty());
}

}  // namespace
}  // namespace corun::hw
