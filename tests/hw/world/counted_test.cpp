// What does the service know of a program, whatever it makes and destroys, and what of it is said?
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "hw/live/metrics.h"
#include "hw/live/system.h"
#include "tests/hw/world/stage.h"

namespace corun::world {
namespace {

using testing::HasSubstr;

class Counted : public testing::Test {
 protected:
  ~Counted() override { EXPECT_EQ(stage_.machine.wrong(), ""); }

  /// What the service says of it when it has done all that and has not ended.
  void when_it_has(const std::function<void()>& work, const std::function<void(const std::string&)>& look, bool real_time = false) {
    const auto one = stage_.program("one", real_time, [&] {
      cuInit(0);
      work();
      look(stage_.service()->state());
    });
    ASSERT_TRUE(stage_.comes([&] { return !one->alive; }));
  }
  static void kernel_of(CUfunction f, unsigned blocks) {
    const std::uint32_t l = Gpu::the().asks(0);
    Gpu::the().answered(l, cuLaunchKernel(f, blocks, 1, 1, 32, 1, 1, 0, nullptr, nullptr, nullptr));
    cuStreamSynchronize(nullptr);
  }
  static void shapes(unsigned from, unsigned to) {
    for (unsigned n = from; n < to; ++n) kernel_of(reinterpret_cast<CUfunction>(std::uintptr_t{1} << 4), n);
  }
  std::uint64_t told() { return stage_.machine.count("more than 4095 kernels"); }

  Stage stage_;
};

TEST_F(Counted, ARequestEndsWhereItsHostWaitsByWhicheverCall) {
  stage_.serve_now("wait");
  for (const bool of_context : {false, true})
    when_it_has([&] {
      for (int i = 0; i < 200; ++i) {
        launch(1ms);
        if (i % 10 == 9) of_context ? cuCtxSynchronize() : cuStreamSynchronize(nullptr);
      }
    }, [](const std::string& state) { EXPECT_THAT(state, HasSubstr("\"requests\": 20,")); }, true);
  when_it_has([] {
    for (int i = 0; i < 200; ++i) launch(1ms);
    cuCtxSynchronize();
  }, [](const std::string& state) { EXPECT_THAT(state, HasSubstr("\"requests\": 1,")) << "where it waits for none"; }, true);
}

TEST_F(Counted, AStreamThatIsDestroyedLeavesItsPlaceToAnother) {
  stage_.serve_now("wait");
  static constexpr std::uint32_t kMany = live::kStreams + 44;
  when_it_has([] {
    for (std::uint32_t i = 1; i <= kMany; ++i) {
      CUstream stream = nullptr;
      EXPECT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
      launch(100us, stream, i);
      cuStreamSynchronize(stream);
      EXPECT_EQ(cuStreamDestroy_v2(stream), CUDA_SUCCESS);
    }
  }, [](const std::string& state) { EXPECT_THAT(state, testing::AllOf(HasSubstr(fmt::format("\"launches\": {},", kMany)), HasSubstr("\"unsteered\": 0,"))); });
}

TEST_F(Counted, KernelsThatAreGoneLeaveTheirEntriesAndThoseBeyondTheLastAreToldOnce) {
  stage_.serve_now("wait");
  constexpr unsigned kGone = 200, kFit = live::kKernels - kGone;
  when_it_has([this] {
    shapes(1, kFit);
    CUstream stream = nullptr;
    CUgraph graph = nullptr;
    EXPECT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
    for (unsigned i = 0; i < 2 * kGone; ++i) {
      CUgraphExec made = nullptr;
      EXPECT_EQ(cuGraphInstantiateWithFlags(&made, graph, 0), CUDA_SUCCESS);
      const std::uint32_t l = Gpu::the().asks(1);
      Gpu::the().answered(l, cuGraphLaunch(made, stream));
      cuStreamSynchronize(stream);
      EXPECT_EQ(cuGraphExecDestroy(made), CUDA_SUCCESS);
    }
    for (unsigned i = 0; i < 2 * kGone; ++i) {
      CUmodule module = nullptr;
      CUfunction f = nullptr;
      EXPECT_EQ(cuModuleLoadData(&module, "image"), CUDA_SUCCESS);
      EXPECT_EQ(cuModuleGetFunction(&f, module, "1"), CUDA_SUCCESS);
      kernel_of(f, 8);
      EXPECT_EQ(cuModuleUnload(module), CUDA_SUCCESS);
    }
    EXPECT_EQ(told(), 0u) << "they are gone, or fit";
    shapes(kFit, live::kKernels + kGone);
  }, [](const std::string& state) { EXPECT_THAT(state, testing::ContainsRegex("\"crowded\": 20[0-9],")); });
  EXPECT_EQ(told(), 1u);
}

TEST_F(Counted, WhatIsServedIsSaidToPrometheus) {
  stage_.serve_now("fcfs");
  when_it_has([] { launch(1ms), cuCtxSynchronize(); },
              [](const std::string& state) { EXPECT_THAT(live::metrics_of(state), HasSubstr("corun_launches_total{program=\"one\",client=\"0\"} 1\n")); });
}

}  // namespace
}  // namespace corun::world
