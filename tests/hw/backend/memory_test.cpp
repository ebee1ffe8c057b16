// Device memory beyond capacity on the CUDA backend, before a driver that plays a GPU: addresses stay, memory
// comes and goes, and contents survive.
#include <gmock/gmock.h>

#include "hw/backend/cuda_backend.h"
#include "policies/api/registry.h"
#include "policies/session/session.h"
#include "tests/support/fake_driver.h"
#include "traces/json/trace_json.h"
#include "traces/model/error.h"

namespace corun::hw {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::uint64_t kMb = 1'000'000;

Op alloc(std::uint32_t buffer, std::uint64_t bytes) {
  return {Alloc{buffer, bytes}, StreamId{0}, Time{}, {}, {}, {}};
}
Op launch() { return {corun::Launch{KernelId{0}, {}, {}}, StreamId{0}, Time{}, {}, {}, {}}; }
Op launch_on(std::vector<std::uint32_t> uses) {
  Op op = launch();
  op.uses = std::move(uses);
  return op;
}
Op sync() { return {Sync{}, StreamId{0}, Time{}, {}, {}, {}}; }

/// Clients of one program each, on a GPU whose memory is capped; spin10 has 169 kB of results.
struct MemoryRig {
  explicit MemoryRig(std::uint64_t capacity) : gpu(read_gpu("h200")) {
    gpu.memory_bytes = capacity;
    Kernel kernel;
    kernel.name = "spin10";
    kernel.grid = find_kernel("spin10")->grid, kernel.block = find_kernel("spin10")->block;
    kernel.solo_time = from_ns(4e5);
    trace.name = "memory", trace.gpu = "h200";
    trace.kernels = {kernel};
  }
  void client(const std::string& name, std::vector<Op> ops, std::uint64_t memory_bytes = 0) {
    trace.programs.push_back({name, Issue::eager, {{"main"}}, std::move(ops), {"a", "b"}});
    Client c;
    c.name = c.process = name;
    c.program = ProgramId{static_cast<std::uint32_t>(trace.programs.size() - 1)};
    c.streams.resize(1);
    c.arrivals = Once{};
    c.memory_bytes = memory_bytes;
    trace.clients.push_back(c);
  }
  SessionOutcome run(const std::string& policy) {
    const auto object = make_policy(policy);
    CudaOptions options;
    options.verify = true;
    CudaBackend backend(trace, gpu, object->requirements(), timeline, work, options);
    Session session(trace, *object, backend, timeline, {});
    session.audit(true);
    backend.start();
    const SessionOutcome outcome = session.run();
    most_backed = driver.most_backed;
    backend.close();
    wrong = backend.verify();
    verified = backend.kernels_verified(), moves = backend.moves_verified();
    return outcome;
  }

