// Which kernel dispatches the next block?  Task slots, the sorted table, eviction, TPC masks: Bakita and
// Anderson, RTAS 2023, section V, and its figures 11 and 12.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/engine_rig.h"
#include "tests/support/run_trace.h"
#include "traces/json/trace_json.h"

namespace corun::sim {
namespace {

using testing::Each;
using testing::ElementsAre;

TpcMask tpcs(std::uint32_t first, std::uint32_t end) { return TpcMask::range(first, end); }

// ---- task slots -------------------------------------------------------------------------------------------

struct SlotCase {
  const char* gpu;
  std::uint32_t slots, kernels;
};
void PrintTo(const SlotCase& c, std::ostream* out) { *out << c.kernels << " kernels on " << c.gpu; }

class TaskSlots : public testing::TestWithParam<SlotCase> {};

TEST_P(TaskSlots, LimitHowManyKernelsRunAtOnce) {
  const SlotCase& c = GetParam();
  const Gpu gpu = read_gpu(c.gpu);
  ASSERT_EQ(gpu.task_slots, c.slots);
  TraceBuilder b;
  const KernelId k = b.kernel(kernel(1, 32, ms(10)));  // longer than all launch calls together
  std::vector<Op> ops;
  for (std::uint32_t stream = 0; stream < c.kernels; ++stream) ops.push_back(launch(k, stream));
  b.client("client", b.program(ops));
  const Ran ran = run_trace(b.trace, gpu);
  ASSERT_EQ(ran.kernels.size(), c.kernels);
  EXPECT_EQ(most_at_once(ran.kernels), std::min(c.kernels, c.slots));
}

INSTANTIATE_TEST_SUITE_P(Devices, TaskSlots,
                         testing::Values(SlotCase{"gtx-1060-3gb", 32, 31}, SlotCase{"gtx-1060-3gb", 32, 32},
                                         SlotCase{"gtx-1060-3gb", 32, 33}, SlotCase{"h200", 128, 127},
                                         SlotCase{"h200", 128, 128}, SlotCase{"h200", 128, 129}));

TEST(TaskSlot, IsKeptUntilTheLastBlockEndsNotOnlyUntilItStarts) {
  Gpu gpu = small_gpu(4);
  gpu.task_slots = 1;
  EngineRig rig(gpu);
  const LaunchId first = rig.accept(kernel(1, 32, us(10)));
  const LaunchId second = rig.accept(kernel(1, 32, us(10)));
  rig.run();
  EXPECT_EQ(rig.record(second).slotted, rig.record(first).finished);
  EXPECT_EQ(rig.record(second).started, rig.record(first).finished);
}

// ---- order of the table -----------------------------------------------------------------------------------

TEST(Table, HeadDispatchesAllItsBlocksBeforeTheNextKernelStartsOne) {
  EngineRig rig(small_gpu(2));
  const LaunchId first =
      rig.accept(whole_sm_kernel(6, us(10)));  // leaves threads for the second all the time
  const LaunchId second = rig.accept(kernel(4, 32, us(1)));
  rig.run();
  EXPECT_EQ(rig.record(first).last_block, us(20) + ns(1));
  EXPECT_EQ(rig.record(second).started, rig.record(first).last_block + rig.gpu.dispatch_interval);
  EXPECT_LT(rig.record(second).started, rig.record(first).finished);
}

TEST(Table, IsSortedByPriorityThenArrival) {
  EngineRig rig(small_gpu(1));
  rig.accept(whole_sm_kernel(1, us(10)));
  const LaunchId low_1 = rig.accept(whole_sm_kernel(1, us(10)), {.at = us(1)});
  const LaunchId low_2 = rig.accept(whole_sm_kernel(1, us(10)), {.at = us(2)});
  const LaunchId high_1 = rig.accept(whole_sm_kernel(1, us(10)), {.at = us(3), .priority = -2});
  const LaunchId middle = rig.accept(whole_sm_kernel(1, us(10)), {.at = us(4), .priority = -1});
  const LaunchId high_2 = rig.accept(whole_sm_kernel(1, us(10)), {.at = us(5), .priority = -2});
  rig.run();
  std::vector<LaunchId> order;
  for (const KernelRecord& k : rig.collected.kernels) order.push_back(k.launch);
  EXPECT_THAT(order, ElementsAre(LaunchId{0, 0}, high_1, high_2, middle, low_1, low_2));
}

TEST(Table, AHigherPriorityOvertakesAHeadThatHasBlocksLeft) {
  EngineRig rig(small_gpu(1));
  const LaunchId low = rig.accept(whole_sm_kernel(4, us(10)));
  const LaunchId high = rig.accept(whole_sm_kernel(1, us(3)), {.at = us(15), .priority = -1});
  rig.run();
  EXPECT_EQ(rig.record(high).started, us(20));
  std::vector<Time> starts;
  for (const BlockRecord& block : rig.blocks(low)) starts.push_back(block.start);
  EXPECT_THAT(starts, ElementsAre(us(0), us(10), us(23), us(33)));
  EXPECT_EQ(rig.record(low).evictions, 0u);  // there was a slot for both
}

/// Low-priority blocks hold every place; the high-priority kernel comes at any time within them.  A place
/// that becomes free at the instant of its arrival has been given away.
class PriorityInversion : public testing::TestWithParam<std::int64_t> {};

TEST_P(PriorityInversion, EndsAsSoonAsOneBlockEndsAndNotBefore) {
  const Time arrival = ns(GetParam());
  EngineRig rig(small_gpu(3));
  const LaunchId low = rig.accept(uneven_kernel(1024, std::vector<Time>(60, us(7))));
  const LaunchId high = rig.accept(kernel(3, 1024, us(1)), {.at = arrival, .priority = -2});
  rig.run();
  Time first_end = kNever;
  for (const BlockRecord& block : rig.blocks(low))
    if (block.end > arrival && block.start <= arrival) first_end = std::min(first_end, block.end);
  const Time started = rig.record(high).started;
  EXPECT_EQ(started, first_end);
  EXPECT_LE(started - arrival, us(7));
}

INSTANTIATE_TEST_SUITE_P(Arrivals, PriorityInversion,
                         testing::Values(100, 3500, 6999, 7000, 7001, 7003, 9999, 34567));

// ---- eviction ---------------------------------------------------------------------------------------------

/// One SM, one slot: every task in the WDU is the only one there.
Gpu one_slot() {
  Gpu gpu = small_gpu(1);
  gpu.task_slots = 1;
  return gpu;
}

TEST(Eviction, AHigherPriorityTakesTheSlotOfALowerOneOnceItsRunningBlocksHaveEnded) {
  EngineRig rig(one_slot());
  const LaunchId low = rig.accept(whole_sm_kernel(3, us(10)));
  const LaunchId high = rig.accept(whole_sm_kernel(1, us(10)), {.at = us(5), .priority = -1});
  rig.run();
  EXPECT_EQ(rig.record(high).slotted, us(10));
  EXPECT_EQ(rig.record(high).started, us(10));
  EXPECT_EQ(rig.record(low).evictions, 1u);
  EXPECT_EQ(rig.record(low).slotted, us(0));  // the first time
  EXPECT_EQ(rig.blocks(low)[1].start, rig.record(high).finished);
}

TEST(Eviction, HasNothingToWaitForIfNoBlockOfTheTaskRuns) {
  Gpu gpu = small_gpu(1);
  gpu.task_slots = 2;
  EngineRig rig(gpu);
  rig.accept(whole_sm_kernel(1, us(10)), {.priority = -2});
  const LaunchId low = rig.accept(whole_sm_kernel(1, us(10)));
  const LaunchId high = rig.accept(whole_sm_kernel(1, us(10)), {.at = us(5), .priority = -1});
  rig.run();
  EXPECT_EQ(rig.record(high).slotted, us(5));
  EXPECT_EQ(rig.record(low).evictions, 1u);
  EXPECT_EQ(rig.record(low).started, rig.record(high).finished);
}

TEST(Eviction, UntilTheTaskHasDrainedTheTableTakesInNothingElse) {
  Gpu gpu = small_gpu(3);
  gpu.task_slots = 2;
  EngineRig rig(gpu);
  const LaunchId other = rig.accept(whole_sm_kernel(1, us(8)));
  const LaunchId victim =
      rig.accept(uneven_kernel(1024, {us(20), us(20), us(20), us(20), us(20), us(20), us(20)}));
  const LaunchId high = rig.accept(whole_sm_kernel(1, us(1)), {.at = us(5), .priority = -1});
  rig.run();
  EXPECT_EQ(rig.record(victim).evictions, 1u);
  EXPECT_GT(rig.record(high).slotted, us(20))
      << "though a slot is free from " << rig.record(other).finished.count() << " ps on";
}

TEST(Eviction, RunningBlocksOfTheEvictedTaskGoOn) {
  EngineRig rig(one_slot());
  const LaunchId low = rig.accept(whole_sm_kernel(3, us(10)));
  rig.accept(whole_sm_kernel(1, us(10)), {.at = us(5), .priority = -1});
  rig.run();
  std::vector<std::pair<Time, Time>> spans;
  for (const BlockRecord& block : rig.blocks(low)) spans.emplace_back(block.start, block.end);
  EXPECT_THAT(spans,
              ElementsAre(std::pair(us(0), us(10)), std::pair(us(20), us(30)), std::pair(us(30), us(40))));
}

TEST(Eviction, PutsTheTaskBackAtTheHeadOfItsListNotTheTail) {
  EngineRig rig(one_slot());
  const LaunchId evicted = rig.accept(whole_sm_kernel(3, us(10)));
  const LaunchId waiting = rig.accept(whole_sm_kernel(1, us(10)), {.at = us(1)});
  const LaunchId high = rig.accept(whole_sm_kernel(1, us(10)), {.at = us(5), .priority = -1});
  rig.run();
  EXPECT_EQ(rig.blocks(evicted)[1].start, rig.record(high).finished);
  EXPECT_EQ(rig.record(waiting).slotted, rig.record(evicted).finished);
}

TEST(Eviction, KeepsTheOrderOfSeveralEvictedTasks) {
  Gpu gpu = small_gpu(1);
  gpu.task_slots = 3;
  EngineRig rig(gpu);
  std::vector<LaunchId> low;
  for (int i = 0; i < 3; ++i) low.push_back(rig.accept(whole_sm_kernel(2, us(10))));
  for (int i = 0; i < 3; ++i) rig.accept(whole_sm_kernel(1, us(10)), {.at = us(1), .priority = -1});
  rig.run();
  for (LaunchId launch : low) EXPECT_EQ(rig.record(launch).evictions, 1u);
  EXPECT_LT(rig.record(low[0]).last_block, rig.record(low[1]).started);
  EXPECT_LT(rig.record(low[1]).last_block, rig.record(low[2]).started);
}

TEST(Eviction, TakesTheLowestPriorityThatCameLast) {
  Gpu gpu = small_gpu(1);
  gpu.task_slots = 3;
  EngineRig rig(gpu);
  const LaunchId middle = rig.accept(whole_sm_kernel(2, us(10)), {.priority = -1});
  const LaunchId low_1 = rig.accept(whole_sm_kernel(2, us(10)));
  const LaunchId low_2 = rig.accept(whole_sm_kernel(2, us(10)));
  rig.accept(whole_sm_kernel(1, us(10)), {.at = us(1), .priority = -2});
  rig.run();
  EXPECT_EQ(rig.record(middle).evictions, 0u);
  EXPECT_EQ(rig.record(low_1).evictions, 0u);
  EXPECT_EQ(rig.record(low_2).evictions, 1u);
}

TEST(Eviction, DoesNotHappenAmongEquals) {
  EngineRig rig(one_slot());
  const LaunchId first = rig.accept(whole_sm_kernel(3, us(10)), {.priority = -1});
  const LaunchId second = rig.accept(whole_sm_kernel(1, us(10)), {.at = us(5), .priority = -1});
  const LaunchId third = rig.accept(whole_sm_kernel(1, us(10)), {.at = us(6)});
  rig.run();
  for (LaunchId launch : {first, second, third}) EXPECT_EQ(rig.record(launch).evictions, 0u);
  EXPECT_EQ(rig.record(second).slotted, rig.record(first).finished);
  EXPECT_EQ(rig.record(third).slotted, rig.record(second).finished);
}

TEST(Eviction, DoesNotHappenWhileASlotIsFree) {
  Gpu gpu = one_slot();
  gpu.task_slots = 2;
  EngineRig rig(gpu);
  const LaunchId low = rig.accept(whole_sm_kernel(3, us(10)));
  rig.accept(whole_sm_kernel(1, us(10)), {.at = us(5), .priority = -1});
  rig.run();
  EXPECT_EQ(rig.record(low).evictions, 0u);
}

TEST(Eviction, ATaskWhoseBlocksAreAllDispatchedKeepsItsSlotUntilTheyEnd) {
  EngineRig rig(one_slot());
  const LaunchId low = rig.accept(whole_sm_kernel(1, us(10)));
  const LaunchId high = rig.accept(kernel(1, 32, us(10)), {.at = us(5), .priority = -1});
  rig.run();
  EXPECT_EQ(rig.record(low).evictions, 0u);
  EXPECT_EQ(rig.record(high).slotted, us(10));
}

// ---- TPC masks
// -----------------------------------------------------------------------------------------------------

TEST(Masks, AHeadThatMayNotUseAFreeTpcIsPassedOver) {
  EngineRig rig(small_gpu(3));
  const LaunchId head = rig.accept(whole_sm_kernel(3, us(10)), {.mask = tpcs(0, 1)});
  const LaunchId next = rig.accept(whole_sm_kernel(4, us(10)));
  rig.run();
  EXPECT_THAT(rig.sms(head), Each(0u));
  EXPECT_EQ(rig.record(next).started, rig.gpu.dispatch_interval);
  EXPECT_THAT(rig.sms(next), ElementsAre(1, 2, 1, 2));
}

TEST(Masks, AHeadThatMayUseATpcButDoesNotFitThereIsNotPassedOver) {
  EngineRig rig(small_gpu(2));
  rig.accept(whole_sm_kernel(1, us(10)), {.mask = tpcs(0, 1)});
  rig.accept(whole_sm_kernel(1, us(20)), {.mask = tpcs(1, 2)});
  const LaunchId head = rig.accept(whole_sm_kernel(2, us(10)), {.at = us(1), .mask = tpcs(0, 1)});
  const LaunchId allowed_beside = rig.accept(kernel(1, 32, us(1)), {.at = us(2), .mask = tpcs(1, 2)});
  const LaunchId behind_head = rig.accept(kernel(1, 32, us(1)), {.at = us(3), .mask = tpcs(0, 1)});
  rig.run();
  EXPECT_EQ(rig.record(allowed_beside).started, us(2));
  EXPECT_EQ(rig.record(behind_head).started, rig.record(head).last_block + rig.gpu.dispatch_interval);
}

TEST(Masks, OverlappingPartitionsEndInAnOrderThatDependsOnWhoCameFirst) {  // figure 11
  const auto ends = [](bool k1_first) {
    EngineRig rig(small_gpu(3));
    const Kernel k = whole_sm_kernel(2, us(10));
    LaunchId k1{}, k2{};
    for (const bool one : {k1_first, !k1_first}) {
      if (one)
        k1 = rig.accept(k, {.mask = tpcs(0, 2)});
      else
        k2 = rig.accept(k, {.mask = tpcs(1, 3)});
    }
    rig.run();
    return std::pair(rig.record(k1).finished, rig.record(k2).finished);
  };
  const Time one_wave = us(10) + ns(1);  // both blocks of the first to come; TPC 1 is then taken again
  EXPECT_EQ(ends(true), std::pair(one_wave, one_wave + us(10)));
  const auto [k1, k2] = ends(false);
  EXPECT_EQ(k2, one_wave);
  EXPECT_GE(k1, us(20));
}

TEST(Masks, ThirtyTwoHighPriorityKernelsBlockTheThirtyThirdInItsOwnPartition) {  // figure 12
  EngineRig rig(read_gpu("gtx-1060-3gb"));
  const LaunchId k33 = rig.accept(kernel(40, 2048 / 2, us(100)), {.mask = tpcs(8, 9)});  // 2 at once
  std::vector<LaunchId> high;
  for (int i = 0; i < 32; ++i)
    high.push_back(rig.accept(kernel(1, 512, i == 7 ? us(730) : ms(1)),
                              {.at = us(250), .priority = -1, .mask = tpcs(0, 8)}));
  rig.run();
  const Time first_end = rig.record(high[7]).finished;
  EXPECT_EQ(rig.record(k33).evictions, 1u);
  EXPECT_EQ(most_at_once(rig.collected.kernels), 33u);  // its blocks under way go on without a slot
  std::size_t before = 0;
  Time next_start = kNever;
  for (const BlockRecord& block : rig.blocks(k33)) {
    EXPECT_EQ(block.sm, SmId{8});
    EXPECT_EQ(block.end - block.start, us(100));
    if (block.start < us(250))
      ++before;
    else
      next_start = std::min(next_start, block.start);
  }
  EXPECT_EQ(before, 6u);  // three waves of two, the last one under way
  EXPECT_EQ(next_start, first_end) << "TPC 8 is idle from 300 us on, but K33 has no slot";
}

TEST(Masks, ThirtyOneHighPriorityKernelsLeaveASlotForTheThirtySecond) {
  EngineRig rig(read_gpu("gtx-1060-3gb"));
  const LaunchId k32 = rig.accept(kernel(40, 1024, us(100)), {.mask = tpcs(8, 9)});
  for (int i = 0; i < 31; ++i)
    rig.accept(kernel(1, 512, ms(1)), {.at = us(250), .priority = -1, .mask = tpcs(0, 8)});
  rig.run();
  EXPECT_EQ(rig.record(k32).evictions, 0u);
  EXPECT_EQ(rig.record(k32).finished, ms(2) + rig.gpu.dispatch_interval);
}

TEST(Masks, AStreamKeepsItsOrderEvenWhenMasksAreDisjoint) {
  TraceBuilder b;
  const KernelId k = b.kernel(kernel(4, 256, us(50)));
  Op first = launch(k), second = launch(k);
  std::get<corun::Launch>(first.what).tpc_mask = tpcs(0, 1);
  std::get<corun::Launch>(second.what).tpc_mask = tpcs(1, 2);
  b.client("client", b.program({first, second}));
  const Gpu gpu = slow_host_gpu(2);
  const Ran ran = run_trace(b.trace, gpu, "tpc-mask", Record::blocks);
  const auto kernels = ran.of(ClientId{0});
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_EQ(kernels[1].started, kernels[0].finished + gpu.stream_gap);
  EXPECT_THAT(sms_of(ran.blocks_of(kernels[0].launch)), Each(0u));
  EXPECT_THAT(sms_of(ran.blocks_of(kernels[1].launch)), Each(1u));
}

}  // namespace
}  // namespace corun::sim
