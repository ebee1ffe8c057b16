// SMs kept as one: apart and together again.
#include "sim/stages/cohorts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/support/stages.h"

namespace corun::sim {
namespace {

using testing::ElementsAre;

TEST(SmCohorts, AreOneAtFirstOrEachSmItsOwn) {
  EXPECT_THAT(Cohorts(3, true).list(), ElementsAre(0));
  EXPECT_EQ(Cohorts(3, true).size(0), 3u);
  EXPECT_THAT(Cohorts(3, false).list(), ElementsAre(0, 1, 2));
  EXPECT_FALSE(Cohorts(1, true).together()) << "nothing to keep together";
}

TEST(SmCohorts, ASplitKeepsTheOldHeadAndTellsTheOther) {
  Cohorts cohorts(6, true);
  EXPECT_EQ(cohorts.split(0, mask({2, 4})), 2u);
  EXPECT_EQ(cohorts.members(0), mask({0, 1, 3, 5}));
  EXPECT_EQ(cohorts.members(2), mask({2, 4}));
  EXPECT_EQ(cohorts.split(0, mask({0, 5})), 1u);
  EXPECT_THAT(cohorts.list(), ElementsAre(0, 1, 2));
  EXPECT_EQ(cohorts.size(0) + cohorts.size(1) + cohorts.size(2), 6u);
}

TEST(SmCohorts, JoinUndoesSplit) {
  Cohorts cohorts(4, true);
  cohorts.split(0, mask({3}));
  cohorts.join(0, 3);
  EXPECT_THAT(cohorts.list(), ElementsAre(0));
  EXPECT_EQ(cohorts.members(0), mask({0, 1, 2, 3}));
}

TEST(SmCohorts, SmsThatAMaskTellsApartDoNotJoin) {
  Cohorts cohorts(4, true);
  std::vector<std::uint32_t> parted;
  const auto split = [&](std::uint32_t head, const SmMask& part) {
    parted.push_back(head);
    cohorts.split(head, part);
  };
  cohorts.respect(mask({2, 3}), split);
  EXPECT_THAT(parted, ElementsAre(0));
  EXPECT_FALSE(cohorts.may_join(0, 2));
  EXPECT_TRUE(cohorts.may_join(2, 3));
  cohorts.respect(mask({2, 3}), split);
  cohorts.respect(mask({0, 1}), split);  // tells no more apart
  cohorts.respect(mask({0, 1, 2, 3}), split);
  EXPECT_THAT(parted, ElementsAre(0));
  cohorts.respect(mask({1, 3}), split);
  EXPECT_THAT(parted, ElementsAre(0, 0, 2));
  EXPECT_FALSE(cohorts.may_join(2, 3));
  EXPECT_THROW(cohorts.join(2, 3), std::logic_error);
}

TEST(SmCohorts, RefuseAPartThatIsNoneOrAll) {
  Cohorts cohorts(4, true);
  EXPECT_THROW(cohorts.split(0, mask({})), std::logic_error);
  EXPECT_THROW(cohorts.split(0, mask({0, 1, 2, 3})), std::logic_error);
  EXPECT_THROW(cohorts.split(1, mask({1})), std::logic_error);
  cohorts.split(0, mask({3}));
  EXPECT_THROW(cohorts.split(0, mask({1, 3})), std::logic_error);
}

}  // namespace
}  // namespace corun::sim
