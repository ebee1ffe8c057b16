// An engine is copied in the middle of a run: copy and original go on with the same records.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <numeric>

#include "sim/model/kernel_model.h"
#include "sim/stages/compute_engine.h"
#include "tests/support/collect.h"
#include "tests/support/random_trace.h"
#include "tests/support/stages.h"

namespace corun::sim {
namespace {

/// What an engine told, and what was asked of it.
using Seen = std::vector<std::string>;

void run_to(ComputeEngine& engine, Time t, Seen& seen) {
  std::vector<EngineNotice> notices;
  while (engine.now() < t && (t != kNever || engine.next_time() != kNever)) {
    notices.clear();
    engine.advance(t, notices);
    for (const EngineNotice& n : notices) {
      seen.push_back(
          fmt::format("notice {} launch {} at {}", int(n.kind), n.launch.serial, engine.now().count()));
      if (n.kind == EngineNotice::Kind::taken_off)
        seen.push_back(fmt::format("done {}", engine.collect(n.launch).done));
    }
  }
}

struct Action {
  Time at;
  std::function<void(ComputeEngine&, Seen&)> act;
};

/// Launches of all shapes, resizes, questions, and launches that are stopped or killed.
class RandomCalls {
 public:
  explicit RandomCalls(std::uint64_t seed) : dice_(seed), scenario_(random_scenario(seed, Requests::one)) {
    for (int i = 0; i < 24; ++i) {
      if (!dice_.one_in(3)) at_ += ns(dice_.any(0, dice_.one_in(3) ? 400'000 : 8'000));
      if (launches_ == 0 || !dice_.one_in(3))
        launch();
      else
        touch(LaunchId{dice_.any(0, launches_ - 1), 0});
    }
  }
  RandomCalls(const RandomCalls&) = delete;

  const Gpu& gpu() const { return scenario_.gpu; }
  const std::vector<Action>& actions() const { return actions_; }

 private:
  enum class Shape : std::uint8_t { plain, joined, workers, spread };

  void launch() {
    const Gpu& gpu = scenario_.gpu;
    const KernelId id{dice_.any(0, static_cast<std::uint32_t>(scenario_.trace.kernels.size()) - 1)};
    const Kernel& k = scenario_.trace.kernels[id.value];
    const std::uint32_t first = dice_.one_in(4) ? dice_.any(0, gpu.tpcs() - 1) : 0;
    const TpcMask tpcs = first == 0 ? TpcMask::all() : TpcMask::range(first, gpu.tpcs());
    const std::uint32_t level = dice_.any(0, gpu.priority_levels - 1);
    const SmResources demand = demand_of(k, gpu.sm);
    Work work;
    work.record.launch = {launches_, launches_};
    work.record.kernel = id;
    work.record.client = ClientId{dice_.any(0, 2)};
    work.record.blocks = k.blocks();
    if (k.block_times.size() > 1) work.block_times = &k.block_times;
    if (dice_.one_in(4)) work.ctas = dice_.any(1, 30);
    if (dice_.one_in(6)) {
      work.spread.quota = random_quota(demand, tpcs);
      work.ctas = std::accumulate(work.spread.quota.begin(), work.spread.quota.end(), 0u);
    }
    if (work.ctas != 0) work.per_task = gpu.persistent_task;
    actions_.push_back({at_, [=, &k, &gpu](ComputeEngine& engine, Seen&) {
                          Work mine = work;
                          const SmMask allowed = engine.mask_of(tpcs);
                          const KernelModel model(k, k.solo_time.value_or(Time{}), gpu);
                          mine.block_alone = model.block_alone(allowed.count());
                          mine.load = model.load(allowed.count());
                          mine.record.queued = engine.now();
                          engine.accept(std::move(mine), level, allowed, demand);
                        }});
    shapes_.push_back(work.has_quotas() ? Shape::spread : work.persistent() ? Shape::workers : Shape::plain);
    if (launches_ != 0 && came_ == at_ && shapes_[launches_] == Shape::plain &&
        shapes_[launches_ - 1] == Shape::plain && dice_.one_in(2)) {
      const std::uint32_t other = launches_ - 1;
      shapes_[other] = shapes_[launches_] = Shape::joined;
      actions_.push_back({at_, [other](ComputeEngine& engine, Seen&) {
                            engine.pair_up({other, other}, {other + 1, other + 1});
                          }});
    }
    came_ = at_;
    demands_.push_back(demand);
    masks_.push_back(tpcs);
    ++launches_;
  }

  /// At least one worker, and none where the launch may not go.
  std::vector<std::uint16_t> random_quota(const SmResources& demand, const TpcMask& tpcs) {
    const std::uint32_t most = max_active_blocks(capacity_of(scenario_.gpu.sm), demand);
    std::vector<std::uint16_t> quota(scenario_.gpu.sms);
    for (std::uint32_t sm = 0; sm < scenario_.gpu.sms; ++sm)
      if (tpcs.allows(TpcId{sm / scenario_.gpu.sms_per_tpc}) && !dice_.one_in(3))
        quota[sm] = static_cast<std::uint16_t>(dice_.any(0, most));
    quota.back() = static_cast<std::uint16_t>(dice_.any(1, most));
    return quota;
  }

