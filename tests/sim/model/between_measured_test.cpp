// A kernel's time on a number of SMs that lies between two on which it was measured.
#include <gtest/gtest.h>

#include "sim/model/kernel_model.h"
#include "traces/json/trace_json.h"

namespace corun::sim {
namespace {

Kernel measured(std::map<std::uint32_t, double> us) {
  Kernel k;
  k.name = "ampere_sgemm_128x64_tn", k.grid = {13200, 1, 1}, k.block = {128, 1, 1}, k.registers_per_thread = 64;
  k.solo_time = from_ns(us.at(132) * 1e3);
  for (const auto& [sms, time] : us) k.solo_time_by_sms[sms] = from_ns(time * 1e3);
  if (us.size() == 1) k.solo_time_by_sms.clear();
  return k;
}

double time_us(const Kernel& kernel, std::uint32_t sms) {
  static const Gpu gpu = read_gpu("h200");
  return to_ns(KernelModel(kernel, *kernel.solo_time, gpu).solo_time(sms)) / 1e3;
}

TEST(BetweenMeasured, ATimeLiesBetweenThoseBelowAndAbove) {
  for (const double quarter : {30.0, 45.0, 90.0, 130.0, 400.0}) {
    const Kernel k = measured({{32, quarter}, {132, 30}});
    for (std::uint32_t sms = 32; sms <= 132; ++sms) {
      EXPECT_GE(time_us(k, sms), 30 - 1e-3) << sms;
      EXPECT_LE(time_us(k, sms), quarter + 1e-3) << sms;
    }
    EXPECT_NEAR(time_us(k, 32), quarter, 1e-3);
    EXPECT_NEAR(time_us(k, 132), 30, 1e-3);
    EXPECT_NEAR(time_us(k, 33), quarter, 0.12 * quarter) << "no leap beside a measured time";
  }
}

TEST(BetweenMeasured, WhatTheModelHasWrongAtBothIsMendedBetween) {
  const Kernel alone = measured({{132, 30}});
  const double quarter = time_us(alone, 32), half = time_us(alone, 66);
  EXPECT_NEAR(time_us(measured({{32, quarter}, {132, 30}}), 66), half, 0.02 * half) << "nothing to mend";
  // A quarter takes longer by a factor; half the GPU lies in the middle of a quarter and the whole, nearly.
  const double more = time_us(measured({{32, 1.2 * quarter}, {132, 30}}), 66) / half;
  EXPECT_GT(more, 1.02);
  EXPECT_LT(more, 1.2);
}

}  // namespace
}  // namespace corun::sim
