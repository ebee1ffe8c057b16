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

TEST(SmCohorts, MergingUndoesASplit) {
  Cohorts cohorts(4, true);
  cohorts.split(0, mask({3}));
  cohorts.merge(0, 3);
  EXPECT_THAT(cohorts.list(), ElementsAre(0));
  EXPECT_EQ(cohorts.members(0), mask({0, 1, 2, 3}));
}

TEST(SmCohorts, SmsThatAMaskTellsApartDoNotMerge) {
  Cohorts cohorts(4, true);
  std::vector<std::uint32_t> parted;
  const auto respect = [&](const SmMask& mask) {
    for (const Cohorts::Part& part : cohorts.respect(mask)) {
      parted.push_back(part.head);
      cohorts.split(part.head, part.members);
    }
  };
  respect(mask({2, 3}));
  EXPECT_THAT(parted, ElementsAre(0));
  EXPECT_FALSE(cohorts.may_merge(0, 2));
  EXPECT_TRUE(cohorts.may_merge(2, 3));
  respect(mask({2, 3}));
  respect(mask({0, 1}));  // tells no more apart
  respect(mask({0, 1, 2, 3}));
  EXPECT_THAT(parted, ElementsAre(0));
  respect(mask({1, 3}));
  EXPECT_THAT(parted, ElementsAre(0, 0, 2));
  EXPECT_FALSE(cohorts.may_merge(2, 3));
  EXPECT_THROW(cohorts.merge(2, 3), std::logic_error);
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
