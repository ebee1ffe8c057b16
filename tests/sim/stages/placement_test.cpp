// Which SM takes a block?  Published placements, a measured one, and the rule behind them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <numeric>
#include <sstream>

#include "tests/support/engine_rig.h"
#include "traces/json/trace_json.h"

namespace corun::sim {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::ElementsAreArray;

using Sms = std::vector<std::uint32_t>;

// ---- systems.md, section 1: Gilman et al., "Demystifying the Placement Policies ..." (2020)
// ------------------------

/// Pascal with 5 SMs: one block X on each of SM 1 to 4, then three blocks of Y.
Sms placed_on_pascal(std::uint32_t x_threads, std::uint32_t y_threads) {
  EngineRig rig(read_gpu("pascal-5sm"));
  const LaunchId x = rig.accept(kernel(4, x_threads, ms(1)), {.mask = TpcMask::range(1, 5)});
  const LaunchId y = rig.accept(kernel(3, y_threads, ms(1)), {.at = us(1)});
  rig.run();
  EXPECT_THAT(rig.sms(x), ElementsAre(1, 2, 3, 4));
  return rig.sms(y);
}

/// Turing with 68 SMs: 512 threads on each of SM 0 to 66, then eight blocks of B.
Sms placed_on_turing(std::uint32_t b_threads) {
  EngineRig rig(read_gpu("turing-68sm"));
  const LaunchId a = rig.accept(kernel(67, 512, ms(1)));
  const LaunchId b = rig.accept(kernel(8, b_threads, ms(1)), {.at = us(1)});
  rig.run();
  Sms of_a = rig.sms(a);
  std::sort(of_a.begin(), of_a.end());
  Sms first_67(67);
  std::iota(first_67.begin(), first_67.end(), 0);
  EXPECT_EQ(of_a, first_67);
  return rig.sms(b);
}

TEST(PublishedPlacement, PascalX256Y160) { EXPECT_THAT(placed_on_pascal(256, 160), ElementsAre(0, 0, 1)); }
TEST(PublishedPlacement, PascalX1024Y32) { EXPECT_THAT(placed_on_pascal(1024, 32), ElementsAre(0, 0, 1)); }
TEST(PublishedPlacement, PascalX1024Y33) { EXPECT_THAT(placed_on_pascal(1024, 33), ElementsAre(0, 0, 0)); }
TEST(PublishedPlacement, TuringB33) { EXPECT_THAT(placed_on_turing(33), Each(67u)); }
TEST(PublishedPlacement, TuringB32) {
  EXPECT_THAT(placed_on_turing(32), ElementsAre(67, 0, 2, 4, 6, 8, 10, 12));
}

TEST(PublishedPlacement, TuringTakesEvenSmsBeforeOddOnes) {
  EngineRig rig(read_gpu("turing-68sm"));
  const LaunchId a = rig.accept(kernel(68, 512, ms(1)));
  rig.run();
  Sms order;
  for (std::uint32_t sm = 0; sm < 68; sm += 2) order.push_back(sm);
  for (std::uint32_t sm = 1; sm < 68; sm += 2) order.push_back(sm);
  EXPECT_EQ(rig.sms(a), order);
}

// ---- measured on an H200
// -------------------------------------------------------------------------------------------

/// %smid by block, as measured for one of the shapes in the reference file.
Sms measured(const std::string& shape) {
  std::ifstream file("experiments/reference/h200-placement.txt");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("placement " + shape + " ")) continue;
    std::istringstream numbers(line.substr(line.find(':') + 1));
    return {std::istream_iterator<std::uint32_t>(numbers), {}};
  }
  ADD_FAILURE() << "no placement of " << shape << " in the reference";
  return {};
}

Sms simulated(std::uint32_t threads, std::uint32_t shared_memory) {
  EngineRig rig(read_gpu("h200"));
  Kernel k = kernel(264, threads, ms(1));
  k.dynamic_shared_memory_bytes = shared_memory;
  const LaunchId launch = rig.accept(k);
  rig.run();
  return rig.sms(launch);
}

Sms part(const Sms& sms, std::size_t first, std::size_t end) {
  return {sms.begin() + static_cast<std::ptrdiff_t>(first), sms.begin() + static_cast<std::ptrdiff_t>(end)};
}

/// The card starts its second lap over this group of TPCs before the first lap is complete, and then goes on
/// with the first.  Our model completes the lap (placement.h, docs/model.md).
const Sms kEarlyGroup{128, 129, 130, 131, 124, 125, 126, 127};
constexpr std::size_t kEarlyFrom = 84;  // and the first lap goes on at 92

TEST(H200Placement, FirstBlocksGoWhereTheCardPutsThem) {
  EXPECT_EQ(part(simulated(32, 0), 0, kEarlyFrom), part(measured("small"), 0, kEarlyFrom));
  EXPECT_EQ(part(simulated(128, 102400), 0, kEarlyFrom), part(measured("100K"), 0, kEarlyFrom));
}

