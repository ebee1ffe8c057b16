// Do launches that differ in a single field go with shortcuts as without, to the picosecond?  What is taken for
// the same by less than all that decides shows here.  Random launches are drawn by rapidcheck, which shrinks what
// fails; RC_PARAMS chooses seed and number.
#include "tests/support/launch_fields.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cstdlib>
#include <deque>
#include <numeric>
#include <set>

#include "sim/stages/compute_engine.h"
#include "tests/support/build.h"
#include "tests/support/collect.h"
#include "tests/support/stages.h"
#include "traces/model/occupancy.h"

namespace corun::sim {
namespace {

const int kFieldsSeeded = setenv("RC_PARAMS", "seed=20261128 max_success=3000", 0);

/// An engine, and all that it tells.
class Told {
 public:
  Told(const Gpu& gpu, EngineOptions options) : engine(gpu, attached(), options) {}
  Told(const Told&) = delete;

  void run_to(Time t) {
    std::vector<EngineNotice> notices;
    while (engine.now() < t && (t != kNever || engine.next_time() != kNever)) {
      notices.clear();
      engine.advance(t, notices);
      for (const EngineNotice& n : notices) {
        seen.push_back(fmt::format("notice {} of launch {} at {}", int(n.kind), n.launch.serial, engine.now().count()));
        if (n.kind == EngineNotice::Kind::taken_off) seen.push_back(fmt::format("done {}", engine.collect(n.launch).done));
      }
    }
  }
  /// Until nothing is there, and a launch finds the dispatcher at rest.
  void rest() {
    run_to(kNever);
    run_to(engine.rests());
  }
  LaunchId accept(const Launched& l) {
    const LaunchId id{launches_, launches_};
    ++launches_;
    Work work = l.work;
    work.record.launch = id;
    work.record.queued = engine.now();
    engine.accept(std::move(work), l.level, l.allowed, l.demand);
    return id;
  }
  std::vector<std::string> finish() {
    run_to(kNever);
    engine.close();
    timeline_.flush();
    for (std::string& line : lines(collected_.kernels)) seen.push_back(std::move(line));
    seen.push_back(fmt::format("sm {} warp {} blocks {} energy {}", engine.sm_ps(), engine.warp_ps(), engine.blocks_run(),
                               engine.energy()));
    return seen;
  }

 private:
  Timeline& attached() {
    timeline_.attach(collected_);
    return timeline_;
  }
  Collector collected_;
  Timeline timeline_;
  std::uint32_t launches_ = 0;

