// Does memory go and come when it has to, and is what programs left there what they find, when one of them or the service is killed or
// stopped?  To the moment, in virtual time.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "hw/live/limits.h"
#include "hw/live/metrics.h"
#include "hw/live/system.h"
#include "hw/shim/driver.h"
#include "tests/hw/world/stage.h"

namespace corun::world {
namespace {

constexpr std::uint32_t kUnits = 64;

class Memory : public testing::Test {
 protected:
  ~Memory() override { EXPECT_EQ(stage_.machine.wrong(), ""); }

  void serve(const char* policy = "flexgpu") { stage_.serve_now(policy, {.memory = kUnits * live::kBlockUnit}); }
  std::uint64_t times(const char* what) { return stage_.machine.count(what); }
  Ns now() const { return stage_.machine.now(); }

  struct Has {
    CUdeviceptr at = 0;
    unsigned content = 0;
  };
  /// By a thread of a program, as all below.
  static Has allocated(std::uint32_t units, unsigned content) {
    Has has{0, content};
    EXPECT_EQ(cuMemAlloc_v2(&has.at, units * live::kBlockUnit), CUDA_SUCCESS);
    DeviceMemory::the().ranges.at(has.at).in_use = true;
    EXPECT_EQ(cuMemsetD32_v2(has.at, content, 1), CUDA_SUCCESS);
    return has;
  }
  static void freed(const Has& has) {
    DeviceMemory::the().ranges.at(has.at).in_use = false;
    EXPECT_EQ(cuMemFree_v2(has.at), CUDA_SUCCESS);
  }
  static void looks(const Has& has) {
    std::uint64_t content = 0;
    EXPECT_EQ(cuMemcpyDtoH_v2(&content, has.at, sizeof content), CUDA_SUCCESS);
    EXPECT_EQ(content, has.content);
  }
  /// Rounds of a kernel of 1 ms and a look at what it has, between which its host does nothing for so long.
  std::shared_ptr<Process> program(const char* name, std::uint32_t units, int rounds, Ns rests) {
    return stage_.program(name, false, [units, rounds, rests] {
      cuInit(0);
      const Has has = allocated(units, units * 7);
      for (int i = 0; i < rounds; ++i) {
        launch(1ms);
        cuCtxSynchronize();
        looks(has);
        live::os::sleep_for(rests);
      }
      looks(has);
      freed(has);
      EXPECT_FALSE(DeviceMemory::the().has_any(Machine::the().process()->pid)) << "nor is host memory kept";
    });
  }
  std::uint64_t bytes(int pid) const {
    std::uint64_t all = 0;
    for (const auto& [handle, p] : stage_.memory.physical)
      if (p.pid == pid) all += p.bytes;
    return all;
  }