  Gpu gpu;
  Trace trace;
  Timeline timeline;
  FakeDriver driver;
  FakeCompiler compiler;
  Workbench work{driver, compiler};
  std::uint64_t most_backed = 0, verified = 0, moves = 0;
  std::vector<std::string> wrong;
};

/// The instances of Chen's deadlock, in MB of 12 MB instead of GB of 12 GB.
void add_four_instances(MemoryRig& rig) {
  const std::uint64_t holds[] = {3610, 1360, 1880, 3880}, asks[] = {3360, 3090, 3510, 2510};
  for (std::size_t i = 0; i < 4; ++i)
    rig.client("m" + std::to_string(i + 1), {alloc(0, holds[i] * 1000), launch_on({0}), sync(),
                                             alloc(1, asks[i] * 1000), launch_on({0, 1}), launch_on({0, 1})});
}

TEST(CudaMemory, AWorkingSetOfTwiceTheCapacityComesThroughWithItsData) {
  MemoryRig rig(12 * kMb);
  for (const char* name : {"a", "b", "c", "d"})
    rig.client(name, {alloc(0, 6 * kMb), launch(), sync(), launch(), sync(), launch()});
  const SessionOutcome outcome = rig.run("flexgpu");
  EXPECT_THAT(outcome.failed, Each(""));
  EXPECT_THAT(rig.wrong, IsEmpty());
  EXPECT_GE(rig.verified, 4u);
  EXPECT_GT(outcome.checkpoints, 0u);
  EXPECT_EQ(rig.moves, outcome.moved_bytes / (6 * kMb) - outcome.checkpoints);
  EXPECT_LE(rig.most_backed, 12 * kMb + 4 * 4096);
}

TEST(CudaMemory, FlexGpuAvoidsTheDeadlockThatAllocationWaitRunsInto) {
  MemoryRig waits(12 * kMb);
  add_four_instances(waits);
  EXPECT_THAT(waits.run("memory-wait").deadlock, HasSubstr("m1 -> m2 -> m3 -> m4 -> m1"));
  MemoryRig moves(12 * kMb);
  add_four_instances(moves);
  const SessionOutcome outcome = moves.run("flexgpu");
  EXPECT_EQ(outcome.deadlock, "");
  EXPECT_THAT(outcome.failed, Each(""));
  EXPECT_THAT(moves.wrong, IsEmpty());
  EXPECT_GE(moves.moves, 1u);
}

TEST(CudaMemory, ContentsThatCameBackChangedAreTold) {
  MemoryRig rig(12 * kMb);
  for (const char* name : {"a", "b", "c", "d"})
    rig.client(name, {alloc(0, 6 * kMb), launch(), sync(), launch()});
  rig.driver.loses_memory = true;
  rig.run("flexgpu");
  EXPECT_THAT(rig.wrong,
              testing::Contains(HasSubstr("buffer a: not what it was before it went to the host")));
}

TEST(CudaMemory, WhereNothingWaitsAnAllocationThatDoesNotFitFailsItsClientAlone) {
  MemoryRig rig(12 * kMb);
  rig.client("first", {alloc(0, 8 * kMb), launch()});
  rig.client("second", {alloc(0, 6 * kMb), launch()});
  const SessionOutcome outcome = rig.run("fcfs");
  EXPECT_EQ(outcome.failed[0], "");
  EXPECT_THAT(outcome.failed[1], HasSubstr("out of memory"));
  EXPECT_EQ(rig.verified, 1u);
  EXPECT_THAT(rig.wrong, IsEmpty());
}

TEST(CudaMemory, MemoryIsGivenBackWhenItsRequestEndsOrTheClientFreesIt) {
  MemoryRig rig(12 * kMb);
  rig.client("again", {alloc(0, 8 * kMb),
                       launch(),
                       {corun::Free{0}, StreamId{0}, Time{}, {}, {}, {}},
                       alloc(1, 8 * kMb),
                       launch()});
  rig.trace.clients[0].arrivals = ExplicitTimes{{Time{}, from_ns(1e6)}};
  rig.trace.clients[0].stale = Stale::queue;
  rig.trace.run.duration = from_ns(5e6);
  const SessionOutcome outcome = rig.run("fcfs");
  EXPECT_THAT(outcome.failed, Each(""));
  EXPECT_LE(rig.most_backed, 8 * kMb + 4096);
  EXPECT_EQ(rig.verified, 4u);
}

TEST(CudaMemory, MemoryThatAClientHoldsThroughoutIsUsedByAllItsKernels) {
  MemoryRig rig(12 * kMb);
  rig.client("model", {launch(), sync(), launch()}, 8 * kMb);
  rig.client("other", {launch(), sync(), launch()}, 8 * kMb);
  const SessionOutcome outcome = rig.run("flexgpu");
  EXPECT_THAT(outcome.failed, Each(""));
  EXPECT_THAT(rig.wrong, IsEmpty());
  EXPECT_GE(outcome.checkpoints, 1u);
}

TEST(CudaMemory, BuffersThatAreTooSmallForTheirKernelAreNamed) {
  MemoryRig rig(12 * kMb);
  rig.client("small", {alloc(0, 100'000), launch()});
  try {
    rig.run("fcfs");
    FAIL();
  } catch (const InputError& e) {
    EXPECT_THAT(e.what(), AllOf(HasSubstr("kernel spin10 needs 0.169 MB"), HasSubstr("client small")));
  }
}

TEST(CudaMemory, MoreThanTheGpuHasFreeIsRefusedAtStartUp) {
  MemoryRig rig(12 * kMb);
  rig.client("large", {alloc(0, 8 * kMb), launch()});
  rig.driver.memory_bytes = 6 * kMb;
  try {
    rig.run("fcfs");
    FAIL();
  } catch (const InputError& e) {
    EXPECT_THAT(e.what(), HasSubstr("--memory"));
  }
}

TEST(CudaMemory, NothingIsLeftAfterAnInterruptedRun) {
  FakeDriver driver;
  FakeCompiler compiler;
  MemoryRig rig(12 * kMb);
  for (const char* name : {"a", "b", "c"}) rig.client(name, {alloc(0, 6 * kMb), launch(), sync(), launch()});
  std::atomic<bool> interrupted{false};
  CudaOptions options;
  options.interrupted = &interrupted;
  {
    Workbench work(driver, compiler);
    const auto policy = make_policy("flexgpu");
    CudaBackend backend(rig.trace, rig.gpu, policy->requirements(), rig.timeline, work, options);
    Session session(rig.trace, *policy, backend, rig.timeline, {});
    class StopAtMove final : public Sink {
     public:
      explicit StopAtMove(std::atomic<bool>& f) : flag(f) {}
      using Sink::record;
      void record(const KernelRecord&) override { flag = ++ended == 3; }
      std::atomic<bool>& flag;
      int ended = 0;
    } stop(interrupted);
    rig.timeline.attach(stop);
    backend.start();
    EXPECT_THROW(session.run(), Interrupted);
    EXPECT_GT(driver.backed_bytes(), 0u);
  }
  EXPECT_EQ(driver.left(), 0u);
  EXPECT_EQ(driver.backed_bytes(), 0u);
}

}  // namespace
}  // namespace corun::hw
