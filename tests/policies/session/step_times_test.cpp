// Does a step between captured sizes take what lies between them?
#include "policies/session/step_times.h"

#include <gtest/gtest.h>

#include <limits>

namespace corun {
namespace {

constexpr Time us(std::int64_t n) { return Time{n * 1'000'000}; }

/// A step of one launch for each of these times, one behind the other in the merged program.
class BetweenSizes : public testing::Test {
 protected:
  std::size_t step(ServingStep size, std::vector<std::optional<Time>> times) {
    merged_.parts.push_back(OpId{static_cast<std::uint32_t>(merged_.ops.size())});
    merged_.ops.push_back(Op{Sync{}, {}, {}, {}, {}});
    for (const auto& time : times) merged_.ops.push_back(Op{Launch{KernelId{0}, time, {}}, {}, {}, {}, {}});
    serving_.steps.push_back(size);
    return serving_.steps.size() - 1;
  }
  std::size_t prompt(std::uint32_t tokens, std::vector<std::optional<Time>> times) {
    return step({{}, 0, 0, tokens}, std::move(times));
  }
  std::size_t decode(std::uint32_t batch, std::uint32_t context, std::vector<std::optional<Time>> times) {
    return step({{}, batch, context, 0}, std::move(times));
  }
  /// The choice's program, and the times of its launches.
  std::pair<std::size_t, std::vector<Time>> played(const StepTimes& all, const StepTimes::Choice& choice) {
    const std::size_t first = merged_.parts[choice.program].value;
    const std::size_t end = choice.program + 1 < merged_.parts.size()
                                ? merged_.parts[choice.program + 1].value
                                : merged_.ops.size();
    std::vector<Time> times;
    for (std::size_t op = first; op < end; ++op)
      if (const auto* launch = std::get_if<Launch>(&merged_.ops[op].what))
        times.push_back(
            all.solo_time(choice, OpId{static_cast<std::uint32_t>(op)}, launch->solo_time.value_or(Time{})));
    return {choice.program, times};
  }
  std::pair<std::size_t, std::vector<Time>> at(std::uint32_t tokens) {
    const StepTimes all(serving_, merged_, kernels_);
    return played(all, all.prompt(tokens));
  }
  std::pair<std::size_t, std::vector<Time>> at(std::uint32_t batch, std::uint32_t context) {
    const StepTimes all(serving_, merged_, kernels_);
    return played(all, all.decode(batch, context));
  }
  using Played = std::pair<std::size_t, std::vector<Time>>;

