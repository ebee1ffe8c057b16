// Does a best-effort program's work wait behind a real-time launch, on the GPU or with its host, in whichever way it is made, and go
// when it may?
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "hw/live/limits.h"
#include "hw/live/system.h"
#include "tests/hw/world/stage.h"

namespace corun::world {
namespace {

namespace limits = live::limits;

constexpr Ns kMoment = 20ms;

class HeldBack : public testing::Test {
 protected:
  ~HeldBack() override { EXPECT_EQ(stage_.machine.wrong(), ""); }

  /// `work` begins while a real-time launch of 1 s is on the GPU, and ends with all that it has launched.
  void beside(const std::function<void()>& work) {
    cam_ = stage_.program("cam", true, [] {
      cuInit(0);
      launch(1s);
      cuCtxSynchronize();
    });
    if (!cam_on_.empty()) cam_->environment["DEVICE"] = cam_on_;
    ASSERT_TRUE(stage_.comes([this] { return stage_.gpu.ledger().size() == 2 && stage_.gpu.ledger()[1].begun != kForever; }));
    work_ = stage_.program("work", false, [work] {
      cuInit(0);
      work();
      cuCtxSynchronize();
    });
    if (!work_on_.empty()) work_->environment["DEVICE"] = work_on_;
    ASSERT_TRUE(stage_.comes([this] { return !work_->alive && !cam_->alive; }));
    EXPECT_TRUE(stage_.comes([this] { return stage_.service() == nullptr || stage_.service()->books().state().empty(); }));
  }
  std::ptrdiff_t of_work(const std::function<bool(const Launch&)>& so) const {
    return std::ranges::count_if(stage_.gpu.ledger(), [&](const Launch& l) { return l.pid == work_->pid && so(l); });
  }
  Ns cam_end() const { return stage_.gpu.ledger()[1].ended; }
  std::ptrdiff_t came_back_in_it() const {
    return of_work([this](const Launch& l) { return l.answered < cam_end(); });
  }
  std::ptrdiff_t begun_in_it() const {
    return of_work([this](const Launch& l) { return l.begun < cam_end(); });
  }
  std::ptrdiff_t ran() const {
    return of_work([](const Launch& l) { return l.runs == 1; });
  }

