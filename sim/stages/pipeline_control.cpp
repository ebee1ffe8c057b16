// What comes from outside: launches that are resized, stopped, killed or padded, SMs that part and meet, and
// questions.
#include <algorithm>

#include <boost/container/static_vector.hpp>

#include "sim/stages/pipeline.h"

namespace corun::sim {

// ---- sizes ------------------------------------------------------------------------------------------------

void Pipeline::resize(LaunchId launch, std::uint32_t ctas) {
  CORUN_EXPECTS(ctas != 0);
  const auto id = launches_.find(launch);
  if (!id || launches_[*id].all_started()) return;
  CORUN_EXPECTS(launches_[*id].persistent() && !launches_[*id].has_quotas());
  Work& work = launches_[*id];
  work.ctas = ctas;
  to_do_.judge = true;
  if (work.workers >= ctas) return;
  const auto instance = std::ranges::find_if(tasks_.all(), [&](const Task& t) {
    return (t.pending != 0 || t.resident != 0) && t.work == *id;
  });
  const Task like = *instance;
  const std::uint64_t more = std::min<std::uint64_t>(ctas - work.workers, work.blocks() - work.next);
  add_task(like.work, like.level, like.allowed, like.demand, more);
}

void Pipeline::resize(LaunchId launch, const std::vector<std::uint16_t>& ctas_per_sm, bool grow) {
  const auto id = launches_.find(launch);
  if (!id || !launches_[*id].has_quotas() || launches_[*id].all_started()) return;
  Work& work = launches_[*id];
  const std::vector<std::uint16_t> ranked = sms_.by_rank(ctas_per_sm);
  Spread& s = work.spread;
  work.ctas = 0;
  for (std::uint32_t rank = 0; rank < gpu_.sms; ++rank) {
    CORUN_EXPECTS(ranked[rank] == 0 || s.allowed.test(rank));
    s.quota[rank] = grow ? ranked[rank] : std::min(s.quota[rank], ranked[rank]);
    work.ctas += s.quota[rank];
  }
  to_do_.judge = true;
  if (grow && !s.trying && quotas_.seek(*id, work, sms_, now_, true)) add_instance(*id);
  // Not one CTA may be left until the others come: it must not look like a plain launch.
  launches_[*id].ctas = std::max(1u, launches_[*id].ctas);
}

// ---- leaving before the end -------------------------------------------------------------------------------

void Pipeline::pair_up(LaunchId launch, LaunchId padding) {
  const auto a = launches_.find(launch), b = launches_.find(padding);
  CORUN_EXPECTS(a && b && a != b);
  CORUN_EXPECTS(!launches_[*a].partner && !launches_[*b].partner);
  launches_[*a].partner = *b;
  launches_[*b].partner = *a;
}

bool Pipeline::take_off(LaunchId launch, bool reset, bool kill) {
  CORUN_EXPECTS(reset || !kill);  // what a killed block has done is void
  const auto found = launches_.find(launch);
  if (!found || (!kill && launches_[*found].all_started())) return false;
  const WorkId id = *found;
  Work& work = launches_[id];
  if (!kill) work.last = work.next;
  work.reset = work.reset || reset;
  quotas_.forget(id);
  std::vector<TaskId> instances;
  for (std::uint32_t i = 0; i < tasks_.size(); ++i) {
    Task& task = tasks_[{i}];
    if (task.work != id || (task.pending == 0 && task.resident == 0)) continue;
    instances.push_back({i});
    if (task.pending == 0) continue;
    dispatcher_.forget({i}, task);
    if (work.persistent() && !work.has_quotas()) work.workers -= static_cast<std::uint32_t>(task.pending);
    task.pending = 0;
  }
  if (kill) vacate_all(id);
  const std::uint32_t before = launches_.unfinished();
  for (const TaskId instance : instances) {
    if (tasks_[instance].resident != 0) continue;
    to_do_.refill = dispatcher_.release(instance, tasks_) || to_do_.refill;
    retire(instance);
  }
  if (instances.empty()) finish(id);  // its workers had not found their places
  if (to_do_.refill) refill();
  dispatcher_.wake_if_any(now_);
  settle();
  return launches_.unfinished() < before;
}

/// All blocks of a launch leave their SMs.
void Pipeline::vacate_all(WorkId id) {
  Work& work = launches_[id];
  const auto leave = [&](TaskId of, std::uint32_t head, std::uint32_t block, std::uint16_t place,
                         std::uint32_t count) {
    if (work.has_quotas() && block != kNoBlock) {
      --work.spread.running[head];
      --work.spread.held[head];
      --work.workers;
    }
    vacate(of, head, place, count);
    tasks_[of].resident -= sms_.cohorts().size(head) * count;
  };
  if (work.resident != 0) {
    std::vector<ContentionModel::Ended> gone;
    contention_.remove(id, now_, sms_.cohorts(), gone);
    for (const ContentionModel::Ended& e : gone) leave(e.task, e.head, e.number, e.place, e.count);
  }
  for (std::uint32_t i = 0; i < tasks_.size(); ++i) {
    if (tasks_[{i}].work != id) continue;
    std::vector<CompletionQueue::Resident> gone;
    completions_.remove({i}, gone);
    for (const CompletionQueue::Resident& r : gone) leave({i}, r.rank, r.block, r.place, 1);
  }
}

void Pipeline::close() {
  for (Work& work : launches_.all()) {
    if (work.instances == 0 && !work.has_quotas() && !work.partner) continue;
    if (work.next != work.record.blocks) work.record.last_block = kNever;
    work.record.finished = kNever;
    observer_.launch_ended(work.record);
  }
}

// ---- cohorts ----------------------------------------------------------------------------------------------

/// The members in `part` become a cohort of their own.  Returns its head.
std::uint32_t Pipeline::single_out(std::uint32_t head, const SmMask& part) {
  if (part == sms_.cohorts().members(head)) return head;
  const std::uint32_t other = sms_.split(head, part);
  contention_.split(head, other);
  return part.test(head) ? head : other;
}

/// Each SM on its own.
void Pipeline::part_all(std::uint32_t head) {
  const SmMask members = sms_.cohorts().members(head);
  members.for_each([&](std::uint32_t rank) {
    if (rank == head) return;
    SmMask one;
    one.set(rank);
    single_out(head, one);
  });
}

/// Workers whose blocks end now, and who may go different ways, go SM by SM.
void Pipeline::part_what_ends() {
  std::vector<ContentionModel::Ended>& ended = contention_.ended();
  const Cohorts& cohorts = sms_.cohorts();
  SmMask heads;
  for (const ContentionModel::Ended& e : ended) {
    const WorkId id = tasks_[e.task].work;
    if (!launches_[id].persistent() || heads.test(e.head)) continue;
    std::uint64_t ending = 0;
    for (const ContentionModel::Ended& other : ended)
      if (tasks_[other.task].work == id) ending += std::uint64_t{cohorts.size(other.head)} * other.count;
    if (launches_[id].may_part(ending)) heads.set(e.head);
  }
  if (heads.none()) return;
  std::vector<ContentionModel::Ended> apart;
  for (const ContentionModel::Ended& e : ended) {
    if (!heads.test(e.head)) {
      apart.push_back(e);
      continue;
    }
    cohorts.members(e.head).for_each([&](std::uint32_t rank) {
      for (std::uint32_t i = 0; i < e.count; ++i) {
        apart.push_back(e);
        apart.back().head = static_cast<std::uint16_t>(rank);
        apart.back().count = 1;
      }
    });
  }
  heads.for_each([this](std::uint32_t head) { part_all(head); });
  ended.swap(apart);
}

/// SMs that have become alike become one cohort again.  Only those that have changed can have.
void Pipeline::merge_alike() {
  to_do_.merge = false;
  const Cohorts& cohorts = sms_.cohorts();
  if (!cohorts.together() || launches_.with_quotas() != 0) return;  // numbers per SM tell SMs apart
  const SmMask changed = sms_.take_touched() & cohorts.heads();
  const boost::container::static_vector<std::uint16_t, kMaxSms> list(cohorts.list().begin(),
                                                                     cohorts.list().end());
  changed.for_each([&](std::uint32_t head) {
    for (const std::uint32_t other : list) {
      if (!cohorts.heads().test(head)) return;
      if (other < head && changed.test(other)) continue;  // it was compared with this one
      if (other == head || !cohorts.heads().test(other) || !cohorts.may_join(head, other)) continue;
      if (!sms_.alike(head, other) || !(sms_.empty(head) || contention_.alike(head, other, now_))) continue;
      const auto [first, second] = std::minmax(head, other);
      contention_.join(second);
      sms_.join(first, second);
    }
  });
}

// ---- questions --------------------------------------------------------------------------------------------

std::uint64_t Pipeline::blocks_done(LaunchId launch) const {
  const auto id = launches_.find(launch);
  return id ? launches_[*id].done : 0;
}

std::uint32_t Pipeline::resident_blocks(LaunchId launch) const {
  const auto id = launches_.find(launch);
  if (!id) return 0;
  std::uint32_t n = 0;
  for (const Task& task : tasks_.all())
    if (task.resident != 0 && task.work == *id) n += task.resident;
  return n;
}

std::uint64_t Pipeline::threads_on(const SmMask& sms) const {
  std::uint64_t threads = 0;
  for (const Task& task : tasks_.all()) {
    if (task.resident + task.pending == 0) continue;
    const std::uint64_t of = task.allowed.count();
    const std::uint64_t blocks =
        std::min(task.resident + task.pending, of * room(capacity_of(gpu_.sm), task.demand));
    threads += blocks * task.demand.threads * (task.allowed & sms).count() / of;
  }
  return threads;
}

/// A launch takes longer while others run: the front end looks at one stream at a time, and what it reads for
/// a launch waits in the memory with everything else.
Time Pipeline::launch_delay() const {
  if (contention_.present().empty()) return Time{};
  const Contention& c = gpu_.contention;
  return c.launch_beside_others +
         Time{static_cast<std::int64_t>(contention_.longer(c.launch_memory_accesses))};
}

double Pipeline::energy() const {
  double sum = condition_.energy();
  for (const Work& work : launches_.all())
    if (work.instances != 0 || work.has_quotas())
      sum += work.load.energy * static_cast<double>(work.done - work.first);
  return sum;
}

UndisturbedRun Pipeline::last_run(Time since, std::int64_t sm_ps, std::int64_t warp_ps) const {
  const Time from = since + offset_;
  const LaunchTable::Course& last = launches_.last();
  return {last.started - from,  last.last_block - from,  last.finished - from, dispatcher_.free() - since,
          sms_.sm_ps() - sm_ps, sms_.warp_ps() - warp_ps};
}

void Pipeline::observe() {
  if (observer_.records_gauges())
    observer_.gauge(now_, now_ + offset_, dispatcher_.waiting(), dispatcher_.used_slots(), sms_,
                    contention_.dram_use());
  if (observer_.audits() && dispatcher_.next_time() == kNever)
    observer_.check_dispatcher_rests(dispatcher_.table(), tasks_, sms_);
}

void Pipeline::audit_end(const Work& work) const {
  std::vector<SmResources> free(gpu_.sms, capacity_of(gpu_.sm));
  std::uint32_t dispatched = 0;
  for (std::uint32_t i = 0; i < tasks_.size(); ++i)
    dispatched += !tasks_.removed({i}) && tasks_[{i}].pending == 0;
  const auto runs_on = [&](std::uint32_t rank, TaskId id) { free[rank] -= tasks_[id].demand; };
  completions_.for_each([&](TaskId id, const CompletionQueue::Resident& r) { runs_on(r.rank, id); });
  contention_.for_each(runs_on);
  for (const ContentionModel::Ended& e : contention_.ended())  // at this instant, not yet seen to
    if (e.task.value < tasks_.size()) runs_on(e.head, e.task);
  observer_.check_end(work, free, sms_, std::max(dispatched, dispatcher_.used_slots()));
}

}  // namespace corun::sim
