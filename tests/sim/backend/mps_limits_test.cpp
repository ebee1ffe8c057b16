// Where the launches of an MPS client with a thread percentage go, by itself.
#include "sim/backend/mps_limits.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "traces/json/trace_json.h"
#include "traces/model/error.h"

namespace corun::sim {
namespace {

/// SMs of TPCs where two SMs side by side are one.
SmMask sms_of_tpcs(const TpcMask& tpcs) {
  SmMask sms;
  for (std::uint32_t tpc = 0; tpc < kMaxSms / 2; ++tpc)
    if (tpcs.allows(TpcId{tpc})) sms.set(2 * tpc), sms.set(2 * tpc + 1);
  return sms;
}
SmMask tpcs(std::uint32_t first, std::uint32_t end) { return sms_of_tpcs(TpcMask::range(first, end)); }
SmMask both(SmMask a, const SmMask& b) { return a |= b; }

/// An H200: 66 TPCs, of which 3 are kept back.
class Limits {
 public:
  explicit Limits(const std::vector<double>& percentages)
      : limits(percentages, 2, gpu, [](const TpcMask& t) { return sms_of_tpcs(t); }) {}
  /// Where a launch of the client goes while `busy` has a block of 128 threads on each SM.
  SmMask settles(std::uint32_t client, const SmMask& busy, std::uint32_t ctas = 0) const {
    Submission::Kernel kernel;
    kernel.record.client = ClientId{client};
    kernel.allowed = limits.within(kernel.record.client, sms_of_tpcs(TpcMask::range(0, gpu.tpcs())));
    kernel.ctas = ctas;
    limits.settle([&](const SmMask& place) { return std::uint64_t{128} * (place & busy).count(); }, kernel);
    return kernel.allowed;
  }

  const Gpu gpu = read_gpu("h200");
  MpsLimits limits;
};

TEST(MpsLimits, WithoutPercentagesAClientMayGoAnywhere) {
  const MpsLimits none;
  EXPECT_FALSE(none.any());
  EXPECT_EQ(none.within(ClientId{0}, tpcs(0, 66)), tpcs(0, 66));
}

TEST(MpsLimits, ALaunchGoesToThePlaceThatHoldsLeast) {
  const Limits half({50});
  EXPECT_TRUE(half.limits.any());
  EXPECT_EQ(half.settles(0, {}), tpcs(0, 33)) << "the first of those that hold as little";
  EXPECT_EQ(half.settles(1, tpcs(0, 33)), tpcs(30, 63)) << "they meet on 3 of the 63 TPCs";
  EXPECT_EQ(half.settles(1, tpcs(31, 63)), tpcs(0, 33));
}

TEST(MpsLimits, AnyTwoPlacesTogetherLeaveWhatIsKeptBack) {
  const Limits third({33});
  EXPECT_EQ(third.settles(0, {}), tpcs(0, 21));
  EXPECT_EQ(third.settles(0, tpcs(0, 42)), tpcs(42, 63));
  EXPECT_EQ(third.settles(0, both(tpcs(0, 21), tpcs(42, 63))), tpcs(21, 42));
}

TEST(MpsLimits, EachClientMayHaveAPercentageOfItsOwn) {
  const Limits two({25, 75});
  EXPECT_EQ(two.settles(0, {}).count(), two.gpu.mps_sms(25));
  EXPECT_EQ(two.settles(1, {}).count(), two.gpu.mps_sms(75));
}

TEST(MpsLimits, ALaunchWhoseSmsThePolicyNamedStaysThere) {
  const Limits half({50});
  EXPECT_EQ(half.settles(0, tpcs(0, 33), 4), tpcs(0, 33)) << "a number of CTAs on each SM";
  Submission::Kernel kernel;
  kernel.allowed = half.limits.within(ClientId{0}, tpcs(0, 10));
  half.limits.settle([&](const SmMask&) { return std::uint64_t{0}; }, kernel);
  EXPECT_EQ(kernel.allowed, tpcs(0, 10));
}

TEST(MpsLimits, APercentageIsAboveZeroAndAtMostAHundred) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double refused : {0.0, -1.0, 100.5, nan}) EXPECT_THROW(Limits({refused}), InputError) << refused;
  for (const double taken : {0.5, 100.0}) EXPECT_NO_THROW(Limits({taken})) << taken;
}

TEST(MpsLimits, TheLastIsThatOfAllFurtherClients) {
  const Limits one({25});
  EXPECT_EQ(one.settles(1, {}).count(), one.gpu.mps_sms(25));
}

TEST(MpsLimits, AGpuWithoutPercentagesRefusesOne) {
  Gpu gpu = read_gpu("h200");
  gpu.mps_least_sms = 0;
  const auto make = [&](double percentage) { MpsLimits({percentage}, 1, gpu, sms_of_tpcs); };
  EXPECT_THROW(make(99), InputError);
  EXPECT_NO_THROW(make(100));
}

}  // namespace
}  // namespace corun::sim
