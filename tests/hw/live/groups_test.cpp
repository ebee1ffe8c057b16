// Which groups of SMs does a set of TPCs get?
#include "hw/live/groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace corun::live {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const std::vector<std::uint32_t> kFour{4, 4, 4, 6};

Tpcs tpcs(std::initializer_list<std::pair<std::size_t, std::size_t>> ranges) {
  Tpcs set{};
  for (const auto& [first, end] : ranges)
    for (std::size_t t = first; t < end; ++t) set[t / 64] |= std::uint64_t{1} << (t % 64);
  return set;
}

TEST(Groups, AGroupIsInASetWithMoreThanHalfOfItsTpcsOrWithHalfAndTheFirst) {
  EXPECT_THAT(groups_in(tpcs({{0, 1}}), kFour), IsEmpty());
  EXPECT_THAT(groups_in(tpcs({{0, 2}}), kFour), ElementsAre(0));
  EXPECT_THAT(groups_in(tpcs({{2, 4}}), kFour), IsEmpty());
  EXPECT_THAT(groups_in(tpcs({{1, 4}}), kFour), ElementsAre(0));
  EXPECT_THAT(groups_in(tpcs({{0, 18}}), kFour), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(groups_in(tpcs({{15, 18}}), kFour), IsEmpty());
  EXPECT_THAT(groups_in(tpcs({{14, 18}}), kFour), ElementsAre(3));
}

TEST(Groups, ASplitInTwoGivesEachGroupToOneOfThem) {
  for (std::size_t cut = 0; cut <= 18; ++cut) {
    std::vector<std::size_t> both = groups_in(tpcs({{0, cut}}), kFour);
    const std::vector<std::size_t> second = groups_in(tpcs({{cut, 18}}), kFour);
    both.insert(both.end(), second.begin(), second.end());
    EXPECT_THAT(both, ElementsAre(0, 1, 2, 3)) << cut;
  }
}

TEST(Groups, AnEvenSplitOfAnH200GivesThreePrograms48And40And44Sms) {
  std::vector<std::uint32_t> groups(15, 4);
  groups.push_back(6);
  EXPECT_EQ(sms_of(tpcs({{0, 22}}), groups), 48u);
  EXPECT_EQ(sms_of(tpcs({{22, 44}}), groups), 40u);
  EXPECT_EQ(sms_of(tpcs({{44, 66}}), groups), 44u);
}

}  // namespace
}  // namespace corun::live
