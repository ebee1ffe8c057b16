// What must hold of every policy, whatever the workload: the registered ones are all here without being
// named.
//
// Workloads are drawn by rapidcheck, which shrinks one that fails; RC_PARAMS chooses seed and number.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <tuple>

#include "policies/api/registry.h"
#include "policies/session/session.h"
#include "sim/backend/sim_backend.h"
#include "sim/forecast/forecast.h"
#include "sim/run/profile.h"
#include "tests/support/build.h"
#include "tests/support/collect.h"
#include "tests/support/watched_backend.h"
#include "traces/model/occupancy.h"

namespace corun::sim {
namespace {

/// The same workloads on every machine, few enough for a slow one.
const int kSeeded = setenv("RC_PARAMS", "seed=20181 max_success=80", 0);

std::uint32_t draw(std::uint32_t least, std::uint32_t most) {
  return *rc::gen::inRange<std::uint32_t>(least, most + 1);
}
bool one_in(std::uint32_t n) { return draw(0, n - 1) == n - 1; }

struct Workload {
  Gpu gpu;
  TraceBuilder b;

  const Client& client(ClientId id) const { return b.trace.clients[id.value]; }
};

Gpu draw_gpu() {
  const std::uint32_t sms_per_tpc = draw(1, 2), tpcs = draw(1, 4);
  Gpu gpu = one_in(2) ? slow_host_gpu(sms_per_tpc * tpcs) : small_gpu(sms_per_tpc * tpcs);
  gpu.sms_per_tpc = sms_per_tpc;
  gpu.task_slots = draw(2, 8);
  gpu.host_channels = draw(1, 4);
  gpu.time_slice = us(draw(20, 100));
  gpu.context_switch = gpu.idle_switch = gpu.idle_switch_to_interrupted = us(1);
  gpu.read_ahead_launches = 3;
  if (one_in(2)) gpu.sm.shared_memory_carveouts = {0, 16384, 65536};
  return gpu;
}

KernelId draw_kernel(TraceBuilder& b, const Gpu& gpu) {
  Kernel k = kernel(one_in(2) ? draw(1, 8) : draw(1, 120), 32 * draw(1, 32), us(draw(1, 6)));
  k.registers_per_thread = draw(16, 64);
  k.static_shared_memory_bytes = one_in(2) ? 0 : 1024 * draw(1, 32);
  k.idempotent = true;  // so that a policy may run blocks again
  while (!misfit(k, gpu.sm).empty()) k.registers_per_thread -= 8;
  const std::uint64_t at_once =
      std::uint64_t{gpu.sms} * max_active_blocks(capacity_of(gpu.sm), demand_of(k, gpu.sm));
  k.solo_time = k.block_times.front() * static_cast<std::int64_t>((k.blocks() + at_once - 1) / at_once);
  return b.kernel(k);
}

/// Up to four clients, each with a program of its own of up to four launches on up to two streams.
Workload draw_workload(const Arrivals& arrivals) {
  Workload w;
  w.gpu = draw_gpu();
  for (std::uint32_t clients = draw(1, 4), i = 0; i < clients; ++i) {
    std::vector<Op> ops;
    for (std::uint32_t n = draw(1, 4), o = 0; o < n; ++o) {
      Op op = launch(draw_kernel(w.b, w.gpu), draw(0, 1));
      if (o > 0 && one_in(3)) op = after(op, {draw(0, o - 1)});
      if (one_in(4)) op.graph = draw(1, 2);
      ops.push_back(op);
    }
    Arrivals when = arrivals;
    if (std::holds_alternative<Once>(arrivals)) when = Once{us(draw(0, 40))};
    Client& c = w.b.client("client" + std::to_string(i), w.b.program(ops), when);
    c.service_class = one_in(2) ? ServiceClass::real_time : ServiceClass::best_effort;
    c.priority = -static_cast<std::int32_t>(draw(0, w.gpu.priority_levels - 1));
    c.issue = one_in(3) ? Issue::graph : Issue::eager;
  }
  return w;
}

struct Ran : Collector {
  Ran() : Collector(true) {}
  SessionOutcome outcome;
  Requirements needs;
  std::map<std::uint32_t, WatchedBackend::Granted> granted;
  std::set<std::uint32_t> reset;
  std::uint64_t refused = 0;
};

/// `over`: asked now and then; where it says so, the run ends.
Ran run(
    const Workload& w, const std::string& spec, const std::function<bool()>& refuse = {},
    const std::function<bool(const Ran&)>& over = [](const Ran&) { return false; }) {
  Ran ran;
  Timeline timeline;
  timeline.attach(ran);
  const std::unique_ptr<Policy> policy = make_policy(spec);
  ran.needs = policy->requirements();
  SimBackend simulated(w.b.trace, w.gpu, ran.needs, timeline, {true, true});
  simulated.offer(make_forecast(w.b.trace, w.gpu, ran.needs));
  WatchedBackend backend(simulated);
  if (refuse) backend.refuse = refuse;
  Session session(w.b.trace, *policy, backend, timeline,
                  [&](KernelId k) { return profile_kernel(w.b.trace.kernels[k.value], w.gpu); });
  ran.outcome = session.run({}, [&] { return over(ran); });
  simulated.close();
  timeline.flush();
  ran.granted = backend.granted;
  ran.reset = backend.reset;
  ran.refused = backend.refused;
  return ran;
}

/// What follows returns what is wrong, or nothing.
using Problem = std::string;

/// Every block of every launch ran, and only a reset made one run twice.
Problem blocks_problem(const Workload& w, const Ran& ran) {
  std::map<std::uint32_t, std::vector<std::uint32_t>> blocks;  // by serial
  std::map<std::uint32_t, KernelId> kernel_of;
  for (const BlockRecord& r : ran.blocks) {
    blocks[r.launch.serial].push_back(r.block);
    kernel_of.emplace(r.launch.serial, r.kernel);
  }
  for (auto& [serial, ids] : blocks) {
    std::ranges::sort(ids);
    const auto twice = std::ranges::unique(ids);
    if (!twice.empty() && !ran.reset.contains(serial))
      return fmt::format("a block of launch {} ran twice", serial);
    ids.erase(twice.begin(), twice.end());
    const std::uint64_t all = w.b.trace.kernels[kernel_of[serial].value].blocks();
    if (ids.size() != all || ids.back() + 1 != all)
      return fmt::format("{} of {} blocks of launch {} ran", ids.size(), all, serial);
  }
  return {};
}

/// Every client's every launch ran, and every request ended.
Problem ends_problem(const Workload& w, const Ran& ran) {
  if (!ran.outcome.stuck.empty()) return "stuck: " + ran.outcome.stuck;
  if (ran.requests.size() < w.b.trace.clients.size()) return "a request has no record";
  std::set<std::uint32_t> launches;
  for (const BlockRecord& r : ran.blocks) launches.insert(r.launch.serial);
  std::size_t expected = 0;
  for (const Client& c : w.b.trace.clients) expected += w.b.trace.programs[c.program.value].ops.size();
  if (launches.size() != expected) return fmt::format("{} of {} launches ran", launches.size(), expected);
  for (const RequestRecord& r : ran.requests)
    if (r.finished == kNever) return fmt::format("the request of client {} did not end", r.client.value);
  return {};
}

/// A block's stay on an SM: +1 where it begins, -1 where it ends; ends first.
struct Step {
  Time at;
  int change;
  const BlockRecord* block;
  bool operator<(const Step& o) const { return std::tie(at, change) < std::tie(o.at, o.change); }
};

std::vector<Step> steps_of(const std::vector<const BlockRecord*>& blocks) {
  std::vector<Step> steps;
  for (const BlockRecord* b : blocks) {
    steps.push_back({b->start, 1, b});
    steps.push_back({b->end, -1, b});
  }
  std::stable_sort(steps.begin(), steps.end());
  return steps;
}

/// What is resident at once fits the SM, block by block from the records.  Contexts of their own take turns:
/// while one stands still its blocks stay.
Problem residency_problem(const Workload& w, const Ran& ran) {
  std::map<std::pair<std::string, std::uint32_t>, std::vector<const BlockRecord*>> of_sm;
  for (const BlockRecord& b : ran.blocks) {
    const bool apart = ran.needs.contexts == corun::Contexts::per_process;
    of_sm[{apart ? w.client(b.client).process : "", b.sm.value}].push_back(&b);
  }
  const SmResources most = capacity_of(w.gpu.sm);
  for (const auto& [where, blocks] : of_sm) {
    SmResources used;
    for (const Step& s : steps_of(blocks)) {
      const SmResources demand = demand_of(w.b.trace.kernels[s.block->kernel.value], w.gpu.sm);
      if (s.change > 0)
        used += demand;
      else
        used -= demand;
      if (used.blocks > most.blocks || used.warps > most.warps || used.threads > most.threads ||
          used.registers > most.registers || used.shared_memory > most.shared_memory)
        return fmt::format("SM {} is oversubscribed at {} ps", where.second, s.at.count());
    }
  }
  return {};
}

/// Blocks run only on TPCs that the policy named, and a persistent kernel never has more CTAs at once than it
/// was granted at most, in all and on each SM that has a number of its own.
Problem grants_problem(const Workload& w, const Ran& ran) {
  std::map<std::uint32_t, std::vector<const BlockRecord*>> of_launch;
  for (const BlockRecord& b : ran.blocks) of_launch[b.launch.serial].push_back(&b);
  for (const auto& [serial, blocks] : of_launch) {
    const auto found = ran.granted.find(serial);
    if (found == ran.granted.end()) return fmt::format("launch {} ran undecided", serial);
    const WatchedBackend::Granted& g = found->second;
    if (g.padded) continue;
    for (const BlockRecord* b : blocks)
      if (std::ranges::none_of(
              g.masks, [&](const TpcMask& m) { return m.allows(TpcId{b->sm.value / w.gpu.sms_per_tpc}); }))
        return fmt::format("launch {} ran on SM {}, outside its mask", serial, b->sm.value);
    if (g.plain) continue;
    std::map<std::uint32_t, std::int64_t> on_sm;
    std::int64_t all = 0;
    for (const Step& s : steps_of(blocks)) {
      const std::uint32_t sm = s.block->sm.value;
      all += s.change;
      on_sm[sm] += s.change;
      if (all > std::int64_t{g.ctas}) return fmt::format("launch {} had more than {} CTAs", serial, g.ctas);
      if (sm < g.ctas_per_sm.size() && on_sm[sm] > std::int64_t{g.ctas_per_sm[sm]})
        return fmt::format("launch {} had more than {} CTAs on SM {}", serial, g.ctas_per_sm[sm], sm);
    }
  }
  return {};
}

std::vector<std::string> every_policy() {
  std::vector<std::string> specs;
  for (const PolicyInfo& p : policies()) specs.push_back(p.name);
  specs.push_back("tpc-mask:split=even");
  specs.push_back("lookahead:ways=hold/now/preempt/in-turn/part,objective=deadlines,every_us=5");
  specs.push_back("token-bucket:percentages=50,bucket_ms=0.01,interval_ms=0.01");
  specs.push_back("wait:beside=on,backfill=on");
  return specs;
}

Promises promises_of(const std::string& spec) {
  for (const PolicyInfo& p : policies())
    if (p.name == spec.substr(0, spec.find(':'))) return p.promises;
  return {};
}

class PolicyProperties : public testing::TestWithParam<std::string> {};
/// Of policies that promise it.
class NoStarvation : public PolicyProperties {};
class Immediate : public PolicyProperties {};
class Reservations : public PolicyProperties {};

TEST_P(PolicyProperties, EveryBlockRunsOnceWithinWhatTheGpuHasAndThePolicyGranted) {
  EXPECT_TRUE(rc::check([&] {
    const Workload w = draw_workload(Once{});
    const Ran ran = run(w, GetParam());
    RC_ASSERT(ends_problem(w, ran) == Problem());
    RC_ASSERT(blocks_problem(w, ran) == Problem());
    RC_ASSERT(residency_problem(w, ran) == Problem());
    RC_ASSERT(grants_problem(w, ran) == Problem());
  }));
}

TEST_P(PolicyProperties, ARefusedDecisionIsSurvived) {
  EXPECT_TRUE(rc::check([&] {
    Workload w = draw_workload(Once{});
    // Its arrivals are the occasions at which the policy is asked again.
    const KernelId tick = w.b.kernel(kernel(1, 32, us(1)));
    w.b.client("ticks", w.b.program({launch(tick)}), Periodic{us(20), us(1)}).stale = Stale::queue;
    w.b.trace.run.duration = ms(40);
    // A pattern over and over, at most so often: each decision can be hit by chance.
    const auto pattern = *rc::gen::nonEmpty(rc::gen::arbitrary<std::vector<bool>>());
    std::uint32_t left = draw(1, 60);
    std::size_t asked = 0;
    const auto refuse = [&] {
      if (left == 0 || !pattern[asked++ % pattern.size()]) return false;
      --left;
      return true;
    };
    const auto ticks = static_cast<std::uint32_t>(w.b.trace.clients.size()) - 1;
    const Ran ran =
        run(w, GetParam(), refuse, [&](const Ran& so_far) {  // nothing is left to be refused or awaited
          return left == 0 && static_cast<std::uint32_t>(std::ranges::count_if(
                                  so_far.requests,
                                  [&](const RequestRecord& r) { return r.client.value != ticks; })) == ticks;
        });
    RC_ASSERT(ran.outcome.stuck == std::string());
    RC_ASSERT(ran.outcome.refusals >= ran.refused);
    for (const RequestRecord& r : ran.requests)
      if (w.client(r.client).name != "ticks") RC_ASSERT(r.finished != kNever);
    RC_ASSERT(residency_problem(w, ran) == Problem());
    RC_ASSERT(grants_problem(w, ran) == Problem());
  }));
}

/// All others send requests without a pause; does the last client's one request end within the time that all
/// of them together would take, once for each of its launches, with room for what sharing costs?
bool last_client_gets_on(Workload& w, const std::string& spec) {
  Time work{};
  for (const Client& c : w.b.trace.clients)
    for (const Op& op : w.b.trace.programs[c.program.value].ops)
      work += *w.b.trace.kernels[std::get<corun::Launch>(op.what).kernel.value].solo_time + us(20);
  for (Client& c : w.b.trace.clients) c.service_class = ServiceClass::real_time;
  Client& victim = w.b.trace.clients.back();
  victim.service_class = ServiceClass::best_effort;
  victim.priority = 0;
  victim.arrivals = Once{us(50)};
  const auto launches = w.b.trace.programs[victim.program.value].ops.size();
  w.b.trace.run.duration = us(550) + 6 * static_cast<std::int64_t>(launches + 1) * work;
  const Ran ran = run(w, spec);
  const auto last = static_cast<std::uint32_t>(w.b.trace.clients.size()) - 1;
  return ran.outcome.stuck.empty() && std::ranges::all_of(ran.requests, [&](const RequestRecord& r) {
           return r.client.value != last || r.finished != kNever;
         });
}

TEST_P(NoStarvation, NobodyStarvesWhereThePolicyPromisesSo) {
  EXPECT_TRUE(rc::check([&] {
    Workload w = draw_workload(ClosedLoop{});
    RC_ASSERT(last_client_gets_on(w, GetParam()));
  }));
}

TEST_P(Immediate, LaunchesGoAtOnceAndAlikeWhereThePolicyPromisesSo) {
  EXPECT_TRUE(rc::check([&] {
    const Workload w = draw_workload(ClosedLoop{});
    const Ran ran = run(w, GetParam());
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::set<std::int32_t>> priorities;
    for (const KernelRecord& r : ran.kernels) {
      RC_ASSERT(r.submitted == r.ready);
      priorities[{r.client.value, r.stream.value}].insert(r.priority);
    }
    for (const auto& [stream, seen] : priorities) RC_ASSERT(seen.size() == 1u);
  }));
}

TEST(PolicyPropertyChecks, WhatBreaksARunIsNoticed) {
  Workload w;
  w.gpu = small_gpu(2);
  w.b.client("a", w.b.program({launch(w.b.kernel(whole_sm_kernel(6, us(5))))}));
  Ran ran = run(w, "static-split:ctas=50");
  const auto problems = [&] {
    return std::vector<bool>{!ends_problem(w, ran).empty(), !blocks_problem(w, ran).empty(),
                             !residency_problem(w, ran).empty(), !grants_problem(w, ran).empty()};
  };
  EXPECT_THAT(problems(), testing::Each(false));
  const Ran good = ran;
  ran.blocks.push_back(ran.blocks.front());  // twice, and twice on its SM at once
  EXPECT_THAT(problems(), testing::ElementsAre(false, true, true, true));
  ran.reset.insert(ran.blocks.front().launch.serial);
  EXPECT_THAT(problems(), testing::ElementsAre(false, false, true, true));
  ran = good;
  ran.blocks.pop_back();
  EXPECT_THAT(problems(), testing::ElementsAre(false, true, false, false));
  ran = good;
  ran.granted.begin()->second.masks = {TpcMask::range(1, 2)};
  EXPECT_THAT(problems(), testing::ElementsAre(false, false, false, true));
  ran = good;
  ran.requests.front().finished = kNever;
  EXPECT_THAT(problems(), testing::ElementsAre(true, false, false, false));
}

TEST(PolicyPropertyChecks, StarvationIsNoticed) {
  Workload w;
  w.gpu = small_gpu(1);
  const KernelId k = w.b.kernel(whole_sm_kernel(4, us(5)));
  // Two streams of two clients: there is always a launch of high priority ready.
  for (const char* name : {"a", "b", "c"})
    w.b.client(name, w.b.program({launch(k, 0), launch(k, 1)}), ClosedLoop{}).priority = -1;
  EXPECT_TRUE(last_client_gets_on(w, "fcfs"));
  EXPECT_FALSE(last_client_gets_on(w, "priority"));
}

/// One client, with a reservation, sends one launch beside others that keep the GPU busy: has it, one block
/// time after it claims its share, as many blocks on the GPU as were promised, or all that it has?  The claim
/// costs what telling the GPU costs: a call, a launch, a stop flag, a read of progress.
bool reservation_kept(Workload& w, double share, const std::string& spec) {
  Client& online = w.b.trace.clients.back();
  online.service_class = ServiceClass::real_time;
  online.reservation = share;
  online.quota = 1.0;
  online.arrivals = Once{us(150)};
  w.b.trace.run.duration = ms(2);
  const KernelId id =
      std::get<corun::Launch>(w.b.trace.programs[online.program.value].ops.front().what).kernel;
  const Kernel& k = w.b.trace.kernels[id.value];
  Time block{};
  for (const Kernel& each : w.b.trace.kernels) block = std::max(block, each.block_times.front());
  const std::uint64_t places =
      std::uint64_t{w.gpu.sms} * max_active_blocks(capacity_of(w.gpu.sm), demand_of(k, w.gpu.sm));
  const auto promised =
      std::min<std::uint64_t>(static_cast<std::uint64_t>(share * static_cast<double>(places)), k.blocks());
  const Ran ran = run(w, spec);
  const ClientId last{static_cast<std::uint32_t>(w.b.trace.clients.size()) - 1};
  const auto records = ran.of(last);
  if (records.empty()) return false;
  // Blocks that share an SM slow each other: a block takes up to as long as all that may be resident would.
  const Time by = records.front().ready + w.gpu.launch_call + w.gpu.launch_latency + w.gpu.stop_flag +
                  w.gpu.progress_read + w.gpu.persistent_task * 2 + 2 * block +
                  w.gpu.dispatch_interval * static_cast<std::int64_t>(places);
  const auto started = static_cast<std::uint64_t>(std::ranges::count_if(
      ran.blocks, [&](const BlockRecord& b) { return b.client == last && b.start <= by; }));
  return started >= promised;
}

TEST_P(Reservations, AReservationIsThereOneBlockTimeAfterItIsClaimed) {
  EXPECT_TRUE(rc::check([&] {
    Workload w = draw_workload(ClosedLoop{});
    w.gpu.task_slots =
        128;  // a policy cannot keep one free: a persistent kernel's further instances take some
    w.b.client("online", w.b.program({launch(draw_kernel(w.b, w.gpu))}));
    RC_ASSERT(reservation_kept(w, draw(10, 60) / 100.0, GetParam()));
  }));
}

TEST(PolicyPropertyChecks, ABrokenReservationIsNoticed) {
  Workload w;
  w.gpu = small_gpu(2);
  const KernelId k = w.b.kernel(whole_sm_kernel(400, us(5)));
  w.b.client("offline", w.b.program({launch(k)}), ClosedLoop{});
  w.b.client("online", w.b.program({launch(w.b.kernel(whole_sm_kernel(10, us(5))))}));
  EXPECT_FALSE(reservation_kept(w, 0.5, "fcfs"));
  EXPECT_TRUE(reservation_kept(w, 0.5, "static-split"));
}

std::vector<std::string> those_that_promise(bool Promises::*what) {
  std::vector<std::string> all = every_policy();
  std::erase_if(all, [&](const std::string& policy) { return !(promises_of(policy).*what); });
  return all;
}

std::string letters(const testing::TestParamInfo<std::string>& test) {
  std::string name = test.param;
  std::erase_if(name, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); });
  return name;
}

INSTANTIATE_TEST_SUITE_P(Registered, PolicyProperties, testing::ValuesIn(every_policy()), letters);
INSTANTIATE_TEST_SUITE_P(Registered, NoStarvation, testing::ValuesIn(those_that_promise(&Promises::no_starvation)), letters);
INSTANTIATE_TEST_SUITE_P(Registered, Immediate, testing::ValuesIn(those_that_promise(&Promises::immediate)), letters);
INSTANTIATE_TEST_SUITE_P(Registered, Reservations, testing::ValuesIn(those_that_promise(&Promises::reservations)), letters);

}  // namespace
}  // namespace corun::sim