  void touch(LaunchId launch) {
    launch.serial = launch.slot;
    came_ = Time{-1};  // the next one is no partner: this one may be off
    const Shape shape = shapes_[launch.slot];
    const std::uint32_t any = dice_.any(0, 7);
    // Nobody stops one of a pair, or resizes what has no workers.
    if ((any <= 1 && shape == Shape::joined) || (any == 4 && shape != Shape::workers)) return;
    const std::uint32_t ctas = dice_.any(1, 40);
    const std::vector<std::uint16_t> quota = shape == Shape::spread
                                                 ? random_quota(demands_[launch.slot], masks_[launch.slot])
                                                 : std::vector<std::uint16_t>(scenario_.gpu.sms);
    const bool reset = dice_.one_in(2);
    std::function<void(ComputeEngine&, Seen&)> act;
    switch (any) {
      case 0:
        act = [=](ComputeEngine& engine, Seen& seen) {
          if (engine.stop(launch, reset)) seen.push_back(fmt::format("done {}", engine.collect(launch).done));
        };
        break;
      case 1:
        act = [=](ComputeEngine& engine, Seen& seen) {
          if (engine.kill(launch)) seen.push_back(fmt::format("done {}", engine.collect(launch).done));
        };
        break;
      case 2:
        act = [](ComputeEngine& engine, Seen&) {
          engine.pause();
          engine.shift(ns(137));
        };
        break;
      case 3:
        act = [](ComputeEngine& engine, Seen& seen) {
          seen.push_back(fmt::format("busy {} delay {}", engine.busy_sms(), engine.launch_delay(false, false).count()));
        };
        break;
      case 4:
        act = [=](ComputeEngine& engine, Seen&) { engine.resize(launch, ctas); };
        break;
      case 5:
        act = [=](ComputeEngine& engine, Seen&) { engine.resize(launch, quota, reset); };
        break;
      default:
        act = [=](ComputeEngine& engine, Seen& seen) {
          seen.push_back(
              fmt::format("blocks {} {}", engine.blocks_done(launch), engine.resident_blocks(launch)));
        };
    }
    actions_.push_back({at_, act});
  }

  Dice dice_;
  const Scenario scenario_;
  std::vector<Action> actions_;
  Time at_{};
  std::uint32_t launches_ = 0;
  Time came_{-1};              // when the last launch did, if nothing has happened since
  std::vector<Shape> shapes_;  // by launch
  std::vector<SmResources> demands_;
  std::vector<TpcMask> masks_;
};

/// An engine that goes through a script, or a copy of one.
class Going {
 public:
  Going(const RandomCalls& script, EngineOptions options, bool with_blocks)
      : collected_(with_blocks), engine(script.gpu(), attached(), options), script_(script) {}
  Going(const Going& other)
      : collected_(other.collected_.wants_blocks()),
        engine(other.engine, attached()),
        script_(other.script_),
        next_(other.next_) {}

  void go(std::size_t until, Time to) {
    for (; next_ < until; ++next_) {
      const Action& action = script_.actions()[next_];
      run_to(engine, action.at, seen_);
      action.act(engine, seen_);
    }
    run_to(engine, to, seen_);
  }
  void finish() {
    go(script_.actions().size(), kNever);
    engine.close();
    timeline_.flush();
    seen_.push_back(fmt::format("sm {} warp {} blocks {} events {} energy {}", engine.sm_ps(),
                                engine.warp_ps(), engine.blocks_run(), engine.events(), engine.energy()));
  }
  /// From now on it tells what is new.
  void forget() {
    timeline_.flush();
    seen_.clear();
    collected_.kernels.clear();
    collected_.blocks.clear();
  }
  /// Notices, answers and records.
  Seen told() const {
    Seen all = seen_;
    for (std::string& line : lines(collected_.kernels)) all.push_back(std::move(line));
    for (const BlockRecord& b : collected_.blocks)
      all.push_back(fmt::format("launch {} block {} sm {} lane {} from {} to {} dispatched {}",
                                b.launch.serial, b.block, b.sm.value, b.lane, b.start.count(), b.end.count(),
                                b.dispatched.count()));
    return all;
  }

 private:
  Timeline& attached() {
    timeline_.attach(collected_);
    return timeline_;
  }

  Collector collected_;
  Timeline timeline_;

 public:
  ComputeEngine engine;

 private:
  const RandomCalls& script_;
  std::size_t next_ = 0;
  Seen seen_;
};

void copy_in_the_middle(std::uint64_t seed, EngineOptions options, bool with_blocks) {
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  const RandomCalls script(seed);
  Dice dice(seed + 1'000'000);
  const std::size_t until = dice.any(1, static_cast<std::uint32_t>(script.actions().size()));
  const Time last = script.actions()[until - 1].at;
  const Time next = until < script.actions().size() ? script.actions()[until].at : last + us(300);
  const Time middle = last + Time{(next - last).count() * dice.any(0, 16) / 16};

  Going alone(script, options, with_blocks), original(script, options, with_blocks);
  for (Going* going : {&alone, &original}) {
    going->go(until, middle);
    going->forget();
  }
  Going copy(original);
  // Whoever goes first must not be felt by the other.
  const bool copy_first = dice.one_in(2);
  (copy_first ? copy : original).finish();
  (copy_first ? original : copy).finish();
  alone.finish();
  ASSERT_EQ(copy.told(), original.told());
  ASSERT_EQ(original.told(), alone.told()) << "being copied must not be felt either";
}

TEST(ComputeEngineCopy, GoesOnTheSameWithShortcuts) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) copy_in_the_middle(seed, kShortcuts, false);
}

