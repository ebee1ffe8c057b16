#include <gmock/gmock.h>

#include "hw/backend/cuda_backend.h"
#include "hw/driver/cuda_driver.h"
#include "policies/api/registry.h"
#include "policies/session/session.h"
#include "tests/support/backend_notices.h"
#include "tests/support/fake_driver.h"
#include "traces/json/trace_json.h"
#include "traces/model/error.h"

namespace corun::hw {
namespace {

using testing::HasSubstr;

/// A client with `launches` launches of spin10: 42,240 blocks of 10 us, 1,056 at a time.
struct Rig {
  Rig(std::uint32_t launches, const Requirements& needed, CudaOptions options = {},
      const std::string& kernel_name = "spin10") {
    Kernel kernel;
    kernel.name = kernel_name;
    if (const LibraryKernel* k = find_kernel(kernel_name)) kernel.grid = k->grid, kernel.block = k->block;
    kernel.solo_time = from_ns(4e5);
    trace.name = "rig", trace.gpu = "h200";
    trace.kernels = {kernel};
    Program program{"p", Issue::eager, {{"main"}}, {}, {}};
    for (std::uint32_t i = 0; i < launches; ++i)
      program.ops.push_back(Op{corun::Launch{KernelId{0}, {}, {}}, StreamId{0}, Time{}, {}, {}, {}});
    trace.programs = {program};
    Client client;
    client.name = client.process = "c", client.program = ProgramId{0}, client.streams.resize(1),
    client.arrivals = Once{};
    trace.clients = {client};
    work = std::make_unique<Workbench>(driver, compiler);
    backend = std::make_unique<CudaBackend>(trace, read_gpu("h200"), needed, timeline, *work, options);
    backend->start();
  }
  LaunchView view(std::uint32_t n, std::uint32_t ctas = 0, std::uint64_t done = 0) const {
    LaunchView l;
    l.id = {n, n}, l.op = OpId{n}, l.kernel = &trace.kernels[0], l.operation = &trace.programs[0].ops[n];
    l.ctas = ctas, l.blocks_done = done;
    return l;
  }
  Outcome launch(std::uint32_t n, std::uint32_t ctas = 0, std::uint64_t done = 0) {
    return backend->apply(decide::Launch{{n, n}, 0, {}, ctas}, view(n, ctas, done), {});
  }