 public:
  ComputeEngine engine;
  std::vector<std::string> seen;
};

SmMask first_sms(std::uint32_t n) {
  SmMask mask;
  for (std::uint32_t rank = 0; rank < n; ++rank) mask.set(rank);
  return mask;
}

// ---- one field ----------------------------------------------------------------------------------------------

/// Six waves on four SMs, the last one thin, and a part of everything.
Launched of_all_things(const Gpu& gpu) {
  Launched l;
  l.allowed = first_sms(gpu.sms);
  l.demand = {1, 20, 640, 20'000, 20'000};
  Work& work = l.work;
  work.record.blocks = 70;
  work.per_task = ns(100);
  BlockLoad& load = work.load;
  load.extent = {3, gpu.sms, 70, 3 * gpu.sms};
  load.sm.issue_ps = 1e6, load.sm.fixed_ps = 5e5, load.sm.arrival_randomness = 0.6, load.sm.energy_pj = 3;
  load.sm.uses = {1, 0.6, 0.5, 0.4, 0.3, 0.2}, load.sm.accounted = {0.9, 0.9, 0.9, 0.9, 0.9, 0.9};
  load.memory.wait_ps = 1e6, load.memory.read_bytes = 6e5, load.memory.reread_bytes = 3e5, load.memory.write_bytes = 2e5;
  load.memory.l2_read_bytes = 1e6, load.memory.l2_ps = 1e5, load.memory.dram_cost_ratio = 1.2;
  load.memory.uncached_share = 0.8;
  settle_alone(load, limits_of(gpu));
  work.block_alone = Time{static_cast<std::int64_t>(load.alone_ps)};
  return l;
}
Launched of_workers(const Gpu& gpu) {
  Launched l = of_all_things(gpu);
  l.work.ctas = 5;
  return l;
}
Launched served_oldest_first(const Gpu& gpu) {
  Launched l = of_all_things(gpu);
  l.work.load.sm.oldest_served = 2;
  l.work.load.sm.wgmma_sms = 4, l.work.load.sm.wgmma_share = 0.5;
  settle_alone(l.work.load, limits_of(gpu));
  return l;
}
Launched without_memory(const Gpu& gpu) {
  Launched l = of_all_things(gpu);
  l.work.load.memory = {};
  l.work.load.sm.arrival_randomness = 0.9;
  settle_alone(l.work.load, limits_of(gpu));
  return l;
}
Launched of_fixed_blocks(const Gpu& gpu) {
  Launched l = of_all_things(gpu);
  l.work.load = {};
  return l;
}

struct Usual {
  const char* name;
  Launched (*make)(const Gpu&);
  std::vector<std::string> decides{};  // beside what decides how any launch goes
};
void PrintTo(const Usual& usual, std::ostream* out) { *out << usual.name; }
class EachField : public testing::TestWithParam<Usual> {};

TEST_P(EachField, OfALaunchThatComesAgainChangesWhatItChangesWithoutShortcuts) {
  const Gpu gpu = small_gpu(4);
  const Launched usual = GetParam().make(gpu);
  std::deque<std::vector<Time>> block_times;
  std::set<std::string> decides;
  for (std::size_t number = 0;; ++number) {
    Launched other = usual;
    const std::string name = change_field(other, number, AnotherValue{usual, block_times});
    if (name.empty()) break;
    if (name == "quota") other.work.ctas = 4;
    const auto course = [&](EngineOptions options) {
      Told told(gpu, options);
      for (const bool changed : {false, false, true, false, true}) {
        told.accept(changed ? other : usual);
        told.rest();
      }
      return told.finish();
    };
    EXPECT_EQ(course(kShortcuts), course(kPlain)) << name;
    const auto length = [&](const Launched& l) {
      Told told(gpu, kPlain);
      told.accept(l);
      told.rest();
      return std::tuple(told.engine.now(), told.engine.sm_ps(), told.engine.warp_ps());
    };
    if (length(usual) != length(other)) decides.insert(name);
  }
  EXPECT_THAT(decides, testing::IsSupersetOf({"allowed", "block_alone", "block_times", "blocks", "ctas", "first", "last", "per_task",
                                              "quota", "warps"}));
  EXPECT_THAT(decides, testing::IsSupersetOf(GetParam().decides));
}

INSTANTIATE_TEST_SUITE_P(Launches, EachField,
                         testing::Values(Usual{"OfAllThings", of_all_things, {"uncached_share", "staged", "registers", "shared_memory", "threads"}},
                                         Usual{"OfWorkers", of_workers, {"uncached_share", "l2_ps"}},
                                         Usual{"ServedOldestFirst", served_oldest_first, {"residents", "oldest_served"}},
                                         Usual{"WithoutMemory", without_memory, {"delay_alone_ps", "arrival_randomness"}},
                                         Usual{"OfFixedBlocks", of_fixed_blocks}),
                         [](const auto& test) { return std::string(test.param.name); });

// ---- several at random ------------------------------------------------------------------------------------

std::uint32_t draw(std::uint32_t least, std::uint32_t most) { return *rc::gen::inRange<std::uint32_t>(least, most + 1); }
bool one_in(std::uint32_t n) { return draw(0, n - 1) == n - 1; }
double draw_share() { return draw(0, 20) / 20.0; }

BlockLoad draw_load(const Gpu& gpu, const SmMask& allowed, const SmResources& demand, std::uint64_t blocks) {
  BlockLoad load;
  if (one_in(5)) return load;
  const std::uint32_t residents = max_active_blocks(capacity_of(gpu.sm), demand);
  load.extent = {residents, allowed.count(), static_cast<double>(blocks), std::uint64_t{residents} * allowed.count()};
  load.sm.issue_ps = draw(1, 2'000) * 1e3, load.sm.fixed_ps = draw(0, 2'000) * 1e3;
  load.sm.arrival_randomness = draw_share(), load.sm.energy_pj = draw(0, 5);
  load.sm.processor_sharing = one_in(3), load.sm.tensor = one_in(3);
  if (one_in(4)) load.sm.wgmma_sms = draw(1, gpu.sms), load.sm.wgmma_share = draw_share();
  if (one_in(4)) load.sm.oldest_served = draw(1, residents);
  if (one_in(2))
    for (std::size_t pipe = 1; pipe < kPipes; ++pipe) load.sm.uses[pipe] = draw_share(), load.sm.accounted[pipe] = draw_share();
  if (one_in(4)) return settle_alone(load, limits_of(gpu)), load;
  load.memory.wait_ps = draw(0, 2'000) * 1e3;
  load.memory.read_bytes = draw(0, 1'000) * 1e3, load.memory.write_bytes = draw(0, 300) * 1e3;
  load.memory.reread_bytes = one_in(2) ? 0 : draw(0, 1'000) * 1e3;
  load.memory.l2_read_bytes = load.memory.read_bytes + load.memory.reread_bytes + draw(0, 500) * 1e3;
  load.memory.l2_ps = load.memory.l2_read_bytes / 9.6;
  load.memory.dram_cost_ratio = one_in(2) ? 1 : 1 + draw_share();
  load.memory.uncached_share = one_in(3) ? 1 : draw_share();
  load.memory.staged = one_in(4), load.memory.random = one_in(4);
  settle_alone(load, limits_of(gpu));
  return load;
}

SmMask draw_mask(const Gpu& gpu) {
  if (one_in(2)) return first_sms(gpu.sms);
  SmMask mask;
  mask.set(draw(0, gpu.sms - 1));
  for (std::uint32_t rank = 0; rank < gpu.sms; ++rank)
    if (one_in(2)) mask.set(rank);
  return mask;
}

Launched draw_launched(const Gpu& gpu) {
  Launched l;
  l.allowed = draw_mask(gpu);
  l.level = draw(0, gpu.priority_levels - 1);
  const std::uint32_t warps = draw(1, 32);
  l.demand = {1, warps, 32 * warps, 256 * draw(0, 128), 1'024 * draw(0, 32)};
  Work& work = l.work;
  work.record.client = ClientId{draw(0, 2)}, work.record.kernel = KernelId{draw(0, 1)};
  work.record.blocks = one_in(3) ? draw(1, 6) : draw(1, 150);
  work.load = draw_load(gpu, l.allowed, l.demand, work.record.blocks);
  work.block_alone = work.load.contends() ? Time{static_cast<std::int64_t>(work.load.alone_ps)} : ps(draw(1, 6'000'000));
  if (one_in(2)) work.per_task = ns(draw(0, 2'000)) - ns(one_in(3) ? 1'000 : 0);
  if (one_in(3)) work.ctas = draw(1, 40);
  work.tells_last = !one_in(3);
  return l;
}

/// Within what the engine takes of a launch.
struct AnyValue {
  const Gpu& gpu;
  const Launched& launched;
  std::deque<std::vector<Time>>& block_times;
  void operator()(const std::string& name, double& x) const {
    if (name == "alone_ps" && x == 0) return;  // of what does not contend nothing else is known
    if (name == "oldest_served" || name == "wgmma_sms") x = draw(0, 3);
    else x = (x == 0 ? 0.5 : x) * (20 - draw(1, 10)) / 20;
  }
  void operator()(const std::string&, bool& x) const { x = !x; }
  void operator()(const std::string& name, Time& x) const {
    x = name == "block_alone" ? std::max(ps(1), x + ns(draw(0, 2'000)) - ns(1'000)) : ns(draw(0, 3'000)) - ns(1'000);
  }
  void operator()(const std::string& name, std::uint32_t& x) const {
    if (name == "level") x = draw(0, gpu.priority_levels - 1);
    else if (name == "client") x = draw(0, 2);
    else if (name == "ctas") x = one_in(3) ? 0 : draw(1, 40);
    else if (name == "warps") x = draw(1, 32);
    else if (name == "threads") x = 32 * draw(1, 32);
    else if (name == "registers") x = 256 * draw(0, 128);
    else if (name == "shared_memory") x = 1'024 * draw(0, 32);
    else x = draw(1, 8);
  }
  void operator()(const std::string& name, std::uint64_t& x) const {
    const auto blocks = static_cast<std::uint32_t>(launched.work.record.blocks);
    if (name == "first") x = draw(0, blocks - 1);
    else if (name == "last") x = draw(static_cast<std::uint32_t>(launched.work.first) + 1, blocks);
    else x = draw(1, 150);
  }
  void operator()(const std::string&, SmMask& x) const { x = draw_mask(gpu); }
  void operator()(const std::string&, const std::vector<Time>*& x) const {
    std::vector<Time>& times = block_times.emplace_back(launched.work.record.blocks);
    for (Time& time : times) time = one_in(2) ? us(2) : ps(draw(1, 4'000'000));
    x = &times;
  }
  void operator()(const std::string&, std::vector<std::uint16_t>& quota) const {
    const std::uint32_t most = max_active_blocks(capacity_of(gpu.sm), launched.demand);
    quota.assign(gpu.sms, 0);
    launched.allowed.for_each([&](std::uint32_t rank) { quota[rank] = static_cast<std::uint16_t>(draw(0, most)); });
    quota[launched.allowed.first()] = static_cast<std::uint16_t>(draw(1, most));
  }
};

/// What follows from others of its fields does.
void make_whole(Launched& l) {
  Work& work = l.work;
  if (work.first != 0 || (work.last != 0 && work.last != work.record.blocks)) {
    work.first = std::min(work.first, work.record.blocks - 1);
    work.last = work.last <= work.first ? work.record.blocks : std::min(work.last, work.record.blocks);
    work.resumed = work.first != 0;
  }
  if (work.block_times != nullptr && work.block_times->size() < work.record.blocks) work.block_times = nullptr;
  if (!work.has_quotas()) return;
  for (std::uint32_t rank = 0; rank < work.spread.quota.size(); ++rank)
    if (!l.allowed.test(rank)) work.spread.quota[rank] = 0;
  work.spread.quota[l.allowed.first()] = 1;
  work.ctas = std::accumulate(work.spread.quota.begin(), work.spread.quota.end(), 0u);
}

/// What is done with both engines, at the same times.
struct Step {
  enum class Kind : std::uint8_t { launch, resize, stop, kill, look, turn, clock } kind = Kind::launch;
  bool rested = false;  // before it
  Time after{};
  Launched launched{};
  std::uint32_t number = 0;
};

std::vector<std::string> course(const Gpu& gpu, const std::vector<Step>& steps, EngineOptions options) {
  Told told(gpu, options);
  std::vector<std::pair<LaunchId, const Launched*>> launches;
  for (const Step& step : steps) {
    if (step.rested) told.rest();
    told.run_to(told.engine.now() + step.after);
    if (step.kind == Step::Kind::launch) {
      launches.emplace_back(told.accept(step.launched), &step.launched);
      continue;
    }
    if (launches.empty()) continue;
    const auto& [launch, of] = launches.back();
    switch (step.kind) {
      case Step::Kind::resize:
        if (of->work.persistent() && !of->work.has_quotas()) told.engine.resize(launch, step.number);
        break;
      case Step::Kind::stop:
        if (told.engine.stop(launch, step.number % 2 == 0)) told.seen.push_back(fmt::format("done {}", told.engine.collect(launch).done));
        break;
      case Step::Kind::kill:
        if (told.engine.kill(launch)) told.seen.push_back(fmt::format("done {}", told.engine.collect(launch).done));
        break;
      case Step::Kind::look:
        told.seen.push_back(fmt::format("blocks {} {} busy {} late {}", told.engine.blocks_done(launch), told.engine.resident_blocks(launch),
                                        told.engine.busy_sms(), told.engine.launch_delay(step.number % 2 == 0, step.number % 3 == 0).count()));
        break;
      case Step::Kind::turn:
        told.engine.pause();
        told.engine.shift(ns(step.number));
        break;
      default:
        told.engine.set_clock(1 + step.number * 0.01);
    }
  }
  return told.finish();
}

TEST(RandomFields, OfLaunchesThatComeAgainChangeWhatTheyChangeWithoutShortcuts) {
  EXPECT_TRUE(rc::check([] {
    Gpu gpu = small_gpu(draw(1, 4));
    if (one_in(2)) gpu.compute_capability_major = 9;
    if (one_in(2)) gpu.sm.shared_memory_carveouts = {0, 16384, 65536};
    std::deque<std::vector<Time>> block_times;
    std::vector<Step> steps;
    std::vector<Launched> known;
    std::string changes;
    for (std::uint32_t n = draw(4, 14); n > 0; --n) {
      Step step;
      step.rested = !one_in(4);
      step.after = one_in(3) ? ns(draw(0, 20'000)) : Time{};
      if (!known.empty() && one_in(5)) {
        step.kind = static_cast<Step::Kind>(draw(1, 6));
        step.number = draw(1, 30);
        steps.push_back(std::move(step));
        continue;
      }
      if (known.empty() || one_in(6)) {
        known.push_back(draw_launched(gpu));
        changes += " new";
      } else if (!one_in(3)) {
        Launched other = known[draw(0, static_cast<std::uint32_t>(known.size()) - 1)];
        const Launched usual = other;
        std::size_t fields = 0;
        each_field(other, [&](const char*, auto&) { ++fields; });
        const std::size_t field = draw(0, static_cast<std::uint32_t>(fields) - 1);
        changes += " " + change_field(other, field, AnyValue{gpu, usual, block_times});
        make_whole(other);
        if (other.work.load.contends() && one_in(2)) settle_alone(other.work.load, limits_of(gpu));
        known.push_back(std::move(other));
      } else {
        changes += " again";
      }
      step.launched = one_in(2) ? known.back() : known[draw(0, static_cast<std::uint32_t>(known.size()) - 1)];
      steps.push_back(std::move(step));
    }
    RC_LOG() << gpu.sms << " SMs:" << changes << "\n";
    RC_ASSERT(course(gpu, steps, kShortcuts) == course(gpu, steps, kPlain));
  }));
}

}  // namespace
}  // namespace corun::sim