TEST(H200Placement, KnownGapSecondLapOverOneGroupStartsEarlyOnTheCard) {
  const Sms card = measured("small"), model = simulated(32, 0);
  ASSERT_EQ(card.size(), 264u);
  EXPECT_EQ(part(card, kEarlyFrom, kEarlyFrom + 8), kEarlyGroup);
  EXPECT_NE(part(model, kEarlyFrom, kEarlyFrom + 8), kEarlyGroup)
      << "the gap is closed: make this a test of equality";
  // But for these eight the card's first two laps are ours.
  Sms card_without = card, model_without = model;
  card_without.erase(card_without.begin() + kEarlyFrom, card_without.begin() + kEarlyFrom + 8);
  model_without.erase(model_without.begin() + 132, model_without.begin() + 140);
  EXPECT_EQ(card_without, model_without);
}

TEST(H200Placement, KnownGapBlocksOf1024ThreadsSwapTheFirstTwoGroupsOnTheCard) {
  const Sms card = measured("1024thr"), model = simulated(1024, 0);
  EXPECT_THAT(part(card, 0, 8), ElementsAre(124, 125, 126, 127, 128, 129, 130, 131));
  EXPECT_EQ(part(model, 0, 8), kEarlyGroup) << "the gap is closed: make this a test of equality";
  EXPECT_EQ(part(card, 8, kEarlyFrom), part(model, 8, kEarlyFrom));
}

TEST(H200Placement, TwoLapsFillEverySmTwice) {
  for (Sms sms : {measured("small"), measured("1024thr"), simulated(32, 0), simulated(1024, 0),
                  simulated(128, 102400)}) {
    std::sort(sms.begin(), sms.end());
    for (std::uint32_t i = 0; i < 264; ++i) ASSERT_EQ(sms[i], i / 2);
  }
}

// ---- the rule ---------------------------------------------------------------------------------------------

TEST(LeftoverPlacement, SecondKernelGetsOnlyWhatTheFirstLeaves) {
  EngineRig rig(small_gpu(3));
  rig.accept(whole_sm_kernel(2, us(10)));
  Kernel needs_shared = kernel(6, 64, us(1));
  needs_shared.static_shared_memory_bytes = 32768;
  const LaunchId second = rig.accept(needs_shared, {.at = us(1)});
  rig.run();
  EXPECT_THAT(rig.sms(second), Each(2u));
}

TEST(LeftoverPlacement, RoomIsJudgedAnewForEachBlock) {
  EngineRig rig(small_gpu(3));
  // SM 0 keeps room for 2 blocks of 512 threads, SM 1 for 3, SM 2 for 4.
  rig.accept(kernel(1, 1024, us(10)), {.mask = TpcMask::range(0, 1)});
  rig.accept(kernel(1, 512, us(10)), {.mask = TpcMask::range(1, 2)});
  const LaunchId launch = rig.accept(kernel(9, 512, us(10)), {.at = us(1)});
  rig.run();
  EXPECT_THAT(rig.sms(launch), ElementsAre(2, 1, 2, 0, 1, 2, 0, 1, 2));
}

TEST(LeftoverPlacement, TiesGoToTheFirstInTheDevicesOrder) {
  Gpu gpu = small_gpu(4);
  gpu.placement_order = {SmId{2}, SmId{0}, SmId{3}, SmId{1}};
  EngineRig rig(gpu);
  const LaunchId launch = rig.accept(kernel(8, 256, us(10)));
  rig.run();
  EXPECT_THAT(rig.sms(launch), ElementsAre(2, 0, 3, 1, 2, 0, 3, 1));
}

TEST(LeftoverPlacement, MostRoomCountsBlocksOfThisKernelNotThreads) {
  EngineRig rig(small_gpu(2));
  // SM 0 has more threads left, but its shared memory holds one block only; SM 1 holds two.
  Kernel shared = kernel(1, 32, us(10));
  shared.static_shared_memory_bytes = 49152;
  rig.accept(shared, {.mask = TpcMask::range(0, 1)});
  Kernel threads = kernel(1, 1024, us(10));
  threads.static_shared_memory_bytes = 32768;
  rig.accept(threads, {.mask = TpcMask::range(1, 2)});
  Kernel k = kernel(3, 128, us(1));
  k.static_shared_memory_bytes = 16384;
  const LaunchId launch = rig.accept(k, {.at = us(1)});
  rig.run();
  EXPECT_THAT(rig.sms(launch), ElementsAre(1, 0, 1));
}

TEST(LeftoverPlacement, AFreedPlaceIsTakenByTheNextBlock) {
  EngineRig rig(small_gpu(2));
  const LaunchId launch = rig.accept(uneven_kernel(2048 / 2, {us(4), us(1), us(4), us(4), us(4), us(4)}));
  rig.run();
  const auto blocks = rig.blocks(launch);
  ASSERT_EQ(blocks.size(), 6u);
  EXPECT_EQ(blocks[4].sm, blocks[1].sm);
  EXPECT_EQ(blocks[4].start, blocks[1].end);
}

TEST(LeftoverPlacement, AMaskKeepsAllBlocksOnItsTpcs) {
  Gpu gpu = small_gpu(6);
  gpu.sms_per_tpc = 2;
  EngineRig rig(gpu);
  const LaunchId launch = rig.accept(kernel(200, 512, us(1)), {.mask = TpcMask::range(1, 2)});
  rig.run();
  EXPECT_THAT(rig.sms(launch), Each(testing::AnyOf(2u, 3u)));
}

}  // namespace
}  // namespace corun::sim
