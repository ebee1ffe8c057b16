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
  const std::size_t most = decode(4, 1000, {us(40)});
  EXPECT_EQ(at(2, 550).second, std::vector{us(19)});
  EXPECT_EQ(at(4, 550), Played(most, {us(40)})) << "this batch has one context only";
  EXPECT_EQ(at(3, 550), Played(most, {us(59) / 2}));
  EXPECT_EQ(at(1, 100).second, std::vector{us(10)}) << "not between a decode and a prompt";
  EXPECT_EQ(at(9, 5000), Played(most, {us(40)}));
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
