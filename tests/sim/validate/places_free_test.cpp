// A kernel that is launched again and again: for how much of its period are its places on the SMs free?
// Measured alone, block by block, on an H100 (experiments/h100/waves).
#include "sim/validate/places_free.h"

#include <gtest/gtest.h>

#include "sim/validate/replay.h"
#include "traces/json/trace_json.h"

namespace corun::sim {
namespace {

constexpr std::uint32_t kPlaces = 16 * 132;  // of blocks of 128 threads on the whole GPU

class PlacesFree : public ::testing::Test {
 protected:
  /// It takes 100 us alone and reads `dram_mb` MB from DRAM.
  static Kernel kernel(std::uint32_t blocks, double dram_mb) {
    Kernel k;
    k.name = "k";
    k.grid.x = blocks;
    k.block.x = 128;
    k.registers_per_thread = 32;
    k.solo_time = from_us(100);
    k.counters.warp_instructions = 1e7;
    k.counters.dram_read_bytes = dram_mb * 1e6;
    k.counters.dram_write_bytes = 0;
    k.counters.l2_bytes = dram_mb * 1.5e6;
    return k;
  }
  Time free(std::uint32_t blocks, double dram_mb, std::uint32_t sms = 132) const {
    return places_free(kernel(blocks, dram_mb), gpu_, sms);
  }
  static Time from_us(double us) { return from_ns(us * 1e3); }

  Gpu gpu_ = read_gpu("h200");
};

TEST_F(PlacesFree, OfASingleWaveAreFreeAtNoTime) {
  EXPECT_EQ(free(kPlaces, 1), Time{});
  EXPECT_GT(free(kPlaces + 1, 1), Time{});
}

TEST_F(PlacesFree, OfAFewWavesAreFreeForATenthOfABlock) {
  // Two waves and a tenth of one.
  EXPECT_NEAR(to_ns(free(2 * kPlaces, 1)), 100e3 * 0.1 / 2.1, 1);
  EXPECT_NEAR(to_ns(free(8 * kPlaces, 1)), 100e3 * 0.1 / 8.1, 1);
}

TEST_F(PlacesFree, OfMoreWavesThanEightAreLeftToTheSimulator) {
  EXPECT_GT(free(8 * kPlaces, 1), Time{});
  EXPECT_EQ(free(8 * kPlaces + 1, 1), Time{});
  // On half of the SMs there are twice as many waves.
  EXPECT_GT(free(4 * kPlaces, 1, 66), Time{});
  EXPECT_EQ(free(4 * kPlaces + 1, 1, 66), Time{});
}

TEST_F(PlacesFree, AfterMoreThanL2HoldsTheNextLaunchBeginsLater) {
  const double holds = static_cast<double>(gpu_.contention.l2_own_bytes) / 1e6;  // all of it is read anew
  EXPECT_EQ(free(20 * kPlaces, holds - 0.1), Time{});
  EXPECT_EQ(free(20 * kPlaces, holds + 0.1), from_us(0.35));
}

TEST_F(PlacesFree, WhereDramBoundsItsFirstAndLastBytesAreWaitedFor) {
  // 0.7 of the time at 4.69 TB/s is the bound.
  EXPECT_EQ(free(2 * kPlaces, 400), from_us(1.5 + 0.35));
  EXPECT_EQ(free(kPlaces / 2, 400), from_us(1.5 + 0.35));
  EXPECT_LT(free(kPlaces / 2, 300), from_us(1.5));
}

TEST_F(PlacesFree, AreFreeForAQuarterOfTheTimeAtMost) {
  Kernel short_one = kernel(2 * kPlaces, 8);
  short_one.solo_time = from_us(2);
  EXPECT_EQ(places_free(short_one, gpu_, 132), from_us(0.5));
  short_one.solo_time_by_sms[66] = from_us(1);
  EXPECT_EQ(places_free(short_one, gpu_, 66), from_us(0.25));
}

/// What is free of its time lies between its launches instead, so that a kernel alone takes as long as before,
/// and two of them less.
TEST_F(PlacesFree, ShortenWhatTwoTakeTogetherAndNotWhatOneTakesAlone) {
  Reference reference;
  ReferenceKernel one;
  one.kernel = kernel(2 * kPlaces, 1);
  one.launches = 10;
  reference.kernels = {one};
  reference.rows = {{0, 0, Mode::streams, 1, 1, 1}};
  const Replay before = replay(reference, gpu_, {});
  reference.kernels[0].kernel.places_free_by_sms[132] = from_us(5);
  const Replay after = replay(reference, gpu_, {});
  EXPECT_NEAR(after.solo_ms[0] / before.solo_ms[0], 1, 1e-4);
  EXPECT_LT(after.rows[0].t_a, before.rows[0].t_a - 0.04);
}

}  // namespace
}  // namespace corun::sim