  Serving serving_;
  Program merged_;
  std::vector<Kernel> kernels_{Kernel{}};
};

TEST_F(BetweenSizes, EachLaunchLiesBetweenItsTimesInTheTwoSizesAround) {
  const std::size_t large = prompt(256, {us(300), us(1000)}), small = prompt(64, {us(100), us(200)});
  EXPECT_EQ(at(160), Played(large, {us(200), us(600)})) << "half of the way";
  EXPECT_EQ(at(208), Played(large, {us(250), us(800)})) << "three quarters";
  EXPECT_EQ(at(256), Played(large, {us(300), us(1000)}));
  EXPECT_EQ(at(64), Played(small, {us(100), us(200)}));
}

TEST_F(BetweenSizes, ASizeCountsInEighthsOfTheWay) {
  const std::size_t small = prompt(64, {us(80)}), large = prompt(256, {us(160)});
  EXPECT_EQ(at(75), Played(small, {us(80)})) << "below a sixteenth";
  EXPECT_EQ(at(76), Played(large, {us(90)}));
  EXPECT_EQ(at(243), Played(large, {us(150)}));
  EXPECT_EQ(at(244), Played(large, {us(160)})) << "from fifteen sixteenths on";
}

TEST_F(BetweenSizes, OutsideOfWhatWasCapturedTheNearestIsAsItIs) {
  const std::size_t small = prompt(64, {us(80)}), large = prompt(256, {us(160)});
  EXPECT_EQ(at(1), Played(small, {us(80)}));
  EXPECT_EQ(at(9999), Played(large, {us(160)}));
}

TEST_F(BetweenSizes, ProgramsOfOtherLaunchesAreComparedByTheirTotals) {
  prompt(64, {us(100)});
  const std::size_t large = prompt(256, {us(300), us(100)});
  EXPECT_EQ(at(160), Played(large, {us(300) * 5 / 8, us(100) * 5 / 8})) << "250 of 400";
}

TEST_F(BetweenSizes, ADecodeLiesBetweenBatchesAndContexts) {
  prompt(64, {us(1)});
  decode(2, 100, {us(10)});
  decode(2, 1000, {us(28)});
  const std::size_t most = decode(4, 1000, {us(50)});  // 6 us, 1 us a sequence, 10 ns a token
  EXPECT_EQ(at(2, 550).second, std::vector{us(19)});
  const auto near = [&](const Played& played, double ms, double more_ms) {  // in sixty-fourths of what is more
    EXPECT_EQ(played.first, most);
    EXPECT_NEAR(to_ms(played.second.at(0)), ms, more_ms / 64);
  };
  near(at(4, 550), 0.032, 0.018);  // this batch has one context only: by the law
  near(at(3, 550), 0.0255, 0.009);
  near(at(9, 5000), 0.465, 0.415);
  EXPECT_NEAR(to_ms(at(1, 100).second.at(0)), 0.008, 0.002 / 64) << "not between a decode and a prompt";
}

/// A program of 5 us, and 1 ns a token by the second launch.
class OutsideOfSizes : public BetweenSizes {
 protected:
  OutsideOfSizes() { prompt(64, {us(1)}); }
  std::size_t captured(std::uint32_t batch, std::uint32_t context) {
    return decode(batch, context, {us(4), us(1) + Time{std::int64_t{batch} * context * 1000}});
  }
};

TEST_F(OutsideOfSizes, TheLaunchesThatGrowTakeWhatIsMore) {
  captured(1, 1000), captured(8, 1000), captured(1, 2000), captured(8, 2000);
  for (const auto& [batch, context] : std::vector<std::pair<std::uint32_t, std::uint32_t>>{{8, 3000}, {8, 100'000}, {32, 2000}, {64, 5000}, {1, 100}, {4, 100'000}}) {
    const std::vector<Time> times = at(batch, context).second;
    EXPECT_EQ(times.at(0), us(4)) << batch << " " << context;
    EXPECT_NEAR(to_ms(times.at(1)) / (0.001 + batch * context * 1e-6), 1, 0.01) << batch << " " << context;
  }
}

TEST_F(OutsideOfSizes, OneSizeTellsNoGrowthAndSaysSo) {
  const std::size_t only = captured(8, 1500);
  for (const std::uint32_t context : {400u, 1500u, 100'000u}) EXPECT_EQ(at(8, context), Played(only, {us(4), us(13)}));
  EXPECT_NE(StepTimes(serving_, merged_, kernels_).decodes_in_words().find("unknown"), std::string::npos);
}

TEST_F(OutsideOfSizes, OneBatchOrOneContextTellsOfTokens) {
  captured(8, 1000), captured(8, 2000);
  EXPECT_NEAR(to_ms(at(8, 10'000).second.at(1)), 0.081, 0.001);
  EXPECT_NEAR(to_ms(at(16, 2000).second.at(1)), 0.033, 0.001);
  serving_ = {}, merged_ = {};
  prompt(64, {us(1)});
  captured(4, 1000), captured(8, 1000);
  EXPECT_NEAR(to_ms(at(8, 10'000).second.at(1)), 0.081, 0.001);
  EXPECT_NE(StepTimes(serving_, merged_, kernels_).decodes_in_words().find("taken as its tokens'"), std::string::npos);
}

TEST_F(OutsideOfSizes, WhatShrinksWithNoiseDoesNotGrowBelowZero) {
  decode(8, 1000, {us(10)});
  decode(8, 2000, {us(9)});
  EXPECT_EQ(at(8, 100'000).second, std::vector{us(9)});
}

TEST_F(OutsideOfSizes, IsToldOfEachDecode) {
  captured(2, 1000), captured(8, 1000), captured(2, 2000), captured(8, 2000);
  const StepTimes all(serving_, merged_, kernels_);
  for (const auto& [batch, context, outside] : std::vector<std::tuple<std::uint32_t, std::uint32_t, bool>>{
           {2, 1000, false}, {8, 2000, false}, {5, 1500, false}, {1, 1500, true}, {9, 1500, true}, {5, 999, true}, {5, 2001, true}})
    EXPECT_EQ(all.decode(batch, context).uncaptured, outside) << batch << " " << context;
}

TEST_F(BetweenSizes, AttentionOfAPromptGrowsWithTheTokensBeforeIt) {
  kernels_.push_back(Kernel{});
  kernels_[1].name = "flash_fwd_kernel";
  prompt(50, {us(100), us(1)});
  prompt(100, {us(200), us(4)});
  for (const std::size_t op : {2u, 5u}) std::get<Launch>(merged_.ops[op].what).kernel = KernelId{1};
  const StepTimes all(serving_, merged_, kernels_);
  const auto behind = [&](std::uint32_t tokens, std::uint32_t before) { return played(all, all.prompt(tokens, before)).second; };
  EXPECT_EQ(behind(100, 0), (std::vector{us(200), us(4)}));
  EXPECT_EQ(behind(100, 100).at(0), us(200));
  EXPECT_NEAR(to_ms(behind(100, 100).at(1)), 0.012, 0.008 / 64) << "5,000 pairs of its own, and 10,000";
  EXPECT_NEAR(to_ms(behind(50, 100).at(1)), 0.005, 0.004 / 64) << "as of the largest: 5,000 pairs more";
  EXPECT_EQ(behind(75, 200).at(0), us(150));
  EXPECT_NEAR(to_ms(behind(75, 200).at(1)), 0.0025 + 0.012, 2e-4);
}

TEST_F(BetweenSizes, WithoutAnAttentionByNameAPromptDoesNotGrowAndSaysSo) {
  prompt(100, {us(200), us(4)});
  const StepTimes all(serving_, merged_, kernels_);
  EXPECT_EQ(played(all, all.prompt(100, 1000)).second, (std::vector{us(200), us(4)}));
  EXPECT_NE(all.prompts_in_words().find("none of its launches"), std::string::npos);
}

TEST_F(BetweenSizes, ALaunchWhoseTimeIsNotKnownStaysSo) {
  const std::size_t large =
      (prompt(64, {us(100), std::nullopt, us(10)}), prompt(256, {std::nullopt, us(300), us(30)}));
  EXPECT_EQ(at(160), Played(large, {Time{}, us(300), us(20)}));
}

TEST_F(BetweenSizes, OfTwoStepsOfOneSizeTheFirstCounts) {
  const std::size_t first = prompt(64, {us(100)});
  prompt(64, {us(200)});
  EXPECT_EQ(at(64), Played(first, {us(100)}));
}

TEST_F(BetweenSizes, TimesMayBeAsLongAsAny) {
  constexpr Time kLong{std::numeric_limits<std::int64_t>::max() / 4};
  prompt(64, {kLong});
  prompt(256, {kLong});
  EXPECT_LE(kLong - at(160).second.front(), Time{2}) << "rounded down";
}

}  // namespace
}  // namespace corun
