// Does a server of sequences take the right step, and give each sequence its tokens when the step ends?
#include "policies/session/server.h"

#include <gtest/gtest.h>

namespace corun {
namespace {

constexpr Time ms(std::int64_t n) { return Time{n * 1'000'000'000}; }

/// Steps: prefill of 64 and of 256 tokens, decode of 2 sequences of 100 and 1000 tokens, of 4 of 1000.
class Servers : public testing::Test {
 protected:
  Servers() {
    serving_.steps = {{ProgramId{0}, 0, 0, 64}, {ProgramId{1}, 0, 0, 256}, {ProgramId{2}, 2, 100, 0}, {ProgramId{3}, 2, 1000, 0},
                      {ProgramId{4}, 4, 1000, 0}};
    serving_.most_at_once = 4;
    for (std::uint32_t i = 0; i < 5; ++i) merged_.parts.push_back(OpId{10 * i});
    merged_.ops.resize(50);
  }
  /// Runs it; every step takes 1 ms.  What it did, by number of the step.
  std::vector<std::size_t> play(Time until = ms(1'000'000)) {
    client_.serving = serving_;
    Server server(client_, merged_, kernels_);
    std::vector<std::size_t> steps;
    for (Time now = server.next(Time{}); now != kNever && now < until; now = server.next(now)) {
      const auto [first, end] = server.begin(now);
      EXPECT_EQ(end, first + 10);
      steps.push_back(first / 10);
      now += ms(1);
      for (SequenceRecord& r : server.ended(now)) done_.push_back(std::move(r));
    }
    left_ = server.unfinished();
    return steps;
  }

  Serving serving_;
  Client client_;
  Program merged_;
  std::vector<Kernel> kernels_{Kernel{}};
  std::vector<SequenceRecord> done_, left_;
};

TEST_F(Servers, APromptIsReadAndThenContinued) {
  serving_.sequences = {{ms(5), 50, 3}};
  EXPECT_EQ(play(), (std::vector<std::size_t>{0, 2, 2}));
  ASSERT_EQ(done_.size(), 1u);
  EXPECT_EQ(done_[0].arrival, ms(5));
  EXPECT_EQ(done_[0].first_token, ms(6)) << "the prompt's end gives the first token";
  EXPECT_EQ(done_[0].gaps, (std::vector<Time>{ms(1), ms(1)}));
  EXPECT_EQ(done_[0].finished, ms(8));
}

TEST_F(Servers, OneTokenNeedsNoDecode) {
  serving_.sequences = {{ms(0), 64, 1}};
  EXPECT_EQ(play(), (std::vector<std::size_t>{0}));
  EXPECT_EQ(done_.at(0).finished, done_.at(0).first_token);
}

TEST_F(Servers, ALongPromptIsReadInChunksOfTheLargestAndWhatIsLeft) {
  serving_.sequences = {{ms(0), 64, 1}, {ms(0), 65, 1}, {ms(0), 256, 1}, {ms(0), 257, 1}, {ms(0), 600, 1}};
  EXPECT_EQ(play(), (std::vector<std::size_t>{0, 0, 1, 1, 0, 1, 1, 1})) << "65 are nearer 64, 88 are not";
}

TEST_F(Servers, ADecodeHoldsTheBatchAndTheMeanContext) {
  serving_.sequences = {{ms(0), 64, 110}};
  std::vector<std::size_t> steps = play();
  // After the prompt 64 + 1 tokens; the 156th is there after 92 more.
  EXPECT_EQ(std::vector<std::size_t>(steps.begin(), steps.begin() + 93), [] {
    std::vector<std::size_t> expected(93, 2);
    expected[0] = 0;
    return expected;
  }()) << "contexts 65 to 156 are as 100";
  EXPECT_EQ(steps[93], 3u) << "157 lie between 100 and 1000";
  done_.clear();
  serving_.sequences = {{ms(0), 64, 40}, {ms(0), 64, 40}, {ms(0), 64, 40}};
  steps = play();
  EXPECT_EQ(steps[3], 4u) << "three sequences fit into a batch of four";
}

TEST_F(Servers, APaddedDecodeReadsAsMuchOfEachAsTheLongestHas) {
  serving_.sequences = {{ms(0), 60, 2}, {ms(0), 200, 2}};
  EXPECT_EQ(play(), (std::vector<std::size_t>{0, 1, 2})) << "131 in the mean";
  serving_.padded = true;
  EXPECT_EQ(play(), (std::vector<std::size_t>{0, 1, 3})) << "201";
}

TEST_F(Servers, WhatExceedsAllThatWasCapturedTakesTheLargest) {
  serving_.most_at_once = 6;
  serving_.sequences.assign(6, {ms(0), 64, 3000});
  const auto steps = play(ms(3000));
  EXPECT_EQ(steps.back(), 4u);
}

TEST_F(Servers, PromptsComeFirstAndOthersWaitForTheirTokens) {
  serving_.sequences = {{ms(0), 10, 3}, {ms(1), 10, 2}};
  EXPECT_EQ(play(), (std::vector<std::size_t>{0, 0, 2, 2}));
  ASSERT_EQ(done_.size(), 2u);
  EXPECT_EQ(done_[0].sequence, 1u);
  EXPECT_EQ(done_[1].gaps, (std::vector<Time>{ms(2), ms(1)})) << "a prompt was read in between";
}

TEST_F(Servers, NoMoreThanTheMostAreInTheBatch) {
  serving_.most_at_once = 2;
  serving_.sequences.assign(3, {ms(0), 10, 3});
  EXPECT_EQ(play(), (std::vector<std::size_t>{0, 0, 2, 2, 0, 2, 2}));
  EXPECT_EQ(done_.at(2).first_token, ms(5));
}

TEST_F(Servers, WhatIsInThePrefixCacheIsNotReadAgain) {
  serving_.prefix_block = 64, serving_.prefix_cache = 100 * 64;
  serving_.sequences = {{ms(0), 256, 1, {1, 2, 3, 4}}, {ms(10), 256, 1, {1, 2, 3, 4}}, {ms(20), 256, 1, {1, 2, 9, 4}}, {ms(30), 65, 1, {1}}, {ms(40), 64, 1, {1}}};
  play();
  ASSERT_EQ(done_.size(), 5u);
  EXPECT_EQ(done_[0].cached, 0u);
  EXPECT_EQ(done_[1].cached, 192u) << "the block of the last token is read";
  EXPECT_EQ(done_[2].cached, 128u) << "what follows another block is another";
  EXPECT_EQ(done_[3].cached, 64u);
  EXPECT_EQ(done_[4].cached, 0u) << "its only block holds its last token";
  serving_.prefix_cache.reset();
  done_.clear();
  play();
  EXPECT_EQ(done_[1].cached, 0u);
}

TEST(PrefixCaches, KeepWhatWasUsedLastAndTheFirstBlocksOfAPromptLongest) {
  using Blocks = std::vector<std::uint64_t>;
  PrefixCache cache(3 * 16, 16);
  cache.keep(Blocks{1, 2}, 32);
  cache.keep(Blocks{3}, 16);
  EXPECT_EQ(cache.kept(Blocks{1, 2}, 33), 32u);
  cache.keep(Blocks{4}, 16);
  EXPECT_EQ(cache.kept(Blocks{1, 2}, 33), 16u) << "2 went";
  cache.keep(Blocks{1}, 16);
  cache.keep(Blocks{5}, 31);
  EXPECT_EQ(cache.kept(Blocks{3}, 17), 0u) << "3 was used before 4 and 1";
  EXPECT_EQ(cache.kept(Blocks{1}, 17), 16u);
  cache.keep(Blocks{6, 7}, 31);
  EXPECT_EQ(cache.kept(Blocks{6, 7}, 33), 16u) << "a block that is not whole is not kept";
  cache.keep(Blocks{11, 12, 13, 14, 15}, 80);
  EXPECT_EQ(cache.kept(Blocks{11, 12, 13, 14, 15}, 81), 48u) << "of more than it holds, the beginning";
  EXPECT_EQ(PrefixCache(15, 16).kept(Blocks{1}, 17), 0u);
}

TEST_F(Servers, WhatCameAndDidNotEndIsUnfinished) {
  serving_.sequences = {{ms(0), 10, 100}, {ms(900), 10, 1}};
  play(ms(10));
  EXPECT_TRUE(done_.empty());
  ASSERT_EQ(left_.size(), 1u);
  EXPECT_EQ(left_[0].first_token, ms(1));
  EXPECT_EQ(left_[0].finished, kNever);
}

}  // namespace
}  // namespace corun
