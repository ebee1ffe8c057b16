// Whatever a profiler, or a hand, wrote into a kernel's counters: a run ends, and all its times are finite
// and positive.  Drawn by rapidcheck, which shrinks what fails; RC_PARAMS chooses seed and number.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>
#include <cstdlib>
#include <sstream>

#include "policies/api/registry.h"
#include "sim/model/kernel_model.h"
#include "sim/model/mended_counters.h"
#include "sim/run/profile.h"
#include "sim/run/run.h"
#include "sim/stages/cohorts.h"
#include "sim/stages/contention_model.h"
#include "tests/support/build.h"
#include "tests/support/run_trace.h"
#include "traces/json/trace_json.h"
#include "traces/model/occupancy.h"

namespace corun::sim {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const int kSeeded = setenv("RC_PARAMS", "seed=20261122 max_success=100", 0);

std::uint32_t draw(std::uint32_t least, std::uint32_t most) {
  return *rc::gen::inRange<std::uint32_t>(least, most + 1);
}
bool one_in(std::uint32_t n) { return draw(0, n - 1) == n - 1; }

/// Even over the powers of ten.
double draw_power(int least, int most) {
  return std::pow(10, *rc::gen::inRange(least * 100, most * 100 + 1) / 100.0);
}

/// What the schema allows: missing, nothing, a little, huge, and what is likely.
std::optional<double> draw_count(double likely) {
  switch (draw(0, 5)) {
    case 0:
      return std::nullopt;
    case 1:
      return 0;
    case 2:
      return 1e18;
    case 3:
      return draw_power(-9, 18);
    default:
      return likely * draw_power(-1, 1);
  }
}

std::optional<double> draw_percentage() {
  switch (draw(0, 4)) {
    case 0:
      return std::nullopt;
    case 1:
      return one_in(2) ? 0 : 100;
    case 2:
      return draw_power(-9, 2);
    default:
      return draw(1, 100);
  }
}

Time draw_time() { return std::max(ps(1), from_ns(draw_power(-3, one_in(4) ? 5 : 3))); }

Kernel draw_kernel(const Gpu& gpu) {
  Kernel k;
  k.name = "k";
  k.grid = {one_in(2) ? draw(1, 8) : draw(1, 400), 1, 1};
  k.block = {one_in(2) ? 32 * draw(1, 32) : draw(1, 1024), 1, 1};
  k.registers_per_thread = draw(1, 64);
  if (one_in(2)) k.dynamic_shared_memory_bytes = draw(0, 40'000);
  k.idempotent = true;
  while (!misfit(k, gpu.sm).empty()) k.registers_per_thread /= 2;
  if (one_in(8)) {
    k.block_times = {draw_time()};
  } else {
    k.solo_time = draw_time();
  }
  const double ns = k.solo_time ? to_ns(*k.solo_time) : 1e3, blocks = static_cast<double>(k.blocks());
  if (one_in(3))
    for (std::uint32_t n = draw(1, 3); n > 0; --n)
      k.solo_time_by_sms[draw(1, gpu.sms)] = one_in(2) ? draw_time() : from_ns(ns * draw_power(0, 1)) + ps(1);
  if (one_in(3))
    for (std::uint32_t n = draw(1, 3); n > 0; --n)
      k.persistent_time_by_ctas[draw(1, 4)] =
          one_in(2) ? draw_time() : from_ns(ns * draw_power(0, 1)) + ps(1);
  if (one_in(6)) k.stoppable = {draw_time(), one_in(2)};
  Counters& c = k.counters;
  c.dram_read_bytes = draw_count(1e3 * ns);
  c.dram_write_bytes = draw_count(5e2 * ns);
  c.l2_bytes = draw_count(2e3 * ns);
  c.l1_bytes = draw_count(4e3 * ns);
  c.warp_instructions = draw_count(1e3 * blocks);
  c.tensor_instructions = draw_count(1e2 * blocks);
  c.issue_active_pct = draw_percentage();
  c.warps_active_pct = draw_percentage();
  c.fp64_active_pct = draw_percentage();
  c.duration_ns = draw_count(ns);
  for (const char* pipe : {"alu", "fma", "fmaheavy", "xu", "l1_data"})
    if (const auto busy = draw_percentage()) c.pipes_pct[pipe] = *busy;
  return k;
}

Gpu draw_gpu() {
  const std::uint32_t sms = draw(1, 6);
  Gpu gpu = one_in(2) ? slow_host_gpu(sms) : small_gpu(sms);
  if (one_in(2)) gpu.sm.shared_memory_carveouts = {0, 16384, 65536};
  if (one_in(2)) gpu.compute_capability_major = 9;
  return gpu;
}

/// For what fails.
std::string text_of(const Trace& trace) {
  std::ostringstream out;
  write_trace(trace, out);
  return out.str();
}

void expect_sound(const Kernel& k, const Gpu& gpu) {
  const KernelModel model(k, k.solo_time.value_or(Time{}), gpu);
  for (const std::uint32_t sms : {1u, (gpu.sms + 1) / 2, gpu.sms}) {
    const BlockLoad load = model.load(sms);
    for (const double value : {load.sm.issue_ps, load.sm.fixed_ps, load.sm.arrival_randomness, load.memory.wait_ps, load.memory.read_bytes,
                               load.memory.reread_bytes, load.memory.write_bytes, load.memory.l2_read_bytes, load.memory.l2_ps, load.memory.dram_cost_ratio, load.memory.uncached_share,
                               load.delay_alone_ps, load.alone_ps, load.sm.oldest_served}) {
      RC_ASSERT(std::isfinite(value));
      RC_ASSERT(value >= 0);
    }
    for (const double share : load.sm.uses) RC_ASSERT(share >= 0 && share <= 1);
    RC_ASSERT(model.solo_time(sms) > Time{});
    RC_ASSERT(model.block_alone(sms) > Time{});
    RC_ASSERT(model.block_alone(sms) < std::chrono::hours{24});
  }
  RC_ASSERT(std::chrono::abs(model.persistent_task()) < std::chrono::hours{24});
}

TEST(AbsurdCounters, GiveAModelWhoseTimesAreFiniteAndPositive) {
  EXPECT_TRUE(rc::check([] {
    const Gpu gpu = draw_gpu();
    for (int i = 0; i < 4; ++i) expect_sound(draw_kernel(gpu), gpu);
  }));
}

TEST(AbsurdCounters, GiveRunsThatEndUnderEveryKindOfPolicy) {
  EXPECT_TRUE(rc::check([] {
    const Gpu gpu = draw_gpu();
    TraceBuilder b;
    for (const char* name : {"a", "b"}) {
      std::vector<Op> ops;
      for (std::uint32_t n = draw(1, 2); n > 0; --n) ops.push_back(launch(b.kernel(draw_kernel(gpu))));
      Client& c = b.client(name, b.program(ops), Once{us(draw(0, 3))});
      if (one_in(2)) c.service_class = ServiceClass::real_time;
      if (one_in(3)) c.quota = 0.5;
    }
    const std::string policy = (*rc::gen::elementOf(policies())).name;
    RC_LOG() << policy << " on " << gpu.sms << " SMs: " << text_of(b.trace);
    const Ran ran = run_trace(b.trace, gpu, policy);
    const Ran unaudited = run_trace(b.trace, gpu, policy, Record::kernels, {true, false});
    RC_ASSERT(lines(ran.kernels) == lines(unaudited.kernels));
    RC_ASSERT(ran.requests.size() == 2u);
    for (const RequestRecord& r : ran.requests) RC_ASSERT(r.finished > r.arrival);
    for (const KernelRecord& k : ran.kernels) {
      RC_ASSERT(k.started >= k.submitted);
      RC_ASSERT(k.finished > k.started);
      RC_ASSERT(k.finished < std::chrono::hours{1});
    }
  }));
}

/// As a kernel that fills DRAM has them: on few SMs its blocks take a fraction of what they take on all, and so did workers
/// that waited on SMs where they were not wanted. They left before those that were wanted had come, for ever.
Kernel bound_by_dram(double gib_per_s) {
  constexpr double us = 100;
  Kernel k;
  k.name = "elementwise_kernel";
  k.grid = {1056, 1, 1};
  k.block = {256, 1, 1};
  k.solo_time = from_ns(1e3 * us);
  k.counters.dram_read_bytes = k.counters.dram_write_bytes = us * gib_per_s * 1.074e3 / 2;
  k.counters.l2_bytes = us * gib_per_s * 1.074e3;
  k.counters.warp_instructions = us * 2535;
  return k;
}

TEST(AbsurdCounters, ProfileByNumbersOfSmsEndsWhereFewAreFasterThanAll) {
  const Gpu gpu = read_gpu("h200");
  for (const double gib_per_s : {500, 2100, 9000})
    for (const ProfilePoint& p : profile_by_sm(bound_by_dram(gib_per_s), gpu)) EXPECT_GT(p.time, Time{}) << gib_per_s << " GiB/s";
}

/// A kernel that stages its reads, with solo times on two SM counts and as a persistent one.
Kernel measured_kernel() {
  Kernel k;
  k.name = "k";
  k.grid = {30, 1, 1};
  k.block = {256, 1, 1};
  k.registers_per_thread = 40;
  k.dynamic_shared_memory_bytes = 16384;
  k.idempotent = true;
  k.solo_time = us(30);
  k.solo_time_by_sms = {{2, us(60)}, {4, us(30)}};
  k.persistent_time_by_ctas = {{1, us(60)}, {2, us(30)}};
  k.counters.dram_read_bytes = 1e6;
  k.counters.dram_write_bytes = 1e3;
  k.counters.warp_instructions = 1e5;
  return k;
}

// What no solo time could be fitted to had no blocks, so that a worker's cost was -9e18 ps, and a launch of
// smguard's ended before it began.
TEST(AbsurdCounters, KernelWithoutL2TrafficIsFittedToItsSoloTimes) {
  const Gpu gpu = slow_host_gpu(4);
  Kernel k = measured_kernel();
  k.counters.l2_bytes = 0;
  k.counters.dram_read_bytes = k.counters.dram_write_bytes = 0;
  const KernelModel model(k, us(30), gpu);
  EXPECT_TRUE(model.load(4).contends());
  EXPECT_GE(model.persistent_task(), Time{});
  EXPECT_LT(model.persistent_task(), us(30));
  TraceBuilder b;
  b.one_kernel("a", k);
  b.one_kernel("b", k).service_class = ServiceClass::real_time;
  EXPECT_EQ(run_trace(b.trace, gpu, "smguard").kernels.size(), 2u);
}

// A worker that finds no block stays no time.  In a row that has not moved on by a whole picosecond it would
// end when the row was there, before it came.
TEST(AbsurdCounters, WorkerThatFindsNoBlockEndsWhenItComes) {
  const Gpu gpu = small_gpu(1);
  const Cohorts cohorts(gpu.sms, false);
  ContentionModel sms(gpu, false);
  BlockLoad load;
  load.delay_alone_ps = 10, load.alone_ps = 3;  // at three tenths of its rate alone, whatever is beside it
  load.extent.residents = 2, load.extent.sms = 1, load.extent.places = 2, load.extent.blocks = 100;
  sms.introduce(WorkId{0}, load);
  sms.contend(true, ps(0), cohorts);
  sms.add(TaskId{0}, WorkId{0}, {1000, 0, 0, 0, 0, 1}, cohorts, ps(0));
  sms.settle(ps(0), cohorts);
  for (const Time now : {ps(11), ps(12), ps(14)}) {
    sms.add(TaskId{0}, WorkId{0}, {0, now.count(), kNoBlock, 0, 1, 1}, cohorts, now);
    sms.settle(now, cohorts);
    EXPECT_EQ(sms.next_time(), now);
    sms.take_ended(now, cohorts);
    sms.settle(now, cohorts);
  }
  EXPECT_EQ(sms.ended().size(), 3u);
  EXPECT_EQ(sms.next_time(), ps(3334));
}

TEST(MendedCounters, LeaveWhatDiffersByATenthAndSayWhatDiffersByMore) {
  const Gpu gpu = small_gpu(4);
  const auto mended = [&](auto change) {
    Kernel k = measured_kernel();
    k.counters.l2_bytes = 2e6;
    change(k.counters);
    return mend_counters(k, us(30), gpu);
  };
  EXPECT_THAT(mended([](Counters&) {}).said, IsEmpty());

  const MendedCounters near = mended([](Counters& c) { c.l2_bytes = 0.91e6; });
  EXPECT_THAT(near.said, IsEmpty());
  EXPECT_EQ(near.counters.l2_bytes, 0.91e6);
  const MendedCounters far = mended([](Counters& c) { c.l2_bytes = 0.89e6; });
  EXPECT_THAT(far.said, ElementsAre(HasSubstr("l2_bytes is 8.9e+05, below what passes L2")));
  EXPECT_EQ(far.counters.l2_bytes, std::nullopt);

  const MendedCounters tensor = mended([](Counters& c) { c.tensor_instructions = 1.09e5; });
  EXPECT_THAT(tensor.said, IsEmpty());
  EXPECT_EQ(tensor.counters.tensor_instructions, 1e5);
  EXPECT_THAT(mended([](Counters& c) { c.tensor_instructions = 1.2e5; }).said,
              ElementsAre(HasSubstr("above warp_instructions")));

  EXPECT_EQ(mended([](Counters& c) { c.issue_active_pct = 104; }).counters.issue_active_pct, 100);
  EXPECT_THAT(mended([](Counters& c) { c.fp64_active_pct = 130; }).said, ElementsAre(HasSubstr("above all")));
  EXPECT_THAT(mended([](Counters& c) { c.dram_read_bytes = NAN; }).said,
              ElementsAre(HasSubstr("dram_read_bytes is no count")));
}

TEST(MendedCounters, OfWhatTheGpuCannotDoInTheTimeAreCutToFourTimesItsPeak) {
  const Gpu gpu = small_gpu(4);  // 16 warp instructions a nanosecond, 4,640 bytes read
  Kernel k = measured_kernel();
  k.counters.warp_instructions = 1e18;
  k.counters.dram_read_bytes = 1e18;
  const MendedCounters mended = mend_counters(k, us(30), gpu);
  EXPECT_EQ(mended.said.size(), 2u);
  EXPECT_EQ(mended.counters.warp_instructions, 4 * 16 * 30e3);
  EXPECT_EQ(mended.counters.dram_read_bytes, 4 * 4640 * 30e3);
  // Each warp executes at least one instruction.
  k.counters.warp_instructions = 30 * 8 * 0.89;
  EXPECT_EQ(mend_counters(k, us(30), gpu).counters.warp_instructions, std::nullopt);
}

TEST(MendedCounters, AreSaidWithTheResult) {
  Kernel k = measured_kernel();
  k.counters.l2_bytes = 0;
  TraceBuilder b;
  b.one_kernel("a", k);
  b.one_kernel("b", k);
  b.trace.kernels[1].counters.l2_bytes = 2e6;
  b.trace.kernels[1].name = "sound";
  const RunResult result = run(b.trace, slow_host_gpu(4), {{"smguard"}, {true, true}});
  EXPECT_THAT(texts_of(result),
              Contains(HasSubstr("the counters of kernel 'k0' contradict themselves: l2_bytes is 0")));
  for (const std::string& note : texts_of(result)) EXPECT_EQ(note.find("sound"), std::string::npos);
}

}  // namespace
}  // namespace corun::sim
