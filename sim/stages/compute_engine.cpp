#include "sim/stages/compute_engine.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace corun::sim {
namespace {

constexpr std::uint32_t kNoWork = ~std::uint32_t{0};
constexpr Time kGaugeInterval{1'000'000};
constexpr TaskId kNoTask{~std::uint32_t{0}};

/// Issue slots go by the age of a persistent worker, not of the block that it has: so on an H200
/// (experiments/h200/policies).  Earlier generations, of which that is not known, keep the block's.
bool by_age_of_workers(const Gpu& gpu) { return gpu.compute_capability_major >= 9; }

/// Where there are more seats than blocks, workers of one SM take theirs together: all come within half a
/// microsecond, and SMs near the counter ask sooner (the same).
void keep_first(std::vector<std::uint16_t>& quota, std::uint64_t seats) {
  for (std::uint16_t& n : quota) {
    n = static_cast<std::uint16_t>(std::min<std::uint64_t>(n, seats));
    seats -= n;
  }
}

/// A block's time alone goes with its load's, which was `before`.
void lengthen(Work& work, double before) {
  if (work.load.alone == before) return;
  work.block_alone = Time{
      static_cast<std::int64_t>(static_cast<double>(work.block_alone.count()) * (work.load.alone / before))};
}

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
      cohorts_(gpu.sms, shortcuts_),
      free_(gpu.sms, capacity_of(gpu.sm)),
      division_(gpu.sms),
      in_rows_(gpu.sms),
      places_(gpu.sms),
      rank_of_sm_(gpu.sms),
      journal_(kJournal),
      journal_end_(2 * kJournal),
      shared_(gpu, cohorts_),
      memory_(limits_of(gpu)) {
  for (std::uint32_t rank = 0; rank < gpu.sms; ++rank) {
    rank_of_sm_[gpu.placement_order[rank].value] = rank;
    all_sms_.set(rank);
  }
}

SmMask ComputeEngine::mask_of(const TpcMask& tpcs) const {
  if (tpcs == TpcMask::all()) return all_sms_;
  SmMask mask;
  for (std::uint32_t sm = 0; sm < gpu_.sms; ++sm)
    if (tpcs.allows(TpcId{sm / gpu_.sms_per_tpc})) mask.set(rank_of_sm_[sm]);
  return mask;
}

std::uint32_t ComputeEngine::busy_sms() {
  end_solo_early();
  return busy_sms_;
}

std::uint64_t ComputeEngine::threads_on(const SmMask& sms) {
  end_solo_early();
  std::uint64_t threads = 0;
  for (const Task& task : tasks_) {
    if (task.resident + task.pending == 0) continue;
    const std::uint64_t of = task.allowed.count();
    const std::uint64_t blocks =
        std::min(task.resident + task.pending, of * room(capacity_of(gpu_.sm), task.demand));
    threads += blocks * task.demand.threads * (task.allowed & sms).count() / of;
  }
  return threads;
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
  if (record_blocks_) {
    work.starts.resize(work.blocks());
    work.dispatched.resize(work.blocks());
  }
  const std::uint64_t left = work.blocks() - work.first;
  const std::uint64_t ctas = work.persistent() ? std::min<std::uint64_t>(work.ctas, left) : left;
  const bool whole = left == work.record.blocks;
  if (work.load.contends()) slow_down(work);
  if (work.load.contends()) cool(work);
  if (work.load.contends()) shared_.introduce(id, work.load);
  works_[id.value] = std::move(work);
  cohorts_.respect(allowed, [this](std::uint32_t head, const SmMask& part) { single_out(head, part); });

  if (works_[id.value].persistent()) ++persistent_;
  const bool empty = unfinished_++ == 0;
  if (works_[id.value].spreads()) {
    ++spread_;
    const SmMask heads = cohorts_.heads();
    heads.for_each([this](std::uint32_t head) { scatter(head); });
    Spread& s = works_[id.value].spread;
    s.level = level, s.allowed = allowed, s.demand = demand;
    s.workers = allowed.count() * room(capacity_of(gpu_.sm), demand);
    s.quota = by_rank(s.quota);
    if (gpu_.neighbours_take_together) keep_first(s.quota, left);
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
  tasks_[id.value] = Task{work, level, arrivals_++, allowed, demand, division_of(demand, gpu_.sm),
                          ctas, 0,     Time{-1},    Time{},  0};
  Work& w = works_[work.value];
  ++w.instances;
  Task& task = tasks_[id.value];
  task.laps = w.load.contends() && !w.spreads();
  task.plain = w.block_times == nullptr && !w.persistent() && !w.spreads();
  task.early = early(w);
  if (w.persistent() && !w.spreads()) w.workers += static_cast<std::uint32_t>(ctas);
  placements_[id.value].reset(allowed);
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
  if (!shared_.empty()) t = std::min(t, shared_.next_time());
  if (!further_.empty()) t = std::min(t, further_.front().at);
  if (t == kNever && !in_vain_.empty()) t = now_ + Time{1};
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
  if (options_.audit) audit_time(t);
  pass_time(t);
  ++events_;
  const bool hot = hot_ && !rows_[hot_->value].empty() && rows_[hot_->value].front().end == t.count();
  if (!shared_.empty()) shared_.take_ended(t, ended_);
  if (!ended_.empty() || (!queue_.empty() && queue_.next_time() == t)) {
    end_several(t, hot);
  } else if (hot) {
    end_row(*hot_);
  }
  if (!in_vain_.empty())
    for (const WorkId work : std::exchange(in_vain_, {})) seek_places(work);
  while (!further_.empty() && further_.front().at <= now_) {
    const WorkId work = further_.front().work;
    further_.erase(further_.begin());
    add_spread(work);
  }
  if (refill_) refill();
  if (gather_) gather();
  if (dispatch_at_ <= now_) dispatch();
  judge_contention();
  if (record_gauges_) gauge();
  if (options_.audit) audit_work_conserved();
}

/// What ends at one instant does so in the order in which the tasks arrived, however their rows are kept:
/// kernels that end together are told in that order, and a persistent worker meets the neighbours that have
/// not ended yet.
void ComputeEngine::end_several(Time t, bool hot) {
  if (cohorts_.together() && persistent_ != 0) scatter_what_ends();
  if (ended_.size() == 1 && !hot && (queue_.empty() || queue_.next_time() != t)) {  // as a rule
    const SharedSms::Ended e = ended_.front();
    ended_.clear();
    return end_blocks(e.task, e.head, e.number, e.place, e.count);
  }
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
                        e.kind == Event::Kind::shared ? ended_[e.number].head : 0);
    };
    const auto before = [&](const Event& a, const Event& b) { return key(a) < key(b); };
    if (!std::is_sorted(due_.begin(), due_.end(), before)) std::stable_sort(due_.begin(), due_.end(), before);
  }
  for (const Event& event : due_) {
    if (event.kind == Event::Kind::shared) {
      const SharedSms::Ended e = ended_[event.number];
      ended_[event.number].task = kNoTask;  // done with
      end_blocks(e.task, e.head, e.number, e.place, e.count);
      continue;
    }
    if (event.kind == Event::Kind::stray) {
      const Resident resident = strays_[event.number].resident;
      strays_[event.number].gone = true;
      free_strays_.push_back(event.number);
      end_blocks(event.task, resident.rank, resident.block, resident.place, 1);
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

/// An event of a resident that was taken off.
bool ComputeEngine::stale(const Event& event) {
  if (event.kind == Event::Kind::row_head) return event.number != row_generation_[event.task.value];
  if (event.kind != Event::Kind::stray || !strays_[event.number].gone) return false;
  free_strays_.push_back(event.number);
  return true;
}

void ComputeEngine::end_row(TaskId id) {
  while (!rows_[id.value].empty() && rows_[id.value].front().end == now_.count()) {
    const Resident resident = rows_[id.value].front();
    rows_[id.value].pop();
    end_blocks(id, resident.rank, resident.block, resident.place, 1);
  }
}

// ---- blocks start and end ---------------------------------------------------------------------------------

/// An SM has gained or lost blocks of task `by`: that task knows what this means for its own room.  Called as
/// a function it would add 4 % to a block's instructions.
[[gnu::always_inline]] inline void ComputeEngine::changed(std::uint32_t rank, TaskId by, int difference) {
  if (sole_ != by) {
    sole_ = by;
    sole_since_ = now_;
  }
  last_change_ = now_;
  changed_sms_.set(rank);
  Placement& placement = placements_[by.value];
  const bool current = placement.seen == journal_end_;
  note_change(rank);
  if (!current || tasks_[by.value].pending == 0) return;
  placement.set_room(rank, placement.room_at(rank) + static_cast<std::uint32_t>(difference));
  placement.seen = journal_end_;
}

/// Each SM of the cohort takes so many CTAs of the task.
void ComputeEngine::start_blocks(TaskId id, std::uint32_t head, std::uint32_t each) {
  if (!cohorts_.together() && each > 1) {
    for (std::uint32_t i = 0; i < each; ++i) start_blocks(id, head, 1);
    return;
  }
  Task& task = tasks_[id.value];
  Work& work = works_[task.work.value];
  const std::uint32_t sms = cohorts_.size(head), ctas = sms * each;
  if (free_[head].blocks == gpu_.sm.max_blocks) {
    busy_sms_ += sms;
    division_[head] = task.division;
  }
  free_[head] -= each * task.demand;
  resident_warps_ += ctas * task.demand.warps;
  resident_blocks_ += ctas;
  if (work.load.contends()) {
    if (work.resident == 0) {
      ++contenders_;
      judge_contention_ = true;
    }
    work.resident += ctas;
  } else {
    ++in_rows_[head];
  }
  task.pending -= ctas;
  task.resident += ctas;
  changed(head, id, -static_cast<int>(each));
  if (options_.audit) audit_sm(head);
  if (task.started < Time{}) task.started = now_;
  std::uint16_t place = 0;
  if (record_blocks_) {
    place = static_cast<std::uint16_t>(std::countr_one(places_[head]));
    places_[head] |= std::uint64_t{1} << place;
    if (work.next < work.blocks()) work.dispatched[work.next] = dispatch_slot_ + offset;
    dispatch_slot_ += gpu_.dispatch_interval;
  }
  if (task.pending == 0) wdu_.dispatched(id);
  if (work.spreads()) {
    Spread& s = work.spread;
    if (!s.landed) {
      s.landed = true;
      s.filled = now_ + gpu_.dispatch_interval * s.workers;
    }
    const bool stays = work.next < work.blocks() && s.wanted(head);
    s.held[head] += stays;
    s.stayed |= stays;
    work.workers += stays;
    const WorkId of = task.work;
    const bool last = task.pending == 0;
    occupy(id, head, place, 1, stays);
    if (last) seek_places(of);
    return;
  }
  occupy(id, head, place, each, work.workers <= work.ctas);
}

/// CTAs that have their places on a cohort's SMs run the next blocks there; workers that do not stay, none.
inline void ComputeEngine::occupy(TaskId id, std::uint32_t head, std::uint16_t place, std::uint32_t each,
                                  bool stays) {
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
    block = static_cast<std::uint32_t>(work.next);
    work.next += std::uint64_t{each} * cohorts_.size(head);
    duration += work.block_times != nullptr ? (*work.block_times)[block] : work.block_alone;
    if (options_.audit) audit_block(work, block);
    if (work.spreads()) {
      if (options_.audit) audit_quota(work, head);
      ++work.spread.running[head];
    }
    if (record_blocks_) work.starts[block] = now_ + offset;
    if (work.next == work.blocks()) {
      judge_contention_ = true;
      if (work.next == work.record.blocks) {
        work.record.last_block = now_ + offset;
        tell(EngineNotice::Kind::last_block_started, work.record.launch);
      }
    }
    if (cohorts_.together() && work.load.contends()) block = 0;  // nobody asks for its number
  }
  // A block takes some time, however much faster workers were measured than the plain kernel.
  duration = std::max(duration, Time{block == kNoBlock ? 0 : 1});
  if (!work.load.contends()) return occupy_row(id, duration, block, head, place);
  const Time since = work.persistent() && by_age_of_workers(gpu_) ? task.started : now_;
  shared_.add(task, id,
              {duration.count(), since.count(), block, static_cast<std::uint16_t>(head), place, each}, now_);
}

/// The same of a launch that does not contend.
void ComputeEngine::occupy_row(TaskId id, Time duration, std::uint32_t block, std::uint32_t rank,
                               std::uint16_t place) {
  Task& task = tasks_[id.value];
  const Time end = now_ + duration;
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

void ComputeEngine::end_blocks(TaskId id, std::uint32_t head, std::uint32_t block, std::uint16_t place,
                               std::uint32_t count) {
  Task& task = tasks_[id.value];
  Work& work = works_[task.work.value];
  const std::uint32_t sms = cohorts_.size(head), ctas = sms * count;
  if (block != kNoBlock) {
    work.done += ctas;
    blocks_run_ += ctas;
    if (record_blocks_)
      timeline_.record(BlockRecord{work.record.launch, work.record.client, work.record.kernel, block,
                                   gpu_.placement_order[head], place, work.starts[block], now_ + offset,
                                   work.dispatched[block]});
  }
  if (work.spreads()) {
    Spread& s = work.spread;
    if (block != kNoBlock) {
      --s.running[head];
      if (work.next < work.blocks() && s.held[head] <= s.quota[head]) return occupy(id, head, place, 1, true);
      --s.held[head];
      --work.workers;
    }
  } else if (work.persistent()) {
    if (work.next < work.blocks() && work.workers <= work.ctas) return occupy(id, head, place, count, true);
    work.workers -= ctas;
  }
  vacate(id, head, place, count);
  if ((task.resident -= ctas) == 0) {
    refill_ = wdu_.release(id) || refill_;
    if (task.pending == 0) retire(id);
  }
  if (!wdu_.table().empty()) wake_dispatcher();
}

/// So many of its places on each SM of the cohort are free again.
void ComputeEngine::vacate(TaskId id, std::uint32_t head, std::uint16_t place, std::uint32_t count) {
  if (count > 1 && !wanting_.empty()) {  // a launch that wants little sees room before one that wants more
    for (std::uint32_t i = 0; i < count; ++i) vacate(id, head, place, 1);
    return;
  }
  const Task& task = tasks_[id.value];
  Work& work = works_[task.work.value];
  const std::uint32_t sms = cohorts_.size(head), ctas = sms * count;
  free_[head] += count * task.demand;
  if (free_[head].blocks == gpu_.sm.max_blocks) {
    busy_sms_ -= sms;
  }
  resident_warps_ -= ctas * task.demand.warps;
  resident_blocks_ -= ctas;
  if (!work.load.contends()) {
    --in_rows_[head];
  } else if ((work.resident -= ctas) == 0) {
    --contenders_;
    judge_contention_ = true;
  }
  if (record_blocks_) places_[head] &= ~(std::uint64_t{1} << place);
  changed(head, id, static_cast<int>(count));
  if (options_.audit) audit_sm(head);
  if (!wanting_.empty()) look_again(head);
}

// ---- launches end -----------------------------------------------------------------------------------------

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
  std::erase(in_vain_, id);
  std::erase_if(further_, [&](const Further& f) { return f.work == id; });
  const LaunchId launch = work.record.launch;
  energy_ += work.load.energy * static_cast<double>(work.done - work.first);
  if (work.blocks() < work.record.blocks || work.reset) {
    if (work.reset) work.record.redone_blocks += work.next;
    taken_off_.push_back({work.record, work.reset ? 0 : work.done});
    tell(EngineNotice::Kind::taken_off, launch);
  } else {
    timeline_.record(work.record);
    tell(EngineNotice::Kind::kernel_finished, launch);
  }
  work_of_slot_[work.record.launch.slot] = kNoWork;
  gather_ = true;
  if (work.persistent()) --persistent_;
  if (work.spreads()) --spread_;
  work.ran.clear();
  work.spread.quota.clear();  // it spreads no longer; the rest is overwritten by the next launch
  free_works_.push_back(id.value);
  --unfinished_;
}

void ComputeEngine::tell(EngineNotice::Kind kind, LaunchId launch) {
  if (notices_ != nullptr) notices_->push_back({kind, launch});
}

// ---- contention -------------------------------------------------------------------------------------------

void ComputeEngine::judge_contention() {
  if (judge_contention_) {
    judge_contention_ = false;
    const bool contended =
        contenders_ > 1 || in_tail() || below_residency() || uneven() || (contended_ && contenders_ != 0);
    if (contended != contended_) shared_.contend(contended, now_);
    contended_ = contended;
  }
  shared_.settle(now_);
}

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

/// Whether the only launch that contends is all on the GPU, with more blocks on some SMs than on others: those
/// with fewer are done earlier, and the launch takes as long as those with the most (an H200: 46.7 us where an
/// SM has two blocks, 67.1 where it has three, in one launch; experiments/h200/contention, uneven.txt).
bool ComputeEngine::uneven() const {
  if (contenders_ != 1) return false;
  for (const Work& work : works_)
    if (work.resident != 0 && work.load.contends())
      return !work.persistent() && work.next == work.blocks() && work.load.residents > 1 &&
             work.blocks() <= work.load.places && work.blocks() % work.load.sms != 0;
  return false;
}

void ComputeEngine::slow_down(Work& work) {
  const double fast = work.load.alone;
  sim::slow_down(work.load, clock_stretch_, memory_);
  lengthen(work, fast);
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
  lengthen(work, warm);
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

double ComputeEngine::energy() {
  end_solo_early();
  double sum = energy_;
  for (const Work& work : works_)
    if (work.instances != 0 || work.spreads())
      sum += work.load.energy * static_cast<double>(work.done - work.first);
  return sum;
}

double ComputeEngine::dram_use() const {
  if (contended_) return shared_.memory_use().dram;
  double use = 0;
  for (const Work& work : works_)
    if (work.resident != 0)
      use += work.resident * bytes_moved(work.load) / work.load.alone / memory_.read_bytes_per_ps;
  return std::min(1.0, use);
}

// ---- gauges, and the end of the run -----------------------------------------------------------------------

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