  Stage stage_;
  std::shared_ptr<Process> cam_, work_;
  std::string cam_on_, work_on_;  // which of two devices; empty: there is one
};

void launches(int n, CUstream handle = nullptr, std::uint32_t stream = 0) {
  for (int i = 0; i < n; ++i) launch(1ms, handle, stream);
}

TEST_F(HeldBack, AHostRunsAheadOfItsGrantsByAsManyLaunchesAsItMayAndNotOneMore) {
  stage_.serve_now("wait", {.in_flight = 5});
  beside([] { launches(12); });
  EXPECT_EQ(came_back_in_it(), 5);
  EXPECT_EQ(begun_in_it(), 0);
  EXPECT_EQ(ran(), 12);
}

TEST_F(HeldBack, AHostThatMayNotRunAheadWaitsForEachGrant) {
  stage_.serve_now("wait", {.in_flight = 0});
  beside([] { launches(12); });
  EXPECT_EQ(came_back_in_it(), 0);
  EXPECT_EQ(begun_in_it(), 0);
  EXPECT_EQ(ran(), 12);
}

TEST_F(HeldBack, WhereTheDriverCannotLetTheGpuWaitTheHostDoes) {
  stage_.serve_now("wait");
  stage_.gpu.waits = false;
  beside([] { launches(12); });
  EXPECT_EQ(came_back_in_it(), 0);
  EXPECT_EQ(begun_in_it(), 0);
  EXPECT_EQ(ran(), 12);
}

CUgraphExec captured(CUstream stream, int kernels) {
  CUgraph graph = nullptr;
  CUgraphExec made = nullptr;
  cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
  for (int i = 0; i < kernels; ++i) {
    const std::uint32_t l = Gpu::the().asks(9, true);
    Gpu::the().answered(l, cuLaunchKernel(reinterpret_cast<CUfunction>(std::uintptr_t{1000} << 4), 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr));
  }
  EXPECT_EQ(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphInstantiateWithFlags(&made, graph, 0), CUDA_SUCCESS);
  return made;
}

struct Way {
  const char* name;
  std::function<void()> work;
};
class InEachWay : public HeldBack, public testing::WithParamInterface<Way> {};

TEST_P(InEachWay, TwelveLaunchesWaitOnTheGpu) {
  stage_.serve_now("wait");
  beside(GetParam().work);
  EXPECT_EQ(came_back_in_it() - of_work([](const Launch& l) { return l.captured; }), 12);
  EXPECT_EQ(begun_in_it(), 0);
  EXPECT_EQ(ran(), 12);
}
CUstream made() {
  CUstream stream = nullptr;
  EXPECT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  return stream;
}
INSTANTIATE_TEST_SUITE_P(Ways, InEachWay,
                         testing::Values(Way{"Null", [] { launches(12); }}, Way{"Stream", [] { launches(12, made(), 1); }},
                                         Way{"TwoStreams",
                                             [] {
                                               CUstream one = made(), two = made();
                                               for (int i = 0; i < 6; ++i) launches(1, one, 1), launches(1, two, 2);
                                             }},
                                         Way{"TwoThreads",
                                             [] {
                                               Machine::the().start_thread([] { launches(6, made(), 1); });
                                               launches(6);
                                               live::os::sleep_for(50ms);
                                             }},
                                         Way{"Graph",
                                             [] {
                                               CUstream stream = made();
                                               CUgraphExec graph = captured(stream, 3);
                                               for (int i = 0; i < 12; ++i) {
                                                 const std::uint32_t l = Gpu::the().asks(1);
                                                 Gpu::the().answered(l, cuGraphLaunch(graph, stream));
                                               }
                                             }},
                                         Way{"BesideACapture",
                                             [] {
                                               CUstream stream = made();
                                               launches(6);
                                               captured(stream, 2);
                                               launches(6);
                                             }}),
                         [](const auto& way) { return std::string(way.param.name); });

TEST_F(HeldBack, ALaunchThatTheDriverRefusesWhileItIsHeldHoldsNothingUp) {
  stage_.serve_now("wait");
  beside([] {
    for (int i = 0; i < 12; ++i) {
      const std::uint32_t l = Gpu::the().asks(0);
      const std::uintptr_t us = i == 4 || i == 11 ? 0 : 1000;  // none of this driver's functions
      Gpu::the().answered(l, cuLaunchKernel(reinterpret_cast<CUfunction>(us << 4), 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
    }
  });
  EXPECT_EQ(of_work([](const Launch& l) { return l.said != CUDA_SUCCESS; }), 2);
  EXPECT_EQ(begun_in_it(), 0);
  EXPECT_EQ(ran(), 10);
}

TEST_F(HeldBack, WhatWaitsOnTheGpuGoesOnAtOnceWhenTheServiceIsKilled) {
  stage_.serve_now("wait");
  Ns killed{};
  stage_.machine.at(500ms, [&] { killed = stage_.machine.now(), stage_.kill_service(); });
  beside([] { launches(12); });
  EXPECT_EQ(came_back_in_it(), 12);
  EXPECT_EQ(of_work([&](const Launch& l) { return l.begun < killed; }), 0);
  EXPECT_EQ(of_work([&](const Launch& l) { return l.begun < killed + limits::kLookAtService + 12 * 1ms + kMoment; }), 12);
}

struct Seen {
  const char* name;
  const char* bus;  // of the service's GPU; empty: it is the first of each program
  const char* device;  // of two, that the program uses
  bool steered;
};
class OfTwoDevices : public HeldBack, public testing::WithParamInterface<Seen> {};

TEST_P(OfTwoDevices, TheServicesIsSteeredAndLaunchesOnTheOtherArePassedThroughAndCounted) {
  stage_.bus = GetParam().bus;
  stage_.serve_now("wait");
  const auto end = [this] {
    cuCtxSynchronize();
    const std::string state = stage_.service()->state(), work = state.substr(state.find("\"work\""));
    EXPECT_NE(work.find(GetParam().steered ? "\"unsteered\": 0," : "\"unsteered\": 12,"), std::string::npos) << state;
  };
  cam_on_ = *GetParam().bus == 0 ? "0" : "1", work_on_ = GetParam().device;
  beside([&] { launches(12), end(); });
  EXPECT_EQ(begun_in_it(), GetParam().steered ? 0 : 12);
  EXPECT_EQ(ran(), 12);
}
INSTANTIATE_TEST_SUITE_P(Each, OfTwoDevices,
                         testing::Values(Seen{"First", "", "0", true}, Seen{"NotFirst", "", "1", false}, Seen{"Named", "0000:02:00.0", "1", true},
                                         Seen{"NotNamed", "0000:02:00.0", "0", false}),
                         [](const auto& each) { return std::string(each.param.name); });

class InFlight : public HeldBack, public testing::WithParamInterface<std::uint32_t> {};

TEST_P(InFlight, NoBestEffortLaunchBeginsWhileARealTimeRequestIsUnderWay) {
  stage_.serve_now("wait", {.in_flight = GetParam()});
  work_ = stage_.program("work", false, [] {
    cuInit(0);
    launches(300);
    cuCtxSynchronize();
  });
  stage_.run_for(100ms);
  cam_ = stage_.program("cam", true, [] {
    cuInit(0);
    for (int request = 0; request < 3; ++request) {
      launches(20);
      cuStreamSynchronize(nullptr);
    }
  });
  ASSERT_TRUE(stage_.comes([this] { return !work_->alive && !cam_->alive; }));
  std::vector<Launch> cam;
  std::ranges::copy_if(stage_.gpu.ledger(), std::back_inserter(cam), [this](const Launch& l) { return l.pid == cam_->pid; });
  ASSERT_EQ(cam.size(), 60u);
  EXPECT_EQ(ran(), 300);
  EXPECT_GT(of_work([&](const Launch& l) { return l.ended <= cam[0].begun; }), 50);
  EXPECT_GT(of_work([&](const Launch& l) { return l.begun >= cam[59].ended; }), 100);
  for (std::size_t r = 0; r < 3; ++r)
    EXPECT_EQ(of_work([&](const Launch& l) { return l.begun > cam[20 * r].begun && l.begun < cam[20 * r + 19].ended; }), 0) << "within request " << r;
}
INSTANTIATE_TEST_SUITE_P(Limits, InFlight, testing::Values(0, 1, 64));

// Five launches wait on the GPU behind another's request when the context is reset; after it the next five go.
TEST_F(HeldBack, LaunchesThatAContextTakesWithItHoldNobody) {
  stage_.serve_now("wait");
  std::uint32_t most = 0;
  stage_.machine.each_step([&] {
    stage_.gpu.look();
    if (stage_.service() == nullptr) return;
    for (const auto& s : stage_.service()->books().state())
      if (s.self.name == "work") most = std::max(most, stage_.service()->books().unfinished(s.client));
  });
  beside([] {
    for (int i = 0; i < 8; ++i) {
      launches(5, nullptr, static_cast<std::uint32_t>(i));
      EXPECT_EQ(cuDevicePrimaryCtxReset_v2(0), CUDA_SUCCESS);
    }
    launches(5, nullptr, 8);
  });
  EXPECT_LE(most, 10u) << "had they stayed in the books, there were 45";
  EXPECT_GE(ran(), 5);
  EXPECT_EQ(of_work([](const Launch& l) { return l.runs == 0 && !l.dropped; }), 0);
}

}  // namespace
}  // namespace corun::world
