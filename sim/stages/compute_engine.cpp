#include "sim/stages/compute_engine.h"

#include <algorithm>
#include <utility>

namespace corun::sim {
namespace {

bool takes_shortcuts(const EngineObserver& observer, EngineOptions options) {
  return options.shortcuts && observer.looks_away();
}

Pipeline pipeline_of(const Gpu& gpu, Timeline& timeline, EngineOptions options) {
  const EngineObserver observer(gpu, timeline, options.audit);
  return Pipeline(gpu, observer, takes_shortcuts(observer, options), options.contention);
}

}  // namespace

ComputeEngine::ComputeEngine(const Gpu& gpu, Timeline& timeline, EngineOptions options)
    : pipeline_(pipeline_of(gpu, timeline, options)),
      shortcuts_(takes_shortcuts(EngineObserver(gpu, timeline, options.audit), options)) {}

ComputeEngine::ComputeEngine(const ComputeEngine& other, Timeline& timeline)
    : pipeline_(other.pipeline_),
      shortcuts_(other.shortcuts_),
      memory_(other.memory_),
      door_(other.door_),
      watched_(other.watched_) {
  pipeline_.write_to(timeline);
}

Pipeline& ComputeEngine::pipeline() {
  if (door_) open_door();
  watched_.reset();
  return pipeline_;
}

void ComputeEngine::accept(Work&& work, std::uint32_t level, const SmMask& allowed,
                           const SmResources& demand) {
  Pipeline& pipe = pipeline();
  pipe.condition(work);
  if (!shortcuts_ || !pipe.at_rest()) return pipe.accept(std::move(work), level, allowed, demand);
  const std::optional<SoloMemory::Key> key = SoloMemory::key_of(work, allowed, demand);
  if (!key) return pipe.accept(std::move(work), level, allowed, demand);
  if (const UndisturbedRun* run = memory_.find(*key)) {
    const bool told = !work.tells_last;
    door_.emplace(std::move(work), level, allowed, demand, *run, pipe.now(), false, told);
    return;
  }
  watched_ = Watched{work.record.launch, *key, pipe.now(), pipe.sms().sm_ps(), pipe.sms().warp_ps()};
  pipe.accept(std::move(work), level, allowed, demand);
}

Time ComputeEngine::next_time() const {
  if (!door_) return pipeline_.next_time();
  return pipeline_.now() + (door_->last_told ? door_->run.end : door_->run.last_block);
}

void ComputeEngine::advance(Time limit, std::vector<EngineNotice>& notices) {
  CORUN_EXPECTS(limit >= now());
  if (door_) return advance_at_door(limit, notices);
  pipeline_.advance(limit, notices);
  if (!watched_) return;
  const auto ended = std::ranges::find_if(notices, [&](const EngineNotice& n) {
    return n.kind != EngineNotice::Kind::last_block_started && n.launch == watched_->launch;
  });
  if (ended == notices.end()) return;
  memory_.learn(watched_->key,
                pipeline_.last_run(watched_->since, watched_->sm_ps, watched_->warp_ps));
  watched_.reset();
}

void ComputeEngine::advance_at_door(Time limit, std::vector<EngineNotice>& notices) {
  door_->advanced = true;
  const LaunchId launch = door_->work.record.launch;
  if (!door_->last_told && next_time() <= limit) {
    door_->now = next_time();
    door_->last_told = true;
    notices.push_back({EngineNotice::Kind::last_block_started, launch});
    if (door_->run.end != door_->run.last_block) return;
  }
  if (!door_->last_told || next_time() > limit) {
    if (limit != kNever) door_->now = limit;
    return;
  }
  pipeline_.pass(std::move(door_->work), pipeline_.now(), door_->run);
  door_.reset();
  notices.push_back({EngineNotice::Kind::kernel_finished, launch});
}

/// Somebody looks or comes: what has not been simulated so far is simulated now, up to this instant.
void ComputeEngine::open_door() {
  Door door = *std::exchange(door_, std::nullopt);
  pipeline_.accept(std::move(door.work), door.level, door.allowed, door.demand);
  std::vector<EngineNotice> told;  // already
  const std::uint64_t most = pipeline_.stop_after(~std::uint64_t{0});  // time has passed already
  // Else others may still come at this very instant, before the first block.
  while (door.advanced && pipeline_.next_time() <= door.now) {
    told.clear();
    pipeline_.advance(door.now, told);
  }
  pipeline_.pass_time(door.now);
  pipeline_.stop_after(most);
}

Time length_alone(ComputeEngine& engine, const Work& work, const SmMask& allowed, const SmResources& demand) {
  CORUN_EXPECTS(!engine.busy());
  std::vector<EngineNotice> notices;
  const Time began = engine.rests();
  engine.advance(began, notices);
  engine.accept(Work(work), 0, allowed, demand);
  while (engine.busy()) {
    notices.clear();
    engine.advance(kNever, notices);
  }
  return engine.now() - began;
}

}  // namespace corun::sim
