// Which further instances a launch with CTAs per SM needs, and when.
#include "sim/stages/quota_controller.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "tests/support/build.h"
#include "tests/support/stages.h"

namespace corun::sim {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// Two SMs, each with room for two workers; an instance takes 5 us.
class Quotas {
 public:
  WorkId launch(std::vector<std::uint16_t> quota) {
    Work work;
    work.record.launch = {next_, next_};
    ++next_;
    work.last = 100;
    work.ctas = 1;
    work.spread.quota = std::move(quota);
    work.spread.held.assign(2, 0);
    work.spread.running.assign(2, 0);
    work.spread.demand = kHalf;
    work.spread.workers = 4;
    return launches.add(std::move(work));
  }
  bool seek(WorkId id, Time now, bool immediately = false) {
    bool place_left = false;
    const Spread& s = launches[id].spread;
    for (std::uint32_t rank = 0; rank < s.held.size(); ++rank)
      place_left |= s.wanted(rank) && sms.free_places(rank, s.demand, s.carveout) > 0;
    return quotas.seek(id, launches[id], place_left, now, immediately);
  }
  void fill(std::uint32_t rank) { sms.take(rank, kHalf, 0, 1, true), sms.take(rank, kHalf, 0, 1, true); }
  void make_room(std::uint32_t rank, Time now) {
    sms.give_back(rank, kHalf, 0, 1, true);
    for (const WorkId id : std::vector(quotas.wanting()))
      if (launches[id].spread.wanted(rank)) seek(id, now);
  }

  const Gpu gpu = small_gpu(2);
  SmArray sms{gpu, false, false};
  LaunchTable launches;
  QuotaController quotas{us(5)};