TEST(ComputeEngineCopy, GoesOnTheSameBlockByBlock) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) copy_in_the_middle(seed, kPlain, true);
}

TEST(ComputeEngineCopy, GoesOnTheSameUnderAudit) {
  for (std::uint64_t seed = 301; seed <= 400; ++seed) copy_in_the_middle(seed, kAudited, seed % 2 == 0);
}

// ---- a launch at the door ---------------------------------------------------------------------------------

/// A kernel of 16 waves of 3 us, alone, then again: the second launch waits at the door.
class AtTheDoor {
 public:
  explicit AtTheDoor(EngineOptions options) : collected(false), engine(gpu, attached(), options) {
    accept(KernelId{0}, kernel_);
    run_to(engine, us(500), seen);
    accept(KernelId{0}, kernel_);
  }
  /// A copy at the same instant.
  AtTheDoor(const AtTheDoor& other)
      : collected(other.collected),
        engine(other.engine, attached()),
        seen(other.seen),
        launches_(other.launches_) {}

  void disturb() { accept(KernelId{1}, small_); }
  Seen finish() {
    run_to(engine, kNever, seen);
    engine.close();
    Seen all = seen;
    for (std::string& line : lines(collected.kernels)) all.push_back(std::move(line));
    all.push_back(fmt::format("sm {} warp {}", engine.sm_ps(), engine.warp_ps()));
    return all;
  }

 private:
  Timeline& attached() {
    timeline_.attach(collected);
    return timeline_;
  }
  void accept(KernelId id, const Kernel& k) {
    Work work;
    work.record.launch = {launches_, launches_};
    ++launches_;
    work.record.kernel = id;
    work.record.blocks = k.blocks();
    work.record.queued = engine.now();
    const KernelModel model(k, *k.solo_time, gpu);
    work.block_alone = model.block_alone(gpu.sms);
    work.load = model.load(gpu.sms);
    engine.accept(std::move(work), 0, engine.mask_of(TpcMask::all()), demand_of(k, gpu.sm));
  }

  const Gpu gpu = small_gpu(2);
  const Kernel kernel_ = whole_sm_kernel(32, us(3)), small_ = kernel(3, 32, us(1));
  Collector collected;
  Timeline timeline_;

 public:
  ComputeEngine engine;
  Seen seen;

 private:
  std::uint32_t launches_ = 0;
};

constexpr Time kTimesAtTheDoor[] = {us(500),         us(500) + ps(1), us(501),
                                    us(503),         us(503) + ps(1), us(545) - ps(1),
                                    us(545) + ns(1), us(546),         us(548) - ps(1)};

TEST(ComputeEngineCopy, OfALaunchThatWaitsAtTheDoorWaitsThereToo) {
  for (const Time at : kTimesAtTheDoor) {
    SCOPED_TRACE(at.count());
    AtTheDoor original(kShortcuts), plain(kPlain);
    const std::uint64_t events = original.engine.events();
    run_to(original.engine, at, original.seen);
    AtTheDoor copy(original);
    const Seen of_copy = copy.finish();
    EXPECT_EQ(copy.engine.events(), events + 1) << "the pipeline has not seen it";
    EXPECT_EQ(original.engine.events(), events);
    EXPECT_EQ(of_copy, original.finish());
    EXPECT_EQ(of_copy, plain.finish());
  }
}

TEST(ComputeEngineCopy, IsDisturbedAtTheDoorAndTheOriginalIsNot) {
  for (const Time at : kTimesAtTheDoor) {
    SCOPED_TRACE(at.count());
    AtTheDoor original(kShortcuts), plain(kPlain), plain_disturbed(kPlain);
    const std::uint64_t events = original.engine.events();
    run_to(original.engine, at, original.seen);
    run_to(plain_disturbed.engine, at, plain_disturbed.seen);
    AtTheDoor copy(original);
    copy.disturb();
    plain_disturbed.disturb();
    EXPECT_EQ(copy.finish(), plain_disturbed.finish());
    EXPECT_EQ(original.engine.events(), events);
    EXPECT_EQ(original.finish(), plain.finish());
  }
}

TEST(ComputeEngineCopy, WritesToItsOwnTimelineOnly) {
  AtTheDoor original(kShortcuts);
  AtTheDoor copy(original);
  const Seen before = original.seen;
  copy.finish();
  EXPECT_EQ(original.seen, before);
  EXPECT_TRUE(original.engine.busy());
}

}  // namespace
}  // namespace corun::sim
