#include "sim/stages/compute_engine.h"

#include <algorithm>
#include <tuple>

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
      division_(gpu.sms),
      places_(gpu.sms),
      rank_of_sm_(gpu.sms),
      journal_(kJournal),
      journal_end_(2 * kJournal),
      shared_(gpu),
      memory_(limits_of(gpu)) {
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
  if (work.last == 0) work.last = work.record.blocks;
  work.next = work.done = work.first;
  if (!work.resumed) work.record.slotted = work.record.started = kNever;
  if (options_.audit) work.ran.assign(work.blocks(), false);
  if (record_blocks_) work.starts.resize(work.blocks());
  const std::uint64_t left = work.blocks() - work.first;
  const std::uint64_t ctas = work.persistent() ? std::min<std::uint64_t>(work.ctas, left) : left;
  const bool whole = left == work.record.blocks;
  if (work.load.contends()) cool(work);
  shared_.introduce(id, work.load);
  works_[id.value] = std::move(work);

  const bool empty = unfinished_++ == 0;
  if (works_[id.value].spreads()) {
    Spread& s = works_[id.value].spread;
    s.level = level, s.allowed = allowed, s.demand = demand;
    s.workers = allowed.count() * room(capacity_of(gpu_.sm), demand);
    s.quota = by_rank(s.quota);
    s.held.assign(gpu_.sms, 0);
    s.running.assign(gpu_.sms, 0);
    works_[id.value].workers = 0;
    return add_spread(id);
  }
  const TaskId task = add_task(id, level, allowed, demand, ctas);
  if (empty && shortcuts_ && whole) try_solo(task);
}

TaskId ComputeEngine::add_task(WorkId work, std::uint32_t level, const SmMask& allowed,
                               const SmResources& demand, std::uint64_t ctas) {
  TaskId id{static_cast<std::uint32_t>(tasks_.size())};
  if (free_tasks_.empty()) {
    tasks_.emplace_back();
    rows_.emplace_back();
    placements_.emplace_back();
    row_queued_.push_back(false);
    row_generation_.push_back(0);
  } else {
    id.value = free_tasks_.back();
    free_tasks_.pop_back();
  }
  tasks_[id.value] =
      Task{work, level, arrivals_++, allowed, demand, division_of(demand, gpu_.sm), ctas, 0, Time{}, 0};
  Work& w = works_[work.value];
  ++w.instances;
  if (w.persistent() && !w.spreads()) w.workers += static_cast<std::uint32_t>(ctas);
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
  judge_contention_ = true;
  if (work->workers >= ctas) return;
  const auto instance = std::find_if(tasks_.begin(), tasks_.end(), [&](const Task& t) {
    return (t.pending != 0 || t.resident != 0) && &works_[t.work.value] == work;
  });
  const Task like = *instance;
  const std::uint64_t more = std::min<std::uint64_t>(ctas - work->workers, work->blocks() - work->next);
  add_task(like.work, like.level, like.allowed, like.demand, more);
}

std::vector<std::uint16_t> ComputeEngine::by_rank(const std::vector<std::uint16_t>& by_sm) const {
  std::vector<std::uint16_t> ranked(gpu_.sms);
  for (std::uint32_t rank = 0; rank < gpu_.sms; ++rank)
    ranked[rank] = by_sm[gpu_.placement_order[rank].value];
  return ranked;
}

// ---- a number of CTAs per SM ------------------------------------------------------------------------------

void ComputeEngine::resize(LaunchId launch, const std::vector<std::uint16_t>& ctas_per_sm, bool grow) {
  end_solo_early();
  Work* work = find(launch);
  if (work == nullptr || !work->spreads() || work->next == work->blocks()) return;
  const std::vector<std::uint16_t> ranked = by_rank(ctas_per_sm);
  Spread& s = work->spread;
  work->ctas = 0;
  for (std::uint32_t rank = 0; rank < gpu_.sms; ++rank) {
    s.quota[rank] = grow ? ranked[rank] : std::min(s.quota[rank], ranked[rank]);
    work->ctas += s.quota[rank];
  }
  judge_contention_ = true;
  const WorkId id{work_of_slot_[launch.slot]};
  if (grow && !s.trying) seek_places(id, true);
  // Not one CTA may be left until the others come: it must not look like a plain launch.
  work->ctas = std::max(1u, work->ctas);
}