 private:
  std::uint32_t next_ = 0;
};

TEST(QuotaController, ALaunchThatHasAllItsWorkersNeedsNoMore) {
  Quotas q;
  const WorkId id = q.launch({1, 0});
  q.launches[id].spread.held = {1, 0};
  EXPECT_FALSE(q.seek(id, us(1)));
  EXPECT_EQ(q.quotas.next_time(), kNever);
  EXPECT_FALSE(q.quotas.any_wants());
}

TEST(QuotaController, ALaunchAllOfWhoseBlocksHaveStartedNeedsNoMore) {
  Quotas q;
  const WorkId id = q.launch({1, 0});
  q.launches[id].next = 100;
  EXPECT_FALSE(q.seek(id, us(1)));
  EXPECT_EQ(q.quotas.next_time(), kNever);
}

TEST(QuotaController, AFurtherInstanceComesALaunchLatencyLater) {
  Quotas q;
  const WorkId id = q.launch({1, 1});
  q.launches[id].spread.held = {1, 0};
  EXPECT_FALSE(q.seek(id, us(1)));
  EXPECT_TRUE(q.launches[id].spread.trying);
  EXPECT_EQ(q.quotas.next_time(), us(6));
  EXPECT_EQ(q.quotas.take_due(us(6) - ps(1)), std::nullopt);
  EXPECT_EQ(q.quotas.take_due(us(6)), id);
  EXPECT_EQ(q.quotas.take_due(us(6)), std::nullopt);
  EXPECT_EQ(q.quotas.next_time(), kNever);
}

TEST(QuotaController, InstancesComeInTheOrderOfTheirTimes) {
  Quotas q;
  const WorkId a = q.launch({1, 0}), b = q.launch({0, 1});
  q.seek(b, us(1));
  q.seek(a, us(2));
  EXPECT_EQ(q.quotas.take_due(us(9)), b);
  EXPECT_EQ(q.quotas.take_due(us(9)), a);
}

TEST(QuotaController, OneThatMayComeAtOnceDoesOnlyIfThereIsRoom) {
  Quotas q;
  const WorkId id = q.launch({1, 0});
  EXPECT_TRUE(q.seek(id, us(1), true));
  EXPECT_EQ(q.quotas.next_time(), kNever);
  q.fill(0);
  EXPECT_FALSE(q.seek(id, us(1), true));
  EXPECT_TRUE(q.quotas.any_wants());
}

TEST(QuotaController, WithoutRoomItWaitsForRoomOnAnSmWhereWorkersAreWanted) {
  Quotas q;
  const WorkId id = q.launch({1, 0});
  q.fill(0), q.fill(1);
  EXPECT_FALSE(q.seek(id, us(1)));
  EXPECT_TRUE(q.quotas.any_wants());
  EXPECT_EQ(q.quotas.next_time(), kNever);
  q.make_room(1, us(2));
  EXPECT_TRUE(q.quotas.any_wants()) << "none is wanted there";
  q.make_room(0, us(3));
  EXPECT_FALSE(q.quotas.any_wants());
  EXPECT_EQ(q.quotas.next_time(), us(8));
}

TEST(QuotaController, AllThatWantRoomLookWhereSomeIs) {
  Quotas q;
  const WorkId a = q.launch({1, 0}), b = q.launch({0, 1}), c = q.launch({1, 0});
  q.fill(0), q.fill(1);
  for (const WorkId id : {a, b, c}) q.seek(id, us(1));
  q.make_room(0, us(2));
  EXPECT_EQ(q.quotas.take_due(us(7)), a);
  EXPECT_EQ(q.quotas.take_due(us(7)), c);
  EXPECT_EQ(q.quotas.take_due(us(7)), std::nullopt);
  EXPECT_TRUE(q.quotas.any_wants());
}

TEST(QuotaController, AnInstanceThatHasBegunWantsNothing) {
  Quotas q;
  const WorkId id = q.launch({1, 0});
  q.fill(0);
  q.seek(id, us(1));
  q.quotas.began(id, q.launches[id].spread, us(2));
  EXPECT_FALSE(q.quotas.any_wants());
  EXPECT_EQ(q.launches[id].spread.came, us(2));
  EXPECT_TRUE(q.launches[id].spread.trying);
  EXPECT_EQ(q.launches[id].spread.newest, Spread::Newest::waiting);
}

TEST(QuotaController, WhereNothingTakesTimeAnInstanceInVainIsNotRepeatedAtOnce) {
  Quotas q;
  q.quotas = QuotaController(Time{});
  const WorkId id = q.launch({1, 0});
  Spread& spread = q.launches[id].spread;
  q.quotas.began(id, spread, us(1));
  q.seek(id, us(1));  // none of its workers stayed
  EXPECT_TRUE(q.quotas.any_in_vain());
  EXPECT_EQ(q.quotas.next_time(), kNever);
  EXPECT_THAT(q.quotas.take_in_vain(), ElementsAre(id));
  EXPECT_THAT(q.quotas.take_in_vain(), IsEmpty());
  q.seek(id, us(1) + ps(1));
  EXPECT_EQ(q.quotas.take_due(us(1) + ps(1)), id);
  q.quotas.began(id, spread, us(2));
  spread.newest = Spread::Newest::stayed;
  q.seek(id, us(2));
  EXPECT_FALSE(q.quotas.any_in_vain());
  EXPECT_EQ(q.quotas.next_time(), us(2));
}

TEST(QuotaController, AForgottenLaunchGetsNothing) {
  Quotas q;
  const WorkId a = q.launch({1, 0}), b = q.launch({0, 1});
  q.seek(a, us(1));
  q.fill(1);
  q.seek(b, us(1));
  q.quotas.forget(a);
  q.quotas.forget(b);
  EXPECT_EQ(q.quotas.next_time(), kNever);
  EXPECT_FALSE(q.quotas.any_wants());
}

TEST(QuotaController, RefusesLaunchesWithoutNumbersPerSm) {
  Quotas q;
  Work plain;
  plain.last = 4;
  EXPECT_THROW(q.quotas.seek({0}, plain, true, us(1)), std::logic_error);
  EXPECT_THROW(q.quotas.began({0}, plain.spread, us(1)), std::logic_error);
  EXPECT_THROW(QuotaController(ps(-1)), std::logic_error);
}

}  // namespace
}  // namespace corun::sim