  Stage stage_;
};

TEST_F(Memory, UnderMemoryWaitAnAllocationThatDoesNotFitWaitsForAnothersEndAndNothingMoves) {
  serve("memory-wait");
  stage_.memory.cap = kUnits * live::kBlockUnit;
  const auto first = program("first", 48, 20, 100ms);
  ASSERT_TRUE(stage_.comes([&] { return bytes(first->pid) != 0; }));
  const std::string metrics = live::metrics_of(stage_.service()->state());
  for (const auto& [what, units] : {std::pair{"corun_memory_bytes{program=\"first\",client=\"0\",where=\"gpu\"} ", 48u}, {"corun_memory_cap_bytes ", kUnits}})
    EXPECT_NE(metrics.find(what + std::to_string(units * live::kBlockUnit) + "\n"), std::string::npos) << metrics;
  const auto second = program("second", 48, 2, 1ms);
  EXPECT_TRUE(stage_.comes([&] { return bytes(second->pid) != 0; }));
  EXPECT_EQ(bytes(first->pid), 0u);
  EXPECT_TRUE(stage_.comes([&] { return !first->alive && !second->alive; }));
  EXPECT_EQ(times("moved to the host"), 0u);
}

TEST_F(Memory, TwoThatEachWantThreeQuartersTakeTurnsAndTheCapIsKept) {
  serve();
  stage_.memory.cap = kUnits * live::kBlockUnit;
  const auto one = program("one", 48, 20, 20ms), two = program("two", 48, 20, 20ms);
  EXPECT_TRUE(stage_.comes([&] { return !one->alive && !two->alive; }));
  EXPECT_GE(times("moved to the host"), 2u);
  EXPECT_GE(times("moved back"), 1u);
}

TEST_F(Memory, WhereTheServiceDecidesNothingAboutItMemoryIsTheDrivers) {
  stage_.serve_now("wait");
  const auto one = program("one", 48, 2, 1ms);
  ASSERT_TRUE(stage_.comes([&] { return bytes(one->pid) != 0; }));
  EXPECT_TRUE(stage_.memory.ranges.begin()->second.of_context);
  EXPECT_TRUE(stage_.comes([&] { return !one->alive; }));
}

TEST_F(Memory, ABlockIsOfWholeUnitsAndWhatIsSmallerIsTheDrivers) {
  serve();
  const auto one = stage_.program("one", false, [this] {
    const int pid = Machine::the().process()->pid;
    const auto left = [] {
      std::size_t is = 0, all = 0;
      EXPECT_EQ(cuMemGetInfo_v2(&is, &all), CUDA_SUCCESS);
      EXPECT_EQ(all, kUnits * live::kBlockUnit);
      return is / live::kBlockUnit;
    };
    cuInit(0);
    CUdeviceptr three = 0, more = 0, small = 0, start = 0;
    EXPECT_EQ(cuMemAlloc_v2(&three, 3 * live::kBlockUnit), CUDA_SUCCESS);
    EXPECT_EQ(bytes(pid), 3 * live::kBlockUnit);
    EXPECT_EQ(left(), kUnits - 3);
    EXPECT_EQ(cuMemAlloc_v2(&more, 3 * live::kBlockUnit + 1), CUDA_SUCCESS);
    EXPECT_EQ(bytes(pid), 7 * live::kBlockUnit);
    EXPECT_EQ(left(), kUnits - 7);
    EXPECT_EQ(cuMemAlloc_v2(&small, live::kBlockUnit - 1), CUDA_SUCCESS);
    EXPECT_TRUE(stage_.memory.ranges.at(small).of_context);
    EXPECT_FALSE(stage_.memory.ranges.at(more).of_context);
    std::size_t asked = 0;
    EXPECT_EQ(cuMemGetAddressRange_v2(&start, &asked, more + asked), CUDA_SUCCESS);
    EXPECT_EQ(start, more);
    EXPECT_EQ(asked, 3 * live::kBlockUnit + 1);
    for (const CUdeviceptr each : {three, more, small}) EXPECT_EQ(cuMemFree_v2(each), CUDA_SUCCESS);
    EXPECT_EQ(left(), kUnits);
    EXPECT_FALSE(stage_.memory.has_any(pid));
  });
  EXPECT_TRUE(stage_.comes([&] { return !one->alive; }));
}

TEST_F(Memory, WhateverCallOfTheDriverFailsInAnAllocationNothingIsKeptOfIt) {
  serve();
  int refused = 0;
  const auto one = stage_.program("one", false, [&] {
    cuInit(0);
    freed(allocated(1, 1));
    for (std::uint32_t call = 1; call <= 8; ++call) {
      CUdeviceptr at = 0;
      stage_.gpu.fail_in(call);
      const CUresult said = cuMemAlloc_v2(&at, 48 * live::kBlockUnit);
      stage_.gpu.fail_in(0);
      if (said == CUDA_SUCCESS) cuMemFree_v2(at);
      refused += said != CUDA_SUCCESS;
      EXPECT_FALSE(stage_.memory.has_any(Machine::the().process()->pid)) << call;
      freed(allocated(48, call));
    }
  });
  EXPECT_TRUE(stage_.comes([&] { return !one->alive; }));
  EXPECT_GE(refused, 3);
}

TEST_F(Memory, AProgramThatIsKilledWhileItsMemoryIsOnTheHostLeavesNothing) {
  serve();
  const auto away = program("away", 64, 2, 60s);
  ASSERT_TRUE(stage_.comes([&] { return bytes(away->pid) != 0; }));
  const auto work = program("work", 48, 20, 1ms);
  ASSERT_TRUE(stage_.comes([&] { return times("moved to the host") == 1 && bytes(away->pid) == 0; }));
  stage_.machine.kill(away);
  EXPECT_TRUE(stage_.comes([&] { return !work->alive && stage_.programs() == 0; }));
  EXPECT_EQ(stage_.service()->books().memory()->accounts().used(), 0u);
}

TEST_F(Memory, WhenTheServiceIsKilledAProgramWhoseMemoryIsOnTheHostGetsItBackAndGoesOn) {
  serve();
  const auto one = program("one", 48, 40, 20ms), two = program("two", 48, 40, 20ms);
  ASSERT_TRUE(stage_.comes([&] { return times("moved to the host") >= 2 && (bytes(one->pid) == 0 || bytes(two->pid) == 0); }));
  stage_.kill_service();
  const Ns killed = now();
  EXPECT_TRUE(stage_.comes([&] { return bytes(one->pid) != 0 && bytes(two->pid) != 0; }));
  EXPECT_LE(now() - killed, 4 * live::limits::kLookAtService);
  EXPECT_TRUE(stage_.comes([&] { return !one->alive && !two->alive; }));
  EXPECT_EQ(times("has ended; this"), 2u);
}

TEST_F(Memory, OneThatIsStoppedIsLetGoInTimeSoThatOthersComeAndGoesOnWhenItMay) {
  serve();
  const auto away = program("away", 32, 2, 1s);
  ASSERT_TRUE(stage_.comes([&] { return bytes(away->pid) != 0; }));
  stage_.run_for(100ms);
  stage_.machine.stop(*away);
  const Ns stopped = now();
  const auto work = program("work", 48, 4, 1ms);
  ASSERT_TRUE(stage_.comes([&] { return bytes(work->pid) != 0; }));
  EXPECT_GE(now() - stopped, live::limits::kMove);
  EXPECT_LE(now() - stopped, live::limits::kMove + Ns(live::limits::kMoveGib) / 16 + 200ms) << "of a sixteenth of a GiB";
  EXPECT_EQ(times("is let go"), 1u);
  stage_.machine.go_on(*away);
  EXPECT_TRUE(stage_.comes([&] { return !away->alive && !work->alive && stage_.programs() == 0; }));
  EXPECT_EQ(stage_.service()->books().memory()->accounts().used(), 0u);
}

TEST_F(Memory, WhatDoesNotComeToRestKeepsItsMemoryUntilItDoes) {
  serve();
  Ns rests{};
  const auto holds = stage_.program("holds", false, [&] {
    cuInit(0);
    const Has has = allocated(40, 3);
    live::os::sleep_for(10ms);
    CUstream own = nullptr;
    EXPECT_EQ(cuStreamCreate(&own, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    // Past the library: nobody decides about it.
    const std::uint32_t l = Gpu::the().asks(1);
    const auto past = reinterpret_cast<decltype(&cuLaunchKernel)>(live::driver_function("cuLaunchKernel"));
    Gpu::the().answered(l, past(reinterpret_cast<CUfunction>(std::uintptr_t{2'000'000} << 4), 1, 1, 1, 1, 1, 1, 0, own, nullptr, nullptr));
    live::os::sleep_for(1900ms);
    looks(has);
    cuStreamSynchronize(own);
    rests = stage_.machine.now();
    live::os::sleep_for(8s);
    looks(has);
    freed(has);
  });
  ASSERT_TRUE(stage_.comes([&] { return stage_.gpu.ledger().size() > 1 && stage_.gpu.ledger().back().begun != kForever; }));
  const auto work = program("work", 40, 3, 1ms);
  EXPECT_TRUE(stage_.comes([&] { return bytes(work->pid) != 0; }));
  EXPECT_GT(rests, 0s) << "it was asked for its memory in vain";
  EXPECT_EQ(times("is let go"), 0u);
  EXPECT_TRUE(stage_.comes([&] { return !holds->alive && !work->alive; }));
}

/// What the driver says when the context is to be reset, which it refuses if `refuses`.
CUresult resets(bool refuses) {
  if (refuses) Gpu::the().refuses_reset.insert(Machine::the().process()->pid);
  return cuDevicePrimaryCtxReset_v2(0);
}

TEST_F(Memory, AContextThatTheDriverDoesNotResetKeepsWhatItsProgramHasThereAndOneThatItDoesKeepsNothing) {
  for (const bool refuses : {true, false})
    for (const bool away : {true, false}) {
      Stage stage;
      stage.serve_now("flexgpu", {.memory = kUnits * live::kBlockUnit});
      std::shared_ptr<Process> work;
      bool on_host = false, kept = false;
      CUresult said = CUDA_SUCCESS;
      const auto one = stage.program("one", false, [&] {
        cuInit(0);
        const Has has = allocated(48, 7);
        launch(1ms);
        cuCtxSynchronize();
        live::os::sleep_for(500ms);  // the other comes and takes it
        on_host = stage.machine.count("moved to the host") == 1 && stage.machine.count("moved back") == 0;
        said = resets(refuses);
        kept = stage.memory.has_any(stage.machine.process()->pid);
        if (refuses) looks(has), freed(has);
        freed(allocated(48, 8));
      });
      if (away)
        work = stage.program("work", false, [] {
          live::os::sleep_for(100ms);
          cuInit(0);
          const Has has = allocated(48, 9);
          live::os::sleep_for(1s);
          looks(has), freed(has);
        });
      EXPECT_TRUE(stage.comes([&] { return !one->alive && (work == nullptr || !work->alive) && stage.programs() == 0; }));
      EXPECT_EQ(on_host, away);
      EXPECT_EQ(said != CUDA_SUCCESS, refuses);
      EXPECT_EQ(kept, refuses);
      EXPECT_EQ(stage.service()->books().memory()->accounts().used(), 0u);
      EXPECT_EQ(stage.machine.count("is let go"), 0u);
      EXPECT_EQ(stage.machine.wrong(), "") << refuses << away;
    }
}

}  // namespace
}  // namespace corun::world