/// Another instance of one full residency reaches the TMU.
void ComputeEngine::add_spread(WorkId work) {
  Spread& s = works_[work.value].spread;
  s.trying = true;
  s.landed = false;
  std::erase(wanting_, work);
  add_task(work, s.level, s.allowed, s.demand, s.workers);
}

/// Whether a worker more could stay somewhere.
bool ComputeEngine::reachable(const Work& work) const {
  Task like{};
  like.demand = work.spread.demand;
  like.division = division_of(like.demand, gpu_.sm);
  for (std::uint32_t rank = 0; rank < gpu_.sms; ++rank)
    if (work.spread.wanted(rank) && room_on(rank, like) > 0) return true;
  return false;
}

/// An instance has been placed, or the numbers have changed: is a further one needed, and is there room?  The
/// host sees what is missing in the workers' counts, and launches again.
void ComputeEngine::seek_places(WorkId id, bool at_once) {
  Work& work = works_[id.value];
  Spread& s = work.spread;
  s.trying = false;
  if (work.next == work.blocks()) return;
  bool missing = false;
  for (std::uint32_t rank = 0; rank < gpu_.sms && !missing; ++rank) missing = s.wanted(rank);
  if (!missing) return;
  if (!reachable(work)) {
    if (std::find(wanting_.begin(), wanting_.end(), id) == wanting_.end()) wanting_.push_back(id);
    return;
  }
  if (at_once) return add_spread(id);
  s.trying = true;
  std::erase(wanting_, id);
  further_.push_back({now_ + gpu_.launch_latency, id});
}

/// An SM has got room.
void ComputeEngine::look_again(std::uint32_t rank) {
  for (std::size_t i = 0; i < wanting_.size();) {
    const WorkId id = wanting_[i];
    if (works_[id.value].spread.wanted(rank)) seek_places(id);
    i += i < wanting_.size() && wanting_[i] == id;
  }
}

std::uint64_t ComputeEngine::blocks_done(LaunchId launch) {
  end_solo_early();
  const Work* work = find(launch);
  return work == nullptr ? 0 : work->done;
}

std::uint32_t ComputeEngine::resident_blocks(LaunchId launch) {
  end_solo_early();
  if (find(launch) == nullptr) return 0;
  std::uint32_t n = 0;
  for (const Task& task : tasks_)
    if (task.resident != 0 && task.work.value == work_of_slot_[launch.slot]) n += task.resident;
  return n;
}

// ---- preemption and padding -------------------------------------------------------------------------------

void ComputeEngine::join(LaunchId launch, LaunchId padding) {
  end_solo_early();
  const WorkId a{work_of_slot_[launch.slot]}, b{work_of_slot_[padding.slot]};
  works_[a.value].partner = b;
  works_[b.value].partner = a;
}

bool ComputeEngine::stop(LaunchId launch, bool reset) { return take_off(launch, reset, false); }
bool ComputeEngine::kill(LaunchId launch) { return take_off(launch, true, true); }