  Trace trace;
  Timeline timeline;
  FakeDriver driver;
  FakeCompiler compiler;
  std::unique_ptr<Workbench> work;
  std::unique_ptr<CudaBackend> backend;
};

const Requirements kPlain{{Capability::order}, Contexts::one, false};
const Requirements kStopping{{Capability::order, Capability::preempt_at_block}, Contexts::one, false};
const Requirements kSizes{{Capability::order, Capability::cta_quota}, Contexts::one, false};
constexpr std::uint64_t kBlocks = 132 * 8 * 40;

TEST(CudaBackend, ASessionEndsWithTheRightResults) {
  for (const char* policy : {"fcfs", "priority", "greedy"}) {
    Rig rig(3, make_policy(policy)->requirements());
    const auto object = make_policy(policy);
    Session session(rig.trace, *object, *rig.backend, rig.timeline, [](KernelId) {
      return Profile{{132, from_ns(3.2e6), 132, 1}, {1056, from_ns(4e5), 132, 8}};
    });
    const SessionOutcome outcome = session.run();
    rig.backend->close();
    EXPECT_EQ(outcome.stuck, "");
    EXPECT_EQ(outcome.refusals, 0u);
    EXPECT_EQ(rig.backend->blocks_run(), 3 * kBlocks) << policy;
    EXPECT_THAT(rig.backend->verify(), testing::IsEmpty());
    EXPECT_EQ(rig.backend->kernels_verified(), 1u);
  }
}

TEST(CudaBackend, AStoppedLaunchGoesOnWithTheBlocksThatAreNotDone) {
  Rig rig(1, kStopping);
  EXPECT_TRUE(std::holds_alternative<Applied>(rig.launch(0)));
  EXPECT_THAT(told_within(*rig.backend, from_ns(105e3)), testing::IsEmpty());
  EXPECT_TRUE(std::holds_alternative<Applied>(
      rig.backend->apply(decide::Preempt{{0, 0}, decide::Stop::at_block}, rig.view(0), {})));
  const auto stopped = only<Preempted>(told_within(*rig.backend, from_ns(50e3)));
  ASSERT_EQ(stopped.size(), 1u);
  EXPECT_EQ(stopped[0].blocks_done % 1056, 0u);
  EXPECT_GE(stopped[0].blocks_done, 10u * 1056);
  EXPECT_LE(stopped[0].blocks_done, 12u * 1056);
  EXPECT_TRUE(std::holds_alternative<Applied>(rig.launch(0, 0, stopped[0].blocks_done)));
  EXPECT_EQ(only<KernelFinished>(told_within(*rig.backend, from_ns(1e6))).size(), 1u);
  EXPECT_EQ(rig.backend->blocks_run(), kBlocks);
  rig.backend->close();
  EXPECT_THAT(rig.backend->verify(), testing::IsEmpty());
}

TEST(CudaBackend, AStopThatComesTooLateIsToldAsTheEnd) {
  Rig rig(1, kStopping);
  rig.launch(0);
  std::vector<Notice> before;
  while (only<LastBlockStarted>(before).empty()) rig.backend->wait(kNever, before);
  rig.backend->apply(decide::Preempt{{0, 0}, decide::Stop::at_block}, rig.view(0), {});
  const std::vector<Notice> after = told_within(*rig.backend, from_ns(1e5));
  EXPECT_EQ(only<KernelFinished>(after).size(), 1u);
  EXPECT_THAT(only<Preempted>(after), testing::IsEmpty());
}

TEST(CudaBackend, ALongQueueComesOffForTheWritesOfItsDeviceQueue) {
  constexpr std::uint32_t kQueue = 100;
  Rig rig(kQueue, kStopping);
  std::vector<LaunchId> behind;
  for (std::uint32_t i = 0; i < kQueue; ++i) {
    rig.launch(i);
    if (i > 0) behind.push_back({i, i});
  }
  told_within(*rig.backend, from_ns(50e3));
  const std::uint32_t before = rig.driver.writes;
  rig.backend->apply(decide::Preempt{{0, 0}, decide::Stop::at_block}, rig.view(0), behind);
  EXPECT_EQ(rig.driver.writes - before, 3u);
  const auto off = only<Preempted>(told_within(*rig.backend, from_ns(1e5)));
  EXPECT_EQ(off.size(), kQueue);
  std::uint32_t begun = 0;
  for (const Preempted& p : off) begun += p.blocks_done != 0;
  EXPECT_EQ(begun, 1u);
}

TEST(CudaBackend, FewerWorkersTakeLongerAndMoreCatchUp) {
  const auto length = [](std::optional<std::uint32_t> resized) {
    Rig rig(1, kSizes);
    EXPECT_TRUE(std::holds_alternative<Applied>(rig.launch(0, 528)));
    told_within(*rig.backend, from_ns(100e3));
    if (resized) {
      EXPECT_TRUE(std::holds_alternative<Applied>(
          rig.backend->apply(decide::Resize{{0, 0}, *resized}, rig.view(0, 528), {})));
    }
    std::vector<Notice> all;
    while (only<KernelFinished>(all).empty()) rig.backend->wait(kNever, all);
    rig.backend->close();
    EXPECT_THAT(rig.backend->verify(), testing::IsEmpty());
    return to_ns(rig.backend->now()) / 1e3;
  };
  EXPECT_NEAR(length({}), 800, 20);
  EXPECT_NEAR(length(264), 100 + 2 * 700, 40);
  EXPECT_NEAR(length(1056), 100 + 700 / 2, 40);
}

TEST(CudaBackend, ALaunchWhoseWorkersAllFindNoSeatIsNotOver) {
  const Requirements seats{
      {Capability::order, Capability::sm_quota, Capability::preempt_at_block}, Contexts::one, false};
  const decide::CtasPerSm all(132, 8);
  for (const bool stopped : {false, true}) {
    SCOPED_TRACE(stopped);
    Rig rig(1, seats);
    rig.driver.crowded_grids = stopped ? 1'000'000 : 3;
    EXPECT_TRUE(std::holds_alternative<Applied>(
        rig.backend->apply(decide::Launch{{0, 0}, 0, {}, 0, all}, rig.view(0, 1056), {})));
    if (stopped) {
      EXPECT_THAT(told_within(*rig.backend, from_ns(1e6)), testing::IsEmpty());
      EXPECT_TRUE(std::holds_alternative<Applied>(
          rig.backend->apply(decide::Preempt{{0, 0}, decide::Stop::at_block}, rig.view(0, 1056), {})));
      const auto told = only<Preempted>(told_within(*rig.backend, from_ns(1e5)));
      ASSERT_EQ(told.size(), 1u);
      EXPECT_EQ(told[0].blocks_done, 0u);
    } else {
      const auto told = told_within(*rig.backend, from_ns(1e6));
      EXPECT_EQ(only<KernelFinished>(told).size(), 1u);
      EXPECT_EQ(only<LastBlockStarted>(told).size(), 1u);
      rig.backend->close();
      EXPECT_THAT(rig.backend->verify(), testing::IsEmpty());
    }
    rig.backend->close();
  }
}

TEST(CudaBackend, WorkersForSeatsThatStayedEmptyAreSentAgain) {
  const Requirements seats{{Capability::order, Capability::sm_quota}, Contexts::one, false};
  const decide::CtasPerSm all(132, 8);
  for (const std::uint32_t crowded : {1u, 1'000'000u}) {
    SCOPED_TRACE(crowded);
    Rig rig(1, seats);
    rig.driver.crowded_grids = crowded;
    rig.driver.crowded_seats = 8;
    rig.backend->apply(decide::Launch{{0, 0}, 0, {}, 0, all}, rig.view(0, 1056), {});
    std::vector<Notice> told;
    while (only<KernelFinished>(told).empty()) rig.backend->wait(kNever, told);
    const double us = to_ns(rig.backend->now()) / 1e3;
    if (crowded == 1) {  // 8 workers for 50 us, then 1,064
      EXPECT_NEAR(us, 50 + 400, 20);
      EXPECT_EQ(rig.driver.seated_grids, 2u);
    } else {  // never closer together than 50 us
      EXPECT_GT(rig.driver.seated_grids, 10u);
      EXPECT_LE(rig.driver.seated_grids, 1 + us / 50);
    }
    rig.backend->close();
    EXPECT_THAT(rig.backend->verify(), testing::IsEmpty());
  }
}

TEST(CudaBackend, AWorkersLaunchThatLeftBlocksUndoneEndsTheRun) {
  Rig rig(1, kSizes);
  rig.driver.lost_launches = 1;
  rig.launch(0, 1056);
  EXPECT_THROW(told_within(*rig.backend, from_ns(1e6)), DriverError);
}

TEST(CudaBackend, ALaunchMadeSmallerBeforeItBeginsDoesAllItsBlocks) {
  Rig rig(2, kSizes, {}, "spin100_few");
  rig.launch(0, 64);
  rig.launch(1, 64);
  EXPECT_TRUE(
      std::holds_alternative<Applied>(rig.backend->apply(decide::Resize{{1, 1}, 32}, rig.view(1, 64), {})));
  EXPECT_EQ(only<KernelFinished>(told_within(*rig.backend, from_ns(1e6))).size(), 2u);
  EXPECT_EQ(rig.backend->blocks_run(), 128u);
}

TEST(CudaBackend, WhereEachLaunchIsCheckedNonePassesForAnEarlierOne) {
  for (const bool each : {false, true}) {
    SCOPED_TRACE(each);
    Rig rig(2, kPlain);
    if (each) rig.backend->check_each_launch();
    rig.launch(0);
    told_within(*rig.backend, from_ns(1e6));
    rig.driver.lost_launches = 1;
    rig.launch(1);
    told_within(*rig.backend, from_ns(1e6));
    rig.backend->close();
    // Without, the buffers hold what the first launch made.
    EXPECT_EQ(rig.backend->verify().empty(), !each);
  }
}

TEST(CudaBackend, CheckingEachLaunchFindsNothingWhereLaunchesAreStoppedOrQueued) {
  Rig rig(3, kStopping);
  rig.backend->check_each_launch();
  for (std::uint32_t i = 0; i < 3; ++i) rig.launch(i);
  told_within(*rig.backend, from_ns(505e3));
  const LaunchId behind[] = {{2, 2}};
  rig.backend->apply(decide::Preempt{{1, 1}, decide::Stop::at_block}, rig.view(1), behind);
  const auto stopped = only<Preempted>(told_within(*rig.backend, from_ns(1e5)));
  ASSERT_EQ(stopped.size(), 2u);
  EXPECT_GT(stopped[0].blocks_done, 0u);
  for (const Preempted& p : stopped) rig.launch(p.launch.serial, 0, p.blocks_done);
  EXPECT_EQ(only<KernelFinished>(told_within(*rig.backend, from_ns(1e6))).size(), 2u);
  rig.backend->close();
  EXPECT_THAT(rig.backend->verify(), testing::IsEmpty());
  EXPECT_GE(rig.backend->kernels_verified(), 2u);
}

TEST(CudaBackend, ProgressIsToldWithTheNextNotices) {
  Rig rig(1, kSizes);
  rig.launch(0, 1056);
  told_within(*rig.backend, from_ns(105e3));
  rig.backend->apply(decide::Query{{0, 0}}, rig.view(0, 1056), {});
  std::vector<Notice> all;
  rig.backend->wait(kNever, all);
  const auto told = only<ProgressReported>(all);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_NEAR(static_cast<double>(told[0].blocks_done), 10 * 1056, 2 * 1056);
  EXPECT_LE(told[0].as_of, rig.backend->now());
}

TEST(CudaBackend, AMaskBecomesThePartitionOfItsTpcs) {
  Rig rig(1, Requirements{{Capability::order, Capability::tpc_mask}, Contexts::one, false});
  rig.driver.partition_sizes.clear();
  EXPECT_TRUE(std::holds_alternative<Applied>(
      rig.backend->apply(decide::Launch{{0, 0}, -5, TpcMask::range(3, 10), 0}, rig.view(0), {})));
  EXPECT_THAT(rig.driver.partition_sizes, testing::ElementsAre(7));
  Rig whole(1, Requirements{{Capability::order, Capability::tpc_mask}, Contexts::one, false});
  whole.driver.partition_sizes.clear();
  EXPECT_TRUE(std::holds_alternative<Applied>(
      whole.backend->apply(decide::Launch{{0, 0}, 0, TpcMask::all(), 0}, whole.view(0), {})));
  EXPECT_THAT(whole.driver.partition_sizes, testing::IsEmpty());
  EXPECT_TRUE(std::holds_alternative<Refused>(
      rig.backend->apply(decide::Launch{{0, 0}, 0, TpcMask::range(66, 70), 0}, rig.view(0), {})));
  EXPECT_TRUE(std::holds_alternative<Refused>(
      rig.backend->apply(decide::Launch{{0, 0}, -6, {}, 0}, rig.view(0), {})));
}

TEST(CudaBackend, WhatNvidiaDoesNotAllowIsRefusedAtStartUp) {
  try {
    Rig rig(1, Requirements{{Capability::order, Capability::preempt_reset}, Contexts::one, false});
    FAIL();
  } catch (const InputError& e) {
    EXPECT_THAT(e.what(), HasSubstr("NVIDIA's driver does not allow"));
  }
}

TEST(CudaBackend, AKernelWithoutDeviceCodeIsNamed) {
  try {
    Rig rig(1, kPlain, {}, "no_such_kernel");
    FAIL();
  } catch (const InputError& e) {
    EXPECT_THAT(e.what(), HasSubstr("there is no device code for kernel no_such_kernel"));
  }
}

TEST(CudaBackend, AGpuThatHangsEndsTheRunAndSaysWhatItWaitsFor) {
  CudaOptions options;
  options.patience = from_ns(5e6);
  Rig rig(1, kPlain, options);
  rig.launch(0);
  rig.driver.hangs = true;
  std::vector<Notice> all;
  try {
    rig.backend->wait(kNever, all);
    FAIL();
  } catch (const Stalled& e) {
    EXPECT_THAT(e.what(), HasSubstr("spin10 of client c (on the device)"));
  }
  rig.driver.hangs = false;
}

TEST(CudaBackend, AnInterruptedRunLeavesNothingOnTheGpu) {
  std::atomic<bool> interrupted{false};
  CudaOptions options;
  options.interrupted = &interrupted;
  Rig rig(2, kStopping, options);
  rig.launch(0);
  told_within(*rig.backend, from_ns(50e3));
  interrupted = true;
  std::vector<Notice> all;
  EXPECT_THROW(rig.backend->wait(kNever, all), Interrupted);
  rig.backend.reset();
  rig.work.reset();
  EXPECT_EQ(rig.driver.left(), 0u);
}

}  // namespace
}  // namespace corun::hw
