// What the engine assumes of who drives it, and shortcuts that only it can take.
#include "sim/stages/compute_engine.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/support/engine_rig.h"

namespace corun::sim {
namespace {

constexpr EngineOptions kShortcuts{true, false}, kPlain{false, false};

TEST(ComputeEngine, WavesOfASingleWorkerAreSkippedToo) {
  EngineRig quick(small_gpu(2), kShortcuts, false), plain(small_gpu(2), kPlain, false);
  for (EngineRig* rig : {&quick, &plain}) {
    rig->accept(kernel(10'000, 256, us(1)), {.ctas = 1});
    rig->run();
  }
  EXPECT_LT(quick.engine.events() * 100, plain.engine.events());
  EXPECT_EQ(lines(quick.collected.kernels), lines(plain.collected.kernels));
}

}  // namespace
}  // namespace corun::sim