bool ComputeEngine::take_off(LaunchId launch, bool reset, bool kill) {
  end_solo_early();
  Work* work = find(launch);
  if (work == nullptr || (!kill && work->next == work->blocks())) return false;
  const WorkId id{work_of_slot_[launch.slot]};
  if (!kill) work->last = work->next;
  work->reset = work->reset || reset;
  std::erase(wanting_, id);
  std::erase_if(further_, [&](const Further& f) { return f.work == id; });
  std::vector<TaskId> instances;
  for (std::uint32_t i = 0; i < tasks_.size(); ++i) {
    Task& task = tasks_[i];
    if (task.work != id || (task.pending == 0 && task.resident == 0)) continue;
    instances.push_back({i});
    if (task.pending == 0) continue;
    tmu_.forget({i}, task.level);
    wdu_.dispatched({i});
    if (work->persistent() && !work->spreads()) work->workers -= static_cast<std::uint32_t>(task.pending);
    task.pending = 0;
  }
  if (kill) vacate_all(id);
  const std::uint32_t before = unfinished_;
  for (const TaskId instance : instances) {
    if (tasks_[instance.value].resident != 0) continue;
    refill_ = wdu_.release(instance) || refill_;
    retire(instance);
  }
  if (instances.empty()) finish(id);  // its workers had not found their places
  if (refill_) refill();
  if (!wdu_.table().empty()) wake_dispatcher();
  judge_contention();
  return unfinished_ < before;
}

/// All blocks of a launch leave their SMs.
void ComputeEngine::vacate_all(WorkId work) {
  const auto its = [&](TaskId id) { return tasks_[id.value].work == work; };
  const auto leave = [&](TaskId id, const Resident& resident) {
    Work& w = works_[work.value];
    if (w.spreads() && resident.block != kNoBlock) {
      --w.spread.running[resident.rank];
      --w.spread.held[resident.rank];
      --w.workers;
    }
    vacate(id, resident);
    --tasks_[id.value].resident;
  };
  if (contended_ && works_[work.value].resident != 0) {
    ended_.clear();
    shared_.take_all(now_, ended_);
    const std::vector<SharedSms::Ended> all = std::move(ended_);
    ended_.clear();
    shared_.restart();
    for (const auto& [id, block] : all) {
      if (its(id))
        leave(id, {0, block.number, block.rank, block.place});
      else
        shared_.add(tasks_[id.value], id, block, now_);
    }
  }
  for (std::uint32_t i = 0; i < tasks_.size(); ++i) {
    Row& row = rows_[i];
    if (row.empty() || !its({i})) continue;
    for (std::uint32_t k = 0; k < row.size(); ++k) leave({i}, row.at(k));
    row.clear();
    row_queued_[i] = false;
    ++row_generation_[i];
    tasks_[i].uniform = 0;
  }
  for (Stray& stray : strays_) {
    if (stray.moved || !its(stray.task)) continue;
    leave(stray.task, stray.resident);
    stray.moved = true;
  }
}

TakenOff ComputeEngine::collect(LaunchId launch) {
  const auto found = std::find_if(taken_off_.begin(), taken_off_.end(),
                                  [&](const TakenOff& t) { return t.record.launch == launch; });
  TakenOff off = *found;
  taken_off_.erase(found);
  return off;
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
  if (contended_) t = std::min(t, shared_.next_time());
  if (!further_.empty()) t = std::min(t, further_.front().at);
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
  if (contended_) shared_.take_ended(t, ended_);
  if (!ended_.empty() || (!queue_.empty() && queue_.next_time() == t)) {
    end_several(t, hot);
  } else if (hot) {
    end_row(*hot_);
  }
  while (!further_.empty() && further_.front().at <= now_) {
    const WorkId work = further_.front().work;
    further_.erase(further_.begin());
    add_spread(work);
  }
  if (refill_) refill();
  if (dispatch_at_ <= now_) dispatch();
  judge_contention();
  if (record_gauges_) gauge();
  if (options_.audit) audit_work_conserved();
}

