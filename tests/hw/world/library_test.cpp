// Does the library tell the service of each kernel by its shape, and launch on the terms of the service that is there?
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "hw/live/system.h"
#include "hw/live/wire.h"
#include "tests/hw/world/stage.h"

namespace corun::world {
namespace {

using testing::ElementsAre;

class Library : public testing::Test {
 protected:
  ~Library() override { EXPECT_EQ(stage_.machine.wrong(), ""); }

  /// Of the program that has joined first.
  live::Memory& page() { return *static_cast<live::Memory*>(stage_.served->mapped.begin()->first); }
  static void launch_shape(std::uint32_t x) {
    const std::uint32_t l = Gpu::the().asks(0);
    Gpu::the().answered(l, cuLaunchKernel(reinterpret_cast<CUfunction>(std::uintptr_t{10} << 4), x, 2, 3, 4, 5, 6, 700, nullptr, nullptr, nullptr));
  }

  Stage stage_;
};

TEST_F(Library, EachKernelHasOnePlaceByItsShapeAndSoHasAGraph) {
  stage_.serve_now("wait");
  const auto one = stage_.program("one", true, [this] {
    cuInit(0);
    for (int i = 0; i < 3; ++i)
      for (const std::uint32_t x : {7u, 8u}) launch_shape(x);
    CUstream stream = nullptr;
    CUgraph graph = nullptr;
    CUgraphExec made = nullptr;
    cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    for (int i = 0; i < 5; ++i) {
      const std::uint32_t l = Gpu::the().asks(9, true);
      Gpu::the().answered(l, cuLaunchKernel(reinterpret_cast<CUfunction>(std::uintptr_t{10} << 4), 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr));
    }
    cuStreamEndCapture(stream, &graph);
    cuGraphInstantiateWithFlags(&made, graph, 0);
    for (int i = 0; i < 2; ++i) {
      const std::uint32_t l = Gpu::the().asks(1);
      Gpu::the().answered(l, cuGraphLaunch(made, stream));
      launch_shape(7);
    }
    cuCtxSynchronize();
    const live::KernelEntry* k = page().kernels;
    for (std::uint32_t i = 0; i < 2; ++i) {
      EXPECT_THAT(k[i].grid, ElementsAre(7 + i, 2, 3));
      EXPECT_THAT(k[i].block, ElementsAre(4, 5, 6));
      EXPECT_EQ(k[i].registers, 16u);
      EXPECT_EQ(k[i].static_shared_bytes, 16u);
      EXPECT_EQ(k[i].shared_bytes, 700u);
      EXPECT_STREQ(k[i].name, "kernel");
    }
    EXPECT_STREQ(k[2].name, "graph 2");
    EXPECT_EQ(k[2].grid[0], 5u);
    EXPECT_EQ(k[2].registers, 0u);
    EXPECT_STREQ(k[3].name, "") << "each has one place";
    EXPECT_EQ(page().launches.load(), 8u);
    EXPECT_EQ(page().graphs.load(), 2u);
    EXPECT_EQ(page().crowded.load(), 0u);
  });
  EXPECT_TRUE(stage_.comes([&] { return !one->alive; }));
}

TEST_F(Library, KernelsForWhichThereIsNoPlaceShareTheLastAndAreCounted) {
  stage_.serve_now("reef-n");
  const auto one = stage_.program("one", true, [this] {
    cuInit(0);
    for (std::uint32_t x = 1; x <= live::kKernels + 2; ++x) launch_shape(x);
    launch_shape(live::kKernels + 2);
    launch_shape(1);
    cuCtxSynchronize();
    EXPECT_STREQ(page().kernels[live::kKernels - 2].name, "kernel");
    EXPECT_STREQ(page().kernels[live::kKernels - 1].name, "others");
    EXPECT_EQ(page().crowded.load(), 4u) << "three that are there too late, the last of them twice";
    EXPECT_EQ(page().commands[0].block, 0u);
    EXPECT_EQ(static_cast<int>(page().commands[0].what), 0);
  });
  EXPECT_TRUE(stage_.comes([&] { return !one->alive; }));
}

TEST_F(Library, LaunchesThatDoNotAskHaveThePriorityThatTheServiceGivesWhichIsThere) {
  bool ends = false;
  stage_.serve_now("priority");
  const auto one = stage_.program("one", true, [&] {
    cuInit(0);
    while (!ends) {
      launch(100us);
      cuStreamSynchronize(nullptr);
      live::os::sleep_for(2ms);
    }
  });
  for (const int priority : {-3, 0, -3}) {
    if (priority == 0 || stage_.service() == nullptr || !stage_.served->alive) stage_.serve_now(priority == 0 ? "fcfs" : "priority");
    ASSERT_TRUE(stage_.comes([&] { return stage_.programs() == 1; }));
    stage_.run_for(20ms);
    const std::size_t before = stage_.gpu.ledger().size();
    stage_.run_for(100ms);
    ASSERT_GT(stage_.gpu.ledger().size(), before + 10);
    for (std::size_t i = before; i < stage_.gpu.ledger().size(); ++i) EXPECT_EQ(stage_.gpu.ledger()[i].priority, priority);
    stage_.kill_service();
    stage_.run_for(100ms);
    EXPECT_EQ(stage_.gpu.ledger().back().priority, 0) << "nobody steers it";
  }
  ends = true;
  EXPECT_TRUE(stage_.comes([&] { return !one->alive; }));
}

TEST_F(Library, AStreamInWhichNothingWasLaunchedIsDestroyedAsAnother) {
  stage_.serve_now("wait", {.persistent = true});
  const auto one = stage_.program("one", false, [this] {
    cuInit(0);
    for (std::uint32_t i = 0; i < 2 * live::kStreams; ++i) {
      CUstream stream = nullptr, none = nullptr;
      cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), cuStreamCreate(&none, CU_STREAM_NON_BLOCKING);
      launch(10us, stream, i);
      cuStreamSynchronize(stream);
      EXPECT_EQ(cuStreamDestroy_v2(none), CUDA_SUCCESS);
      EXPECT_EQ(cuStreamDestroy_v2(stream), CUDA_SUCCESS);
    }
    EXPECT_EQ(page().unsteered.load(), 0u) << "where launches can be stopped the numbers of streams that are destroyed come back";
  });
  EXPECT_TRUE(stage_.comes([&] { return !one->alive; }));
}

}  // namespace
}  // namespace corun::world
