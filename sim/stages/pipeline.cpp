// The path of a block: a launch arrives, its task gets a slot, blocks start, end, and so does the launch.
#include "sim/stages/pipeline.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include <boost/container/small_vector.hpp>

namespace corun::sim {
namespace {

/// Of a launch of more waves than that, blocks are spread over time, and each is started on its own.
constexpr std::uint64_t kFewWaves = 8;

/// Where there are more seats than blocks, workers of one SM take theirs together: all come within half a
/// microsecond, and SMs near the counter ask sooner (the same).
void keep_first(std::vector<std::uint16_t>& quota, std::uint64_t seats) {
  for (std::uint16_t& n : quota) {
    n = static_cast<std::uint16_t>(std::min<std::uint64_t>(n, seats));
    seats -= n;
  }
}

/// How long before the dispatcher gets to them blocks of this launch may start: the time of a block, so that
/// those of a launch of few waves start together.
Time early(const Work& work) {
  const bool few_waves = work.blocks() - work.first <= kFewWaves * work.load.extent.places;
  return work.load.contends() && !work.has_quotas() && few_waves ? work.block_alone : Time{};
}

/// Whether a launch that alone contends goes at other rates than those for which its blocks' time alone is.
bool differs_from_alone(const Work& work) {
  const BlockLoad& load = work.load;
  // On fewer places than that.
  if (work.persistent()) return work.ctas < std::min<std::uint64_t>(load.extent.places, work.blocks());
  if (!work.all_started()) return false;
  // Its last wave leaves places empty from now on.
  if (work.blocks() > load.extent.places) return true;
  // All of it is on the GPU, with more blocks on some SMs than on others: those with fewer are done earlier,
  // and the launch takes as long as those with the most (an H200: 46.7 us where an SM has two blocks, 67.1
  // where it has three, in one launch; experiments/h200/contention, uneven.txt).
  return load.extent.residents > 1 && work.blocks() % load.extent.sms != 0;
}

}  // namespace

Pipeline::Pipeline(const Gpu& gpu, EngineObserver observer, bool shortcuts, bool contention)
    : gpu_(gpu),
      contends_(contention),
      observer_(std::move(observer)),
      dispatcher_(gpu),
      quotas_(gpu.launch_latency),
      sms_(gpu, shortcuts, observer_.records_blocks()),
      contention_(gpu, sms_.cohorts().together()),
      condition_(limits_of(gpu)) {}

// ---- arrival ----------------------------------------------------------------------------------------------

void Pipeline::condition(Work& work) {
  CORUN_EXPECTS(work.record.blocks != 0 && work.last <= work.record.blocks);
  if (work.last == 0) work.last = work.record.blocks;
  work.next = work.done = work.first;
  if (!work.resumed) work.record.slotted = work.record.started = kNever;
  if (!contends_ || !work.load.contends()) return;
  double moved = condition_.moved();
  for (const Work& other : launches_.all())
    if (other.instances != 0 && other.record.client != work.record.client)
      moved += static_cast<double>(other.done) * bytes_moved(other.load);
  condition_.meet(work, moved);
}

void Pipeline::accept(Work&& arrived, std::uint32_t level, const SmMask& allowed, const SmResources& demand) {
  CORUN_EXPECTS(arrived.first < arrived.blocks() && arrived.next == arrived.first);
  CORUN_EXPECTS(!allowed.none() && allowed.minus(sms_.all()).none());
  CORUN_EXPECTS(demand.blocks != 0 && max_active_blocks(capacity_of(gpu_.sm), demand) != 0);
  const WorkId id = launches_.add(std::move(arrived));
  Work& work = launches_[id];
  observer_.launch_began(id, work);
  if (work.load.contends()) contention_.introduce(id, work.load);
  for (const Cohorts::Part& part : sms_.respect(allowed)) single_out(part.head, part.members);
  const std::uint64_t left = work.blocks() - work.first;
  if (!work.has_quotas()) {
    add_task(id, level, allowed, demand, work.persistent() ? std::min<std::uint64_t>(work.ctas, left) : left);
    return;
  }
  const SmMask heads = sms_.cohorts().heads();
  heads.for_each([this](std::uint32_t head) { part_all(head); });
  Spread& s = work.spread;
  s.level = level, s.allowed = allowed, s.demand = demand, s.carveout = carveout_of(demand, gpu_.sm);
  s.workers = allowed.count() * max_active_blocks(capacity_of(gpu_.sm), demand);
  s.quota = sms_.by_rank(s.quota);
  for (std::uint32_t rank = 0; rank < gpu_.sms; ++rank)  // else instances would come without end
    CORUN_EXPECTS(s.quota[rank] == 0 || allowed.test(rank));
  if (gpu_.neighbours_take_together) keep_first(s.quota, left);
  s.held.assign(gpu_.sms, 0);
  s.running.assign(gpu_.sms, 0);
  work.workers = 0;
  add_instance(id);
}

TaskId Pipeline::add_task(WorkId of, std::uint32_t level, const SmMask& allowed, const SmResources& demand,
                          std::uint64_t ctas) {
  Work& work = launches_[of];
  ++work.instances;
  if (work.persistent() && !work.has_quotas()) work.workers += static_cast<std::uint32_t>(ctas);
  Task task;
  task.work = of, task.level = level, task.allowed = allowed, task.demand = demand;
  task.carveout = carveout_of(demand, gpu_.sm);
  task.pending = ctas;
  task.laps = work.load.contends() && !work.has_quotas();
  task.plain = work.block_times == nullptr && !work.persistent() && !work.has_quotas();
  task.early = early(work);
  const TaskId id = tasks_.add(task);
  completions_.introduce(id);
  history_.forget(id);
  dispatcher_.accept(id, task);
  refill();
  return id;
}

void Pipeline::add_instance(WorkId id) {
  Spread& s = launches_[id].spread;
  quotas_.began(id, s, now_);
  add_task(id, s.level, s.allowed, s.demand, s.workers);
}

void Pipeline::refill() {
  to_do_.refill = false;
  const auto record_of = [this](TaskId id) -> KernelRecord& { return launches_[tasks_[id].work].record; };
  const auto [entered, evicted] = dispatcher_.refill(now_, tasks_);
  for (const TaskId id : evicted) ++record_of(id).evictions;
  for (const TaskId id : entered)
    if (record_of(id).slotted == kNever) record_of(id).slotted = now_ + offset_;
}

// ---- time -------------------------------------------------------------------------------------------------

Time Pipeline::next_time() const {
  Time t = std::min(dispatcher_.next_time(), completions_.next_time());
  if (!contention_.empty()) t = std::min(t, contention_.next_time());
  t = std::min(t, quotas_.next_time());
  return t == kNever && quotas_.any_in_vain() ? now_ + Time{1} : t;
}

void Pipeline::advance(Time limit, std::vector<EngineNotice>& notices) {
  CORUN_EXPECTS(limit >= now_);
  notices_ = &notices;
  while (notices.empty()) {
    if (shortcuts()) {
      skip_waves(limit);
      skip_rounds(limit);
    }
    const Time t = next_time();
    if (t > limit || t == kNever) break;
    if (steps_.spent()) {
      notices_ = nullptr;
      return;
    }
    step(t);
  }
  if (notices.empty() && limit != kNever) pass_time(limit);
  notices_ = nullptr;
}

void Pipeline::pass_time(Time to) {
  CORUN_EXPECTS_SLOW(to >= now_);
  sms_.pass_time((to - now_).count());
  now_ = to;
}

void Pipeline::step(Time t) {
  if (observer_.audits()) observer_.check_time(now_, t);
  pass_time(t);
  ++steps_.taken;

  complete(t);
  if (quotas_.any_in_vain())
    for (const WorkId work : quotas_.take_in_vain()) seek(work);
  while (const auto work = quotas_.take_due(now_)) add_instance(*work);
  if (to_do_.refill) refill();
  if (to_do_.merge) merge_alike();
  if (dispatcher_.next_time() <= now_) dispatch();
  settle();
  if (!observer_.looks_away()) observe();
}

// ---- complete ---------------------------------------------------------------------------------------------

void Pipeline::complete(Time t) {
  const bool leading = completions_.leading_due(t);
  if (!contention_.empty()) contention_.take_ended(t, sms_.cohorts());
  if (!contention_.ended().empty() || completions_.next_queued() == t)
    complete_in_order(leading);
  else if (leading)
    complete_fifo(*completions_.leading());
}

/// What ends at one instant does so in the order in which the tasks arrived, however their blocks are kept:
/// kernels that end together are told in that order, and a persistent worker meets the neighbours that have
/// not ended yet.
void Pipeline::complete_in_order(bool leading) {
  const std::vector<ContentionModel::Ended>& contending = contention_.ended();
  if (sms_.cohorts().together() && launches_.persistent() != 0) part_what_ends();
  if (contending.size() == 1 && !leading && completions_.next_queued() != now_) {  // as a rule
    const ContentionModel::Ended e = contending.front();
    contention_.completed_all();
    return end_blocks(e.task, e.head, e.number, e.place, e.count);
  }
  struct Due {
    std::uint64_t arrival;
    bool stray;
    std::uint32_t head, index;
    bool contends;
  };
  boost::container::small_vector<CompletionQueue::Due, 16> fixed;
  completions_.take_due(now_, leading, [&](const CompletionQueue::Due& d) { fixed.push_back(d); });
  boost::container::small_vector<Due, 64> due;
  for (std::uint32_t i = 0; i < fixed.size(); ++i)
    due.push_back({tasks_[fixed[i].task].arrival, fixed[i].stray.has_value(), 0, i, false});
  for (std::uint32_t i = 0; i < contending.size(); ++i)
    due.push_back({tasks_[contending[i].task].arrival, false, contending[i].head, i, true});
  const auto before = [](const Due& a, const Due& b) {
    return std::tie(a.arrival, a.stray, a.head) < std::tie(b.arrival, b.stray, b.head);
  };
  if (!std::is_sorted(due.begin(), due.end(), before)) std::stable_sort(due.begin(), due.end(), before);
  for (const Due& d : due) {
    if (d.contends) {
      const ContentionModel::Ended e = contention_.complete(d.index);
      end_blocks(e.task, e.head, e.number, e.place, e.count);
    } else if (d.stray) {
      const CompletionQueue::Resident r = completions_.take_stray(*fixed[d.index].stray);
      end_blocks(fixed[d.index].task, r.rank, r.block, r.place, 1);
    } else {
      // It leads first: a worker's next block may start before the list is through, and is no event then.
      completions_.lead(fixed[d.index].task);
      complete_fifo(fixed[d.index].task);
    }
  }
  contention_.completed_all();
}

void Pipeline::complete_fifo(TaskId id) {
  while (const auto resident = completions_.pop(id, now_))
    end_blocks(id, resident->rank, resident->block, resident->place, 1);
}

void Pipeline::end_blocks(TaskId id, std::uint32_t head, std::uint32_t block, std::uint16_t place,
                          std::uint32_t count) {
  Task& task = tasks_[id];
  Work& work = launches_[task.work];
  const std::uint32_t ctas = sms_.cohorts().size(head) * count;
  // Workers wait as long as blocks of their kernel would in their place, which is less on few SMs than on all.  Did they leave before
  // all have a place, they might take it again and again.
  if (block == kNoBlock && work.has_quotas() && work.spread.newest != Spread::Newest::stayed && !work.all_started() && work.spread.filled > now_)
    return occupy(id, head, place, count, false);
  if (block != kNoBlock) {
    work.done += ctas;
    blocks_run_ += ctas;
    observer_.block_ended(task.work, work, block, head, place, now_ + offset_);
  }
  if (work.has_quotas()) {
    Spread& s = work.spread;
    if (block != kNoBlock) {
      --s.running[head];
      if (!work.all_started() && s.held[head] <= s.quota[head]) return occupy(id, head, place, 1, true);
      --s.held[head];
      --work.workers;
    }
  } else if (work.persistent()) {
    if (!work.all_started() && work.workers <= work.ctas) return occupy(id, head, place, count, true);
    work.workers -= ctas;
  }
  vacate(id, head, place, count);
  if ((task.resident -= ctas) == 0) {
    to_do_.refill = dispatcher_.release(id, tasks_) || to_do_.refill;
    if (task.pending == 0) retire(id);
  }
  dispatcher_.wake_if_any(now_);
}

/// `count` of its places on each SM of the cohort are free again.
void Pipeline::vacate(TaskId id, std::uint32_t head, std::uint16_t place, std::uint32_t count) {
  if (count > 1 && quotas_.any_wants()) {  // a launch that wants little sees room before one that wants more
    for (std::uint32_t i = 0; i < count; ++i) vacate(id, head, place, 1);
    return;
  }
  const Task& task = tasks_[id];
  Work& work = launches_[task.work];
  const bool contends = work.load.contends();
  sms_.give_back(head, task.demand, place, count, !contends);
  if (contends && (work.resident -= sms_.cohorts().size(head) * count) == 0) to_do_.judge = true;
  residents_changed(head, id, static_cast<int>(count));
  if (observer_.audits()) observer_.check_sm(sms_, head);
  if (!quotas_.any_wants()) return;
  const auto& wanting = quotas_.wanting();  // which looking again changes
  for (const WorkId wants : boost::container::small_vector<WorkId, 8>(wanting.begin(), wanting.end()))
    if (launches_[wants].spread.wanted(head)) seek(wants);
}

void Pipeline::retire(TaskId id) {
  const WorkId of = tasks_[id].work;
  completions_.end(id);
  tasks_.remove(id);
  Work& work = launches_[of];
  if (--work.instances != 0) return;
  // All its workers may have left or landed wrong before others are there.
  if (!work.has_quotas() || work.done == work.blocks() || work.reset) return finish(of);
  if (!work.spread.trying) seek(of);
}

void Pipeline::finish(WorkId id) {
  Work& work = launches_[id];
  if (const auto partner = work.partner) {
    if (launches_[*partner].instances != 0) return;
    launches_[*partner].partner.reset();
    work.partner.reset();
    finish(*partner);
  }
  KernelRecord& record = work.record;
  record.finished = now_ + offset_;
  if (observer_.audits()) audit_end(work);
  condition_.ended(work);
  quotas_.forget(id);
  if (work.blocks() < record.blocks || work.reset) {
    if (work.reset) record.redone_blocks += work.next;
    launches_.keep({record, work.reset ? 0 : work.done});
    tell(EngineNotice::Kind::taken_off, record.launch);
  } else {
    observer_.launch_ended(id, work, now_);
    tell(EngineNotice::Kind::kernel_finished, record.launch);
  }
  to_do_.merge = true;
  launches_.remove(id);
}

// ---- dispatch ---------------------------------------------------------------------------------------------

void Pipeline::dispatch() {
  auto choice = dispatcher_.choose(tasks_, sms_);
  while (choice && dispatcher_.free() <= now_ + tasks_[choice->task].early) {
    dispatcher_.begin_slots(now_);
    dispatcher_.started(start(*choice), now_);
    choice = dispatcher_.choose(tasks_, sms_);
  }
  dispatcher_.rest_until(choice ? dispatcher_.free() : kNever);
}

/// Launches that do not contend, or have a number of CTAs per SM, go block by block.  Of others each of the
/// SMs with the most room takes a block at this instant: a lap.  Further laps follow at once while they are
/// early enough.  Returns how many blocks have started.
std::uint32_t Pipeline::start(const Dispatcher::Choice& choice) {
  const TaskId id = choice.task;
  const Task& task = tasks_[id];
  const Work& work = launches_[task.work];
  const Cohorts& cohorts = sms_.cohorts();
  const std::uint64_t most = work.persistent() ? work.blocks() - work.next : ~std::uint64_t{0};
  const Dispatcher::Lap lap = dispatcher_.lap(choice, task, most, work.alike(), cohorts, now_);
  if (lap.whole_cohorts) {
    lap.heads.for_each(
        [&](std::uint32_t head) { start_blocks(id, head, dispatcher_.free_at(id, head) - lap.leaves); });
    return lap.blocks;
  }
  if (lap.blocks == 1) {  // a cohort's head is its first SM
    const std::uint32_t first = lap.heads.first();
    SmMask one;
    one.set(first);
    if (work.alike() < 1)
      lap.heads.for_each([&](std::uint32_t head) { part_all(head); });
    else
      single_out(first, one);
    start_blocks(id, first, 1);
    return 1;
  }
  SmMask all;
  lap.heads.for_each([&](std::uint32_t head) { all |= cohorts.members(head); });
  all = all.first(lap.blocks);
  if (lap.blocks > work.alike()) {
    lap.heads.for_each([&](std::uint32_t head) { part_all(head); });
    all.for_each([&](std::uint32_t rank) { start_blocks(id, rank, 1); });
  } else {
    lap.heads.for_each([&](std::uint32_t head) {
      const SmMask part = cohorts.members(head) & all;
      if (!part.none()) start_blocks(id, single_out(head, part), 1);
    });
  }
  return lap.blocks;
}

/// Each SM of the cohort takes `each` CTAs of the task.
void Pipeline::start_blocks(TaskId id, std::uint32_t head, std::uint32_t each) {
  if (!sms_.cohorts().together() && each > 1) {
    for (std::uint32_t i = 0; i < each; ++i) start_blocks(id, head, 1);
    return;
  }
  Task& task = tasks_[id];
  Work& work = launches_[task.work];
  const std::uint32_t ctas = sms_.cohorts().size(head) * each;
  const bool contends = work.load.contends();
  const std::uint16_t place = sms_.take(head, task.demand, task.carveout, each, !contends);
  if (contends) {
    if (work.resident == 0) to_do_.judge = true;
    work.resident += ctas;
  }
  task.pending -= ctas;
  task.resident += ctas;
  residents_changed(head, id, -static_cast<int>(each));
  if (observer_.audits()) observer_.check_sm(sms_, head);
  if (observer_.records_blocks())
    observer_.block_dispatched(task.work, work, dispatcher_.take_slot() + offset_);
  if (task.started < Time{}) task.started = now_;
  if (task.pending == 0) dispatcher_.all_dispatched(id);
  if (!work.has_quotas()) return occupy(id, head, place, each, work.workers <= work.ctas);

  Spread& s = work.spread;
  if (s.newest == Spread::Newest::waiting) {
    s.newest = Spread::Newest::landed;
    s.filled = now_ + gpu_.dispatch_interval * s.workers;
  }
  const bool stays = !work.all_started() && s.wanted(head);
  s.held[head] += stays;
  if (stays) s.newest = Spread::Newest::stayed;
  work.workers += stays;
  const WorkId of = task.work;
  const bool last = task.pending == 0;
  occupy(id, head, place, 1, stays);
  if (last) seek(of);
}

/// CTAs that have their places on a cohort's SMs run the next blocks there; workers that do not stay, none.
void Pipeline::occupy(TaskId id, std::uint32_t head, std::uint16_t place, std::uint32_t each, bool stays) {
  Task& task = tasks_[id];
  Work& work = launches_[task.work];
  const bool contends = work.load.contends();
  Time duration = work.per_task;
  std::uint32_t block = kNoBlock;
  if (work.has_quotas() && !stays) {
    // It holds its place until all have one: a place given back at once would be the most roomy one for the
    // next worker, and the SMs that are wanted might never be reached.
    duration = gpu_.retreat;
    if (!work.all_started() && work.spread.filled > now_) duration += work.spread.filled - now_;
  } else if (!work.all_started() && (!work.persistent() || stays)) {
    KernelRecord& record = work.record;
    if (record.started == kNever) {
      record.started = now_ + offset_;
      observer_.first_block(task.work, now_);
    }
    block = static_cast<std::uint32_t>(work.next);
    work.next += std::uint64_t{each} * sms_.cohorts().size(head);
    duration += work.block_times != nullptr ? (*work.block_times)[block] : work.block_alone;
    observer_.block_started(task.work, work, block, head, now_ + offset_);
    if (work.has_quotas()) ++work.spread.running[head];
    if (work.all_started()) {
      to_do_.judge = true;
      if (work.next == record.blocks) {
        record.last_block = now_ + offset_;
        if (work.tells_last) tell(EngineNotice::Kind::last_block_started, record.launch);
      }
    }
    if (sms_.cohorts().together() && contends) block = 0;  // nobody asks for its number
  }
  // A block takes some time, however much faster workers were measured than the plain kernel.
  duration = std::max(duration, Time{block == kNoBlock ? 0 : 1});
  const auto rank = static_cast<std::uint16_t>(head);
  if (!contends) return completions_.add(id, {(now_ + duration).count(), block, rank, place}, duration);
  const Time since = work.persistent() && by_age_of_workers(gpu_) ? task.started : now_;
  contention_.add(id, task.work, {duration.count(), since.count(), block, rank, place, each}, sms_.cohorts(),
                  now_);
}

/// An SM has gained or lost blocks of task `by`: that task knows what this means for its own room.
inline void Pipeline::residents_changed(std::uint32_t rank, TaskId by, int difference) {
  history_.changed(by, now_);
  const bool current = dispatcher_.knows_all(by, sms_);
  sms_.note_change(rank);
  if (current && tasks_[by].pending != 0) dispatcher_.change_free(by, rank, difference, sms_);
}

// ---- settle -----------------------------------------------------------------------------------------------

void Pipeline::settle() {
  if (to_do_.judge) {
    to_do_.judge = false;
    const auto present = contention_.present();
    const bool contended =
        contends_ &&
        (present.size() > 1 ||
         (present.size() == 1 && (contention_.contended() || differs_from_alone(launches_[present.front()]))));
    contention_.contend(contended, now_, sms_.cohorts());
  }
  contention_.settle(now_, sms_.cohorts(), observer_.losses());
}

}  // namespace corun::sim