void ComputeEngine::judge_contention() {
  if (judge_contention_) {
    judge_contention_ = false;
    const bool contended = contenders_ > 1 || in_tail() || below_residency();
    if (contended && !contended_) begin_contention();
    if (!contended && contended_) end_contention();
  }
  if (contended_) shared_.settle(now_);
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
  while (!queue_.empty() && queue_.next_time() == t) {
    const Event event = queue_.pop().payload;
    if (!stale(event)) due_.push_back(event);
  }
  for (std::uint32_t i = 0; i < ended_.size(); ++i) due_.push_back({Event::Kind::shared, ended_[i].task, i});
  if (due_.size() > 1) {
    const auto key = [this](const Event& e) {
      return std::tuple(tasks_[e.task.value].arrival, e.kind == Event::Kind::stray,
                        e.kind == Event::Kind::shared ? ended_[e.number].block.number : 0);
    };
    std::stable_sort(due_.begin(), due_.end(),
                     [&](const Event& a, const Event& b) { return key(a) < key(b); });
  }
  for (const Event& event : due_) {
    if (event.kind == Event::Kind::shared) {
      const SharedSms::Block block = ended_[event.number].block;
      ended_[event.number].task = kNoTask;  // done with
      end_block(event.task, {t.count(), block.number, block.rank, block.place});
      continue;
    }
    if (event.kind == Event::Kind::stray) {
      const Resident resident = strays_[event.number].resident;
      strays_[event.number].moved = true;
      free_strays_.push_back(event.number);
      end_block(event.task, resident);
      continue;
    }
    if (event.kind == Event::Kind::row_head) row_queued_[event.task.value] = false;
    end_row(event.task);
    // The row looked at last is likely to be next: keep it out of the queue.
    if (hot_ && *hot_ != event.task) queue_head(*hot_);
    hot_ = event.task;
  }
  ended_.clear();
}

