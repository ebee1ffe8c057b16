#include "sim/stages/compute_engine.h"

#include <algorithm>

namespace corun::sim {
namespace {

constexpr std::uint32_t kNoBlock = ~std::uint32_t{0};  // a worker that finds no block to take and leaves
constexpr std::uint32_t kNoWork = ~std::uint32_t{0};
constexpr std::uint64_t kJournal = 64;
constexpr Time kGaugeInterval{1'000'000};
constexpr TaskId kNoTask{~std::uint32_t{0}};

}  // namespace

void ComputeEngine::Row::grow() {
  std::vector<Resident> larger(std::max<std::size_t>(64, 2 * ring_.size()));
  const std::uint32_t n = size();
  for (std::uint32_t i = 0; i < n; ++i) larger[i] = at(i);
  ring_ = std::move(larger);
  head_ = 0;
  tail_ = n;
  mask_ = static_cast<std::uint32_t>(ring_.size() - 1);
}

ComputeEngine::ComputeEngine(const Gpu& gpu, Timeline& timeline, EngineOptions options)
    : gpu_(gpu),
      timeline_(timeline),
      options_(options),
      record_blocks_(timeline.wants_blocks()),
      record_gauges_(timeline.wants_gauges()),
      shortcuts_(options.shortcuts && !options.audit && !record_blocks_ && !record_gauges_),
      tmu_(gpu.priority_levels),
      wdu_(gpu.task_slots, tasks_),
      free_(gpu.sms, capacity_of(gpu.sm)),
      issue_(gpu.sms),
      places_(gpu.sms),
      rank_of_sm_(gpu.sms),
      journal_(kJournal),
      journal_end_(2 * kJournal) {
  for (std::uint32_t rank = 0; rank < gpu.sms; ++rank) rank_of_sm_[gpu.placement_order[rank].value] = rank;
}

SmMask ComputeEngine::mask_of(const TpcMask& tpcs) const {
  SmMask mask;
  for (std::uint32_t sm = 0; sm < gpu_.sms; ++sm)
    if (tpcs.allows(TpcId{sm / gpu_.sms_per_tpc})) mask.set(rank_of_sm_[sm]);
  return mask;
}

// ---- arrival ----------------------------------------------------------------------------------------------

void ComputeEngine::accept(Work work, std::uint32_t level, const SmMask& allowed, const SmResources& demand) {
  end_solo_early();
  const LaunchId launch = work.record.launch;
  WorkId id{static_cast<std::uint32_t>(works_.size())};
  if (free_works_.empty()) {
    works_.emplace_back();
  } else {
    id.value = free_works_.back();
    free_works_.pop_back();
  }
  if (launch.slot >= work_of_slot_.size()) work_of_slot_.resize(launch.slot + 1, kNoWork);
  work_of_slot_[launch.slot] = id.value;
  work.record.slotted = kNever;
  if (options_.audit) work.ran.assign(work.blocks(), false);
  if (record_blocks_) work.starts.resize(work.blocks());
  const std::uint64_t ctas =
      work.persistent() ? std::min<std::uint64_t>(work.ctas, work.blocks()) : work.blocks();
  works_[id.value] = std::move(work);

  const bool empty = unfinished_++ == 0;
  const TaskId task = add_task(id, level, allowed, demand, ctas);
  if (empty && shortcuts_) try_solo(task);
}

TaskId ComputeEngine::add_task(WorkId work, std::uint32_t level, const SmMask& allowed,
                               const SmResources& demand, std::uint64_t ctas) {
  TaskId id{static_cast<std::uint32_t>(tasks_.size())};
  if (free_tasks_.empty()) {
    tasks_.emplace_back();
    rows_.emplace_back();
    placements_.emplace_back();
    row_queued_.push_back(false);
  } else {
    id.value = free_tasks_.back();
    free_tasks_.pop_back();
  }
  tasks_[id.value] = Task{work, level, arrivals_++, allowed, demand, ctas, 0, Time{}, 0};
  Work& w = works_[work.value];
  ++w.instances;
  if (w.persistent()) w.workers += static_cast<std::uint32_t>(ctas);
  placements_[id.value].reset(allowed, gpu_.sms);
  if (sole_ == id) sole_ = kNoTask;  // another task had this number
  tmu_.accept(id, level);
  refill();
  return id;
}

void ComputeEngine::refill() {
  refill_ = false;
  entered_.clear();
  evicted_.clear();
  wdu_.refill(tmu_, entered_, evicted_);
  for (TaskId id : evicted_) ++works_[tasks_[id.value].work.value].record.evictions;
  for (TaskId id : entered_) {
    KernelRecord& record = works_[tasks_[id.value].work.value].record;
    if (record.slotted == kNever) record.slotted = now_ + offset;
  }
  if (!entered_.empty()) wake_dispatcher();
}

void ComputeEngine::resize(LaunchId launch, std::uint32_t ctas) {
  end_solo_early();  // only then is known how far it is
  Work* work = find(launch);
  if (work == nullptr || work->next == work->blocks()) return;
  work->ctas = ctas;
  if (work->workers >= ctas) return;
  const auto instance = std::find_if(tasks_.begin(), tasks_.end(), [&](const Task& t) {
    return (t.pending != 0 || t.resident != 0) && &works_[t.work.value] == work;
  });
  const Task like = *instance;
  const std::uint64_t more = std::min<std::uint64_t>(ctas - work->workers, work->blocks() - work->next);
  add_task(like.work, like.level, like.allowed, like.demand, more);
}

std::uint64_t ComputeEngine::blocks_done(LaunchId launch) {
  end_solo_early();
  const Work* work = find(launch);
  return work == nullptr ? 0 : work->done;
}

Work* ComputeEngine::find(LaunchId launch) {
  if (launch.slot >= work_of_slot_.size() || work_of_slot_[launch.slot] == kNoWork) return nullptr;
  Work& work = works_[work_of_slot_[launch.slot]];
  return work.record.launch == launch ? &work : nullptr;
}

// ---- time -------------------------------------------------------------------------------------------------

Time ComputeEngine::next_time() {
  if (solo_ != nullptr) {
    const Work& work = works_[tasks_[alone_->value].work.value];
    return alone_since_ + (work.record.last_block < Time{} ? solo_->last_block : solo_->end);
  }
  Time t = dispatch_at_;
  if (!queue_.empty()) t = std::min(t, queue_.next_time());
  if (hot_ && !rows_[hot_->value].empty()) t = std::min(t, Time{rows_[hot_->value].front().end});
  return t;
}

void ComputeEngine::advance(Time limit, std::vector<EngineNotice>& notices) {
  notices_ = &notices;
  solo_advanced_ = true;
  while (notices.empty()) {
    if (solo_ != nullptr) {
      if (next_time() > limit) break;
      advance_solo();
      continue;
    }
    if (hot_ && shortcuts_) skip_waves(limit);
    const Time t = next_time();
    if (t > limit) break;
    step(t);
  }
  if (notices.empty() && limit != kNever) pass_time(limit);
  notices_ = nullptr;
}

void ComputeEngine::pass_time(Time to) {
  const std::int64_t span = (to - now_).count();
  sm_ps_ += span * busy_sms_;
  warp_ps_ += span * resident_warps_;
  now_ = to;
}

/// One instant: first all that ends, then the slots, then the dispatcher.
void ComputeEngine::step(Time t) {
  pass_time(t);
  ++events_;
  const bool hot = hot_ && !rows_[hot_->value].empty() && rows_[hot_->value].front().end == t.count();
  if (!queue_.empty() && queue_.next_time() == t) {
    end_several(t, hot);
  } else if (hot) {
    end_row(*hot_);
  }
  if (refill_) refill();
  if (dispatch_at_ <= now_) dispatch();
  if (record_gauges_) gauge();
  if (options_.audit) audit_work_conserved();
}

/// What ends at one instant does so in the order in which the tasks arrived, however their rows are kept:
/// kernels that end together are told in that order, and a persistent worker meets the neighbours that have
/// not ended yet.
void ComputeEngine::end_several(Time t, bool hot) {
  due_.clear();
  if (hot) {
    due_.push_back({Event::Kind::hot_head, *hot_, 0});
    hot_.reset();
  }
  while (!queue_.empty() && queue_.next_time() == t) due_.push_back(queue_.pop().payload);
  if (due_.size() > 1) {
    const auto key = [this](const Event& e) {
      return std::pair(tasks_[e.task.value].arrival, e.kind == Event::Kind::stray);
    };
    std::stable_sort(due_.begin(), due_.end(),
                     [&](const Event& a, const Event& b) { return key(a) < key(b); });
  }
  for (const Event& event : due_) {
    if (event.kind == Event::Kind::stray) {
      const Resident resident = strays_[event.stray];
      free_strays_.push_back(event.stray);
      end_block(event.task, resident);
      continue;
    }
    if (event.kind == Event::Kind::row_head) row_queued_[event.task.value] = false;
    end_row(event.task);
    // The row looked at last is likely to be next: keep it out of the queue.
    if (hot_ && *hot_ != event.task && !rows_[hot_->value].empty() && !row_queued_[hot_->value]) {
      queue_.schedule(Time{rows_[hot_->value].front().end}, 0, {Event::Kind::row_head, *hot_, 0});
      row_queued_[hot_->value] = true;
    }
    hot_ = event.task;
  }
}

void ComputeEngine::end_row(TaskId id) {
  while (!rows_[id.value].empty() && rows_[id.value].front().end == now_.count()) {
    const Resident resident = rows_[id.value].front();
    rows_[id.value].pop();
    end_block(id, resident);
  }
}

// ---- dispatch ---------------------------------------------------------------------------------------------

void ComputeEngine::wake_dispatcher() {
  dispatch_at_ = std::min(dispatch_at_, std::max(now_, dispatcher_free_));
}

void ComputeEngine::dispatch() {
  TaskId task;
  std::uint32_t rank = kMaxSms;
  bool found = choose(task, rank);
  while (found && dispatcher_free_ <= now_) {
    start_block(task, rank);
    dispatcher_free_ = now_ + gpu_.dispatch_interval;
    found = choose(task, rank);
  }
  dispatch_at_ = found ? dispatcher_free_ : kNever;
}

/// The first task of the table that may use an SM which no task before it may use, and that SM.
bool ComputeEngine::choose(TaskId& task, std::uint32_t& rank) {
  SmMask claimed;
  for (TaskId id : wdu_.table()) {
    bring_up_to_date(id);
    const SmMask open = tasks_[id.value].allowed.minus(claimed);
    rank = placements_[id.value].select(open);
    if (rank != kMaxSms) {
      task = id;
      return true;
    }
    claimed |= tasks_[id.value].allowed;
    if (claimed.count() == gpu_.sms) return false;
  }
  return false;
}

void ComputeEngine::bring_up_to_date(TaskId id) {
  Placement& placement = placements_[id.value];
  if (placement.seen == journal_end_) return;
  const SmResources& demand = tasks_[id.value].demand;
  if (journal_end_ - placement.seen > kJournal) {
    for (std::uint32_t rank = 0; rank < gpu_.sms; ++rank) placement.set_room(rank, room(free_[rank], demand));
  } else {
    for (std::uint64_t i = placement.seen; i < journal_end_; ++i) {
      const std::uint32_t rank = journal_[i % kJournal];
      placement.set_room(rank, room(free_[rank], demand));
    }
  }
  placement.seen = journal_end_;
}

/// An SM has gained or lost one block of task `by`: that task knows what this means for its own room.
void ComputeEngine::changed(std::uint32_t rank, TaskId by, int difference) {
  if (sole_ != by) {
    sole_ = by;
    sole_since_ = now_;
  }
  last_change_ = now_;
  Placement& placement = placements_[by.value];
  const bool current = placement.seen == journal_end_;
  journal_[journal_end_++ % kJournal] = static_cast<std::uint16_t>(rank);
  if (!current) return;
  placement.set_room(rank, placement.room_at(rank) + static_cast<std::uint32_t>(difference));
  placement.seen = journal_end_;
}

void ComputeEngine::start_block(TaskId id, std::uint32_t rank) {
  Task& task = tasks_[id.value];
  Work& work = works_[task.work.value];
  busy_sms_ += free_[rank].blocks == gpu_.sm.max_blocks;
  free_[rank] -= task.demand;
  resident_warps_ += task.demand.warps;
  ++resident_blocks_;
  issue_[rank] += work.demand.issue;
  dram_ += work.demand.dram;
  changed(rank, id, -1);
  if (options_.audit) audit_sm(rank);
  --task.pending;
  ++task.resident;
  std::uint16_t place = 0;
  if (record_blocks_) {
    place = static_cast<std::uint16_t>(std::countr_one(places_[rank]));
    places_[rank] |= std::uint64_t{1} << place;
  }
  if (task.pending == 0) wdu_.dispatched(id);
  occupy(id, rank, place);
}

/// A CTA that has its place on an SM runs the next block there.
void ComputeEngine::occupy(TaskId id, std::uint32_t rank, std::uint16_t place) {
  Task& task = tasks_[id.value];
  Work& work = works_[task.work.value];
  Time duration = work.per_task;
  std::uint32_t block = kNoBlock;
  if (work.next < work.blocks() && (!work.persistent() || work.workers <= work.ctas)) {
    if (work.next == 0) work.record.started = now_ + offset;
    block = static_cast<std::uint32_t>(work.next++);
    const Time alone = work.block_times != nullptr ? (*work.block_times)[block] : work.block_alone;
    duration += block_time(alone, issue_[rank], dram_);
    if (options_.audit) audit_block(work, block);
    if (record_blocks_) work.starts[block] = now_ + offset;
    if (work.next == work.blocks()) {
      work.record.last_block = now_ + offset;
      tell(EngineNotice::Kind::last_block_started, work.record.launch);
    }
  }
  const Time end = now_ + duration;
  const Resident resident{end.count(), block, static_cast<std::uint16_t>(rank), place};
  Row& row = rows_[id.value];
  if (row.empty() || row.back().end <= resident.end) {
    row.push(resident);
    // A worker that leaves is followed by none like it.
    task.uniform = block == kNoBlock ? 0 : duration == task.duration ? task.uniform + 1 : 1;
    task.duration = duration;
    if (row.size() == 1 && !row_queued_[id.value] && hot_ != id) {
      queue_.schedule(end, 0, {Event::Kind::row_head, id, 0});
      row_queued_[id.value] = true;
    }
    return;
  }
  std::uint32_t stray = static_cast<std::uint32_t>(strays_.size());
  if (free_strays_.empty()) {
    strays_.push_back(resident);
  } else {
    stray = free_strays_.back();
    free_strays_.pop_back();
    strays_[stray] = resident;
  }
  queue_.schedule(end, 0, {Event::Kind::stray, id, stray});
}

void ComputeEngine::end_block(TaskId id, Resident resident) {
  Task& task = tasks_[id.value];
  Work& work = works_[task.work.value];
  if (resident.block != kNoBlock) {
    ++work.done;
    ++blocks_run_;
    if (record_blocks_)
      timeline_.record(BlockRecord{work.record.launch, work.record.client, work.record.kernel, resident.block,
                                   gpu_.placement_order[resident.rank], resident.place,
                                   work.starts[resident.block], now_ + offset});
  }
  if (work.persistent()) {
    if (work.next < work.blocks() && work.workers <= work.ctas)
      return occupy(id, resident.rank, resident.place);
    --work.workers;
  }
  free_[resident.rank] += task.demand;
  busy_sms_ -= free_[resident.rank].blocks == gpu_.sm.max_blocks;
  resident_warps_ -= task.demand.warps;
  --resident_blocks_;
  issue_[resident.rank] -= work.demand.issue;
  dram_ -= work.demand.dram;
  if (record_blocks_) places_[resident.rank] &= ~(std::uint64_t{1} << resident.place);
  changed(resident.rank, id, +1);
  if (options_.audit) audit_sm(resident.rank);
  if (--task.resident == 0) {
    refill_ = wdu_.release(id) || refill_;
    if (task.pending == 0) retire(id);
  }
  if (!wdu_.table().empty()) wake_dispatcher();
}

void ComputeEngine::retire(TaskId id) {
  const WorkId work = tasks_[id.value].work;
  if (hot_ == id) hot_.reset();
  rows_[id.value].clear();
  free_tasks_.push_back(id.value);
  if (--works_[work.value].instances == 0) finish(work);
}

void ComputeEngine::finish(WorkId id) {
  Work& work = works_[id.value];
  work.record.finished = now_ + offset;
  if (options_.audit) audit_end(work);
  if (alone_) learn_solo(work);
  timeline_.record(work.record);
  tell(EngineNotice::Kind::kernel_finished, work.record.launch);
  work_of_slot_[work.record.launch.slot] = kNoWork;
  work = Work{};
  free_works_.push_back(id.value);
  --unfinished_;
}

void ComputeEngine::tell(EngineNotice::Kind kind, LaunchId launch) {
  if (notices_ != nullptr) notices_->push_back({kind, launch});
}

/// What has changed since the last time, once a microsecond at most and when the SMs fall empty.
void ComputeEngine::gauge() {
  if (now_ - gauged_at_ < kGaugeInterval && resident_blocks_ != 0) return;
  gauged_at_ = now_;
  const std::array<std::pair<Gauge, double>, 5> values{
      {{Gauge::tmu_queue, static_cast<double>(tmu_.size())},
       {Gauge::task_slots, wdu_.used()},
       {Gauge::resident_blocks, resident_blocks_},
       {Gauge::resident_warps, resident_warps_},
       {Gauge::dram_bandwidth_pct,
        std::min(100.0, 100.0 * static_cast<double>(dram_) / static_cast<double>(kFullDram))}}};
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i].second == gauged_[i]) continue;
    gauged_[i] = values[i].second;
    timeline_.record(GaugeRecord{values[i].first, now_ + offset, values[i].second});
  }
}

void ComputeEngine::pause() { end_solo_early(); }

void ComputeEngine::close() {
  end_solo_early();
  for (Work& work : works_) {
    if (work.instances == 0) continue;
    if (work.next != work.blocks()) work.record.last_block = kNever;
    if (work.next == 0) work.record.started = kNever;
    work.record.finished = kNever;
    timeline_.record(work.record);
  }
}

}  // namespace corun::sim