/// An event of a resident that has since moved to another place.
bool ComputeEngine::stale(const Event& event) {
  if (event.kind == Event::Kind::row_head) return event.number != row_generation_[event.task.value];
  if (event.kind != Event::Kind::stray || !strays_[event.number].moved) return false;
  free_strays_.push_back(event.number);
  return true;
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

std::uint32_t ComputeEngine::room_on(std::uint32_t rank, const Task& task) const {
  const bool empty = free_[rank].blocks == gpu_.sm.max_blocks;
  return empty || task.division <= division_[rank] ? room(free_[rank], task.demand) : 0;
}

void ComputeEngine::bring_up_to_date(TaskId id) {
  Placement& placement = placements_[id.value];
  if (placement.seen == journal_end_) return;
  const Task& task = tasks_[id.value];
  if (journal_end_ - placement.seen > kJournal) {
    for (std::uint32_t rank = 0; rank < gpu_.sms; ++rank) placement.set_room(rank, room_on(rank, task));
  } else {
    for (std::uint64_t i = placement.seen; i < journal_end_; ++i) {
      const std::uint32_t rank = journal_[i % kJournal];
      placement.set_room(rank, room_on(rank, task));
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
  if (free_[rank].blocks == gpu_.sm.max_blocks) {
    ++busy_sms_;
    division_[rank] = task.division;
  }
  free_[rank] -= task.demand;
  resident_warps_ += task.demand.warps;
  ++resident_blocks_;
  if (work.load.contends() && work.resident++ == 0) {
    ++contenders_;
    judge_contention_ = true;
  }
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
  if (work.spreads()) {
    Spread& s = work.spread;
    if (!s.landed) {
      s.landed = true;
      s.filled = now_ + gpu_.dispatch_interval * s.workers;
    }
    const bool stays = work.next < work.blocks() && s.wanted(rank);
    s.held[rank] += stays;
    work.workers += stays;
    const WorkId of = task.work;
    const bool last = task.pending == 0;
    occupy(id, rank, place, stays);
    if (last) seek_places(of);
    return;
  }
  occupy(id, rank, place, work.workers <= work.ctas);
}

/// A CTA that has its place on an SM runs the next block there; a worker that does not stay, none.
void ComputeEngine::occupy(TaskId id, std::uint32_t rank, std::uint16_t place, bool stays) {
  Task& task = tasks_[id.value];
  Work& work = works_[task.work.value];
  Time duration = work.per_task;
  std::uint32_t block = kNoBlock;
  if (work.spreads() && !stays) {
    // It holds its place until all have one: a place given back at once would be the most roomy one for the
    // next worker, and the SMs that are wanted might never be reached.
    duration = gpu_.retreat;
    if (work.next < work.blocks() && work.spread.filled > now_) duration += work.spread.filled - now_;
  } else if (work.next < work.blocks() && (!work.persistent() || stays)) {
    if (work.record.started == kNever) work.record.started = now_ + offset;
    block = static_cast<std::uint32_t>(work.next++);
    const Time alone = work.block_times != nullptr ? (*work.block_times)[block] : work.block_alone;
    duration += alone;
    if (options_.audit) audit_block(work, block);
    if (work.spreads()) {
      if (options_.audit) audit_quota(work, rank);
      ++work.spread.running[rank];
    }
    if (record_blocks_) work.starts[block] = now_ + offset;
    if (work.next == work.blocks()) {
      judge_contention_ = true;
      if (work.next == work.record.blocks) {
        work.record.last_block = now_ + offset;
        tell(EngineNotice::Kind::last_block_started, work.record.launch);
      }
    }
  }
  const Time end = now_ + duration;
  if (contended_ && work.load.contends()) {
    shared_.add(task, id, {duration.count(), now_.count(), block, static_cast<std::uint16_t>(rank), place},
                now_);
    return;
  }
  const Resident resident{end.count(), block, static_cast<std::uint16_t>(rank), place};
  Row& row = rows_[id.value];
  if (row.empty() || row.back().end <= resident.end) {
    row.push(resident);
    // A worker that leaves is followed by none like it.
    task.uniform = block == kNoBlock ? 0 : duration == task.duration ? task.uniform + 1 : 1;
    task.duration = duration;
    if (row.size() == 1 && hot_ != id) queue_head(id);
    return;
  }
  std::uint32_t stray = static_cast<std::uint32_t>(strays_.size());
  if (free_strays_.empty()) {
    strays_.push_back({id, resident});
  } else {
    stray = free_strays_.back();
    free_strays_.pop_back();
    strays_[stray] = {id, resident};
  }
  queue_.schedule(end, 0, {Event::Kind::stray, id, stray});
}

/// The head of a row becomes an event, unless it is one.
void ComputeEngine::queue_head(TaskId id) {
  if (rows_[id.value].empty() || row_queued_[id.value]) return;
  queue_.schedule(Time{rows_[id.value].front().end}, 0,
                  {Event::Kind::row_head, id, row_generation_[id.value]});
  row_queued_[id.value] = true;
}

// ---- contention -------------------------------------------------------------------------------------------

/// Whether the only launch that contends has started its last block and leaves places empty from now on.
bool ComputeEngine::in_tail() const {
  if (contenders_ != 1) return false;
  for (const Work& work : works_) {
    if (work.resident == 0 || !work.load.contends()) continue;
    return !work.persistent() && work.next == work.blocks() && work.blocks() > work.load.places;
  }
  return false;
}

/// Whether the only launch that contends is a persistent one on fewer places than its blocks' time alone is
/// for.
bool ComputeEngine::below_residency() const {
  if (contenders_ != 1) return false;
  for (const Work& work : works_)
    if (work.resident != 0 && work.load.contends())
      return work.persistent() && work.ctas < std::min<std::uint64_t>(work.load.places, work.blocks());
  return false;
}

/// A second launch that contends has blocks on SMs, or the only one's SMs begin to empty: they leave their
/// rows.
void ComputeEngine::begin_contention() {
  contended_ = true;
  shared_.restart();
  const auto move = [this](TaskId id, const Resident& r) {
    shared_.add(tasks_[id.value], id,
                {r.end - now_.count(), r.end - works_[tasks_[id.value].work.value].block_alone.count(),
                 r.block, r.rank, r.place},
                now_);
  };
  for (std::uint32_t i = 0; i < tasks_.size(); ++i) {
    Row& row = rows_[i];
    if (row.empty() || !works_[tasks_[i].work.value].load.contends()) continue;
    for (std::uint32_t k = 0; k < row.size(); ++k) move(TaskId{i}, row.at(k));
    row.clear();
    row_queued_[i] = false;
    ++row_generation_[i];
    tasks_[i].uniform = 0;
  }
  for (Stray& stray : strays_) {
    if (stray.moved || !works_[tasks_[stray.task.value].work.value].load.contends()) continue;
    move(stray.task, stray.resident);
    stray.moved = true;
  }
}

/// All but one have gone: what is left of that one goes on as alone.
void ComputeEngine::end_contention() {
  contended_ = false;
  shared_.take_all(now_, ended_);
  std::sort(ended_.begin(), ended_.end(), [](const SharedSms::Ended& a, const SharedSms::Ended& b) {
    return std::tuple(a.task, a.block.left, a.block.number) <
           std::tuple(b.task, b.block.left, b.block.number);
  });
  for (const auto& [task, block] : ended_) {
    rows_[task.value].push({now_.count() + block.left, block.number, block.rank, block.place});
    tasks_[task.value].uniform = 0;
    tasks_[task.value].duration = Time{};
    if (hot_ != task) queue_head(task);
  }
  ended_.clear();
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
  if (work.spreads()) {
    Spread& s = work.spread;
    if (resident.block != kNoBlock) {
      --s.running[resident.rank];
      if (work.next < work.blocks() && s.held[resident.rank] <= s.quota[resident.rank])
        return occupy(id, resident.rank, resident.place, true);
      --s.held[resident.rank];
      --work.workers;
    }
  } else if (work.persistent()) {
    if (work.next < work.blocks() && work.workers <= work.ctas)
      return occupy(id, resident.rank, resident.place, true);
    --work.workers;
  }
  vacate(id, resident);
  if (--task.resident == 0) {
    refill_ = wdu_.release(id) || refill_;
    if (task.pending == 0) retire(id);
  }
  if (!wdu_.table().empty()) wake_dispatcher();
}

/// Its place on the SM is free again.
void ComputeEngine::vacate(TaskId id, const Resident& resident) {
  const Task& task = tasks_[id.value];
  Work& work = works_[task.work.value];
  free_[resident.rank] += task.demand;
  busy_sms_ -= free_[resident.rank].blocks == gpu_.sm.max_blocks;
  resident_warps_ -= task.demand.warps;
  --resident_blocks_;
  if (work.load.contends() && --work.resident == 0) {
    --contenders_;
    judge_contention_ = true;
  }
  if (record_blocks_) places_[resident.rank] &= ~(std::uint64_t{1} << resident.place);
  changed(resident.rank, id, +1);
  if (options_.audit) audit_sm(resident.rank);
  if (!wanting_.empty()) look_again(resident.rank);
}

void ComputeEngine::retire(TaskId id) {
  const WorkId work = tasks_[id.value].work;
  if (hot_ == id) hot_.reset();
  rows_[id.value].clear();
  free_tasks_.push_back(id.value);
  Work& w = works_[work.value];
  if (--w.instances != 0) return;
  // All its workers may have left or landed wrong before others are there.
  if (!w.spreads() || w.done == w.blocks() || w.reset) return finish(work);
  if (!w.spread.trying) seek_places(work);
}

void ComputeEngine::finish(WorkId id) {
  Work& work = works_[id.value];
  if (const auto partner = work.partner) {
    if (works_[partner->value].instances != 0) return;
    works_[partner->value].partner.reset();
    work.partner.reset();
    finish(*partner);
  }
  work.record.finished = now_ + offset;
  if (options_.audit) audit_end(work);
  if (const double bytes = static_cast<double>(work.done - work.first) * bytes_moved(work.load); bytes > 0) {
    moved_ += bytes;
    if (const std::uint32_t client = work.record.client.value; client < clients_.size())
      clients_[client].moved += bytes;
  }
  if (alone_) learn_solo(work);
  std::erase(wanting_, id);
  std::erase_if(further_, [&](const Further& f) { return f.work == id; });
  const LaunchId launch = work.record.launch;
  if (work.blocks() < work.record.blocks || work.reset) {
    if (work.reset) work.record.redone_blocks += work.next;
    taken_off_.push_back({work.record, work.reset ? 0 : work.done});
    tell(EngineNotice::Kind::taken_off, launch);
  } else {
    timeline_.record(work.record);
    tell(EngineNotice::Kind::kernel_finished, launch);
  }
  work_of_slot_[work.record.launch.slot] = kNoWork;
  work = Work{};
  free_works_.push_back(id.value);
  --unfinished_;
}

void ComputeEngine::tell(EngineNotice::Kind kind, LaunchId launch) {
  if (notices_ != nullptr) notices_->push_back({kind, launch});
}

/// What the client's launch before left in L2 has partly been replaced by what others have moved since then.
void ComputeEngine::cool(Work& work) {
  double others = moved_;
  for (const Work& w : works_)
    if (w.instances != 0 && w.record.client != work.record.client)
      others += static_cast<double>(w.done) * bytes_moved(w.load);
  const std::uint32_t client = work.record.client.value;
  if (client >= clients_.size()) clients_.resize(client + 1);
  Client& mine = clients_[client];
  others -= mine.moved;
  const double since = mine.launched ? others - mine.others : 0;
  mine.launched = true;
  mine.others = others;
  BlockLoad& load = work.load;
  if (load.cold >= 1 || since <= 0) return;
  const double footprint = (load.read + load.write) * load.blocks;
  const double cold = 1 - survival(footprint + since, memory_.l2_shared_bytes, memory_.l2_bytes);
  if (cold <= load.cold) return;
  const double warm = load.alone;
  load.cold = cold;
  settle_alone(load, memory_);
  work.block_alone =
      Time{static_cast<std::int64_t>(static_cast<double>(work.block_alone.count()) * (load.alone / warm))};
}

/// A launch takes longer while others run: the front end looks at one stream at a time, and what it reads for
/// a launch waits in the memory with everything else.
Time ComputeEngine::launch_delay() {
  end_solo_early();
  residents_.clear();
  for (const Work& work : works_) {
    if (work.resident == 0) continue;
    const double n = work.resident;
    residents_.push_back({&work.load, n, n / work.load.residents, 0});
  }
  if (residents_.empty()) return Time{};
  const MemoryUse use = share_memory(residents_, memory_);
  const Contention& c = gpu_.contention;
  return c.launch_beside_others +
         Time{static_cast<std::int64_t>(c.launch_memory_accesses * memory_.dram_latency * (use.stretch - 1))};
}

double ComputeEngine::dram_use() const {
  if (contended_) return shared_.memory_use().dram;
  double use = 0;
  for (const Work& work : works_)
    if (work.resident != 0)
      use += work.resident * bytes_moved(work.load) / work.load.alone / memory_.read_bytes_per_ps;
  return std::min(1.0, use);
}

/// What has changed since the last time, once a microsecond at most and when the SMs fall empty.
void ComputeEngine::gauge() {
  if (now_ - gauged_at_ < kGaugeInterval && resident_blocks_ != 0) return;
  gauged_at_ = now_;
  const std::array<std::pair<Gauge, double>, 5> values{{{Gauge::tmu_queue, static_cast<double>(tmu_.size())},
                                                        {Gauge::task_slots, wdu_.used()},
                                                        {Gauge::resident_blocks, resident_blocks_},
                                                        {Gauge::resident_warps, resident_warps_},
                                                        {Gauge::dram_bandwidth_pct, 100 * dram_use()}}};
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
    if (work.instances == 0 && !work.spreads() && !work.partner) continue;
    if (work.next != work.record.blocks) work.record.last_block = kNever;
    work.record.finished = kNever;
    timeline_.record(work.record);
  }
}

}  // namespace corun::sim
