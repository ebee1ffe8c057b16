// What comes from outside: launches that are resized, stopped, killed or padded, SMs that part and meet, and
// questions.
#include <algorithm>
#include <array>

#include <boost/container/small_vector.hpp>
#include <boost/container/static_vector.hpp>

#include "sim/stages/pipeline.h"

namespace corun::sim {
namespace {

/// Of DRAM's use, from which a launch of a stream finds that others move bytes: measured from 0.15 on.
constexpr double kMovesDram = 0.05;

}  // namespace

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
  const auto instance = std::ranges::find_if(
      tasks_.all(), [&](const Task& t) { return (t.pending != 0 || t.resident != 0) && t.work == *id; });
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
  if (grow && !s.trying && quotas_.seek(*id, work, place_left(s), now_, true)) add_instance(*id);
  // Not one CTA may be left until the others come: it must not look like a plain launch.
  launches_[*id].ctas = std::max(1u, launches_[*id].ctas);
}

/// Whether a worker more of a launch with CTAs per SM could stay somewhere.
bool Pipeline::place_left(const Spread& spread) const {
  for (std::uint32_t rank = 0; rank < spread.held.size(); ++rank)
    if (spread.wanted(rank) && sms_.free_places(rank, spread.demand, spread.carveout) > 0) return true;
  return false;
}

void Pipeline::seek(WorkId id) {
  Work& work = launches_[id];
  const bool needed = !work.all_started() && work.spread.missing();
  quotas_.seek(id, work, needed && place_left(work.spread), now_);
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
  for (const Work& work : launches_.all()) {
    if (work.instances == 0 && !work.has_quotas() && !work.partner) continue;
    KernelRecord record = work.record;
    if (work.next != record.blocks) record.last_block = kNever;
    record.finished = kNever;
    observer_.launch_ended(record);
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
  if (sms_.cohorts().size(head) == 1) return;
  const SmMask members = sms_.cohorts().members(head);
  members.for_each([&](std::uint32_t rank) {
    if (rank == head) return;
    SmMask one;
    one.set(rank);
    single_out(head, one);
  });
}

/// Workers whose blocks end now, and of whom some go on and others leave, go apart as far as they do.
void Pipeline::part_what_ends() {
  struct Parting {
    WorkId work;
    std::uint64_t ending;
    bool several;  // at one place, where they may go apart
  };
  boost::container::small_vector<Parting, 8> parting;
  for (const ContentionModel::Ended& e : contention_.ended()) {
    const WorkId work = tasks_[e.task].work;
    if (!launches_[work].persistent()) continue;
    auto found = std::ranges::find(parting, work, &Parting::work);
    if (found == parting.end()) found = parting.insert(parting.end(), {work, 0, false});
    const std::uint64_t here = std::uint64_t{sms_.cohorts().size(e.head)} * e.count;
    found->ending += here;
    found->several |= here > 1;
  }
  for (const auto& [work, ending, several] : parting)
    if (several && ending > launches_[work].alike()) part_workers(work);
}

/// In their order the first leave while there are more than wanted, the next go on while there are blocks,
/// and the last leave.
void Pipeline::part_workers(WorkId id) {
  const Work& work = launches_[id];
  const std::vector<ContentionModel::Ended>& ended = contention_.ended();
  const Cohorts& cohorts = sms_.cohorts();
  const bool each = work.has_quotas() || work.block_times != nullptr;
  const std::uint64_t blocks = work.blocks() - work.next;
  if (blocks == 0 && !each) return;  // all leave
  const std::uint64_t go_on = work.workers > work.ctas ? work.workers - work.ctas : 0;
  const auto fate = [&](std::uint64_t at) { return at < go_on ? 0u : at < go_on + blocks ? 1u : 2u; };

  boost::container::small_vector<TaskId, 8> instances;  // in the order of their arrival
  for (const ContentionModel::Ended& e : ended)
    if (tasks_[e.task].work == id && std::ranges::find(instances, e.task) == instances.end())
      instances.push_back(e.task);
  std::ranges::sort(instances, {}, [this](TaskId task) { return tasks_[task].arrival; });
  std::uint64_t before = 0;
  for (const TaskId task : instances) {
    std::array<std::uint32_t, kMaxSms> ending{};  // by rank
    SmMask members;
    for (const ContentionModel::Ended& e : ended) {
      if (e.task != task) continue;
      members |= cohorts.members(e.head);
      cohorts.members(e.head).for_each([&](std::uint32_t rank) { ending[rank] += e.count; });
    }
    std::array<SmMask, 3> alike;
    SmMask apart;  // of whose workers some go on
    members.for_each([&](std::uint32_t rank) {
      const std::uint64_t last = before + ending[rank] - 1;
      if (each || fate(before) != fate(last))
        apart.set(rank);
      else
        alike[fate(before)].set(rank);
      before = last + 1;
    });
    for (const SmMask& of : alike)
      (cohorts.heads() & members).for_each([&](std::uint32_t head) {
        part_ended(head, cohorts.members(head) & of);
      });
    (cohorts.heads() & members).for_each([&](std::uint32_t head) {
      const SmMask singly = cohorts.members(head) & apart;
      singly.for_each([&](std::uint32_t rank) {
        SmMask one;
        one.set(rank);
        if (rank != head) part_ended(head, one);
      });
    });
    // Of an SM where some go on, worker by worker.
    contention_.end_singly(task, apart);
  }
}

/// The members in `part`, if there are any and others, become a cohort of their own, of which the same ends.
void Pipeline::part_ended(std::uint32_t head, const SmMask& part) {
  const SmMask members = sms_.cohorts().members(head);
  if (part.none() || part == members) return;
  single_out(head, part);
  contention_.end_at_both(head, (part.test(head) ? members.minus(part) : part).first());
}

/// SMs that have become alike become one cohort again.  Only those that have changed can have.
void Pipeline::merge_alike() {
  to_do_.merge = false;
  const Cohorts& cohorts = sms_.cohorts();
  if (!cohorts.together() || launches_.with_quotas() != 0) return;  // numbers per SM tell SMs apart
  const SmMask changed = sms_.take_touched() & cohorts.heads();
  struct Seen {
    std::uint64_t key;  // of those that are alike the same
    std::uint16_t head;
  };
  boost::container::static_vector<Seen, kMaxSms> seen;
  std::array<std::uint16_t, std::size_t{2} * kMaxSms> places{};  // by key: number in `seen`, from 1; 0: free
  const boost::container::static_vector<std::uint16_t, kMaxSms> list(cohorts.list().begin(),
                                                                     cohorts.list().end());
  for (const std::uint16_t head : list) {
    const SmResources& free = sms_.free()[head];
    const std::uint64_t room = (std::uint64_t{free.registers} << 32 | free.shared_memory) + free.warps;
    const std::uint64_t key = (room ^ contention_.signature(head)) * 0x9e3779b97f4a7c15u;
    const auto like = [&](const Seen& other) {
      return other.key == key && (changed.test(head) || changed.test(other.head)) &&
             cohorts.may_merge(other.head, head) && sms_.alike(other.head, head) &&
             (sms_.empty(head) || contention_.alike(other.head, head, now_));
    };
    std::size_t at = key >> 55;
    while (places[at] != 0 && !like(seen[places[at] - 1u])) at = (at + 1) % places.size();
    if (places[at] != 0) {
      const std::uint16_t first = seen[places[at] - 1u].head;
      contention_.merge(head);
      sms_.merge(first, head);
    } else {
      seen.push_back({key, head});
      places[at] = static_cast<std::uint16_t>(seen.size());
    }
  }
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
        std::min(task.resident + task.pending, of * max_active_blocks(capacity_of(gpu_.sm), task.demand));
    threads += blocks * task.demand.threads * (task.allowed & sms).count() / of;
  }
  return threads;
}

/// A launch takes longer while others run, one of a graph where another stream's came before it: the front
/// end looks at one stream at a time, and what it reads for a launch waits in the memory with everything
/// else, but not in the SMs' own queues.
Time Pipeline::launch_delay(bool in_graph, bool after_others) const {
  const Contention& c = gpu_.contention;
  if (!contends_) return Time{};
  Time delay = in_graph && after_others ? c.graph_launch_after_others : Time{};
  if (contention_.present().empty()) return delay;
  if (!in_graph) delay += c.launch_beside_others;
  const double accesses = in_graph ? c.graph_launch_memory_accesses : c.launch_memory_accesses;
  CORUN_EXPECTS(accesses >= 0);
  if (accesses == 0 && c.launch_beside_memory == Time{}) return delay;
  const MemoryUse memory = contention_.memory_for_another();
  if (!in_graph && memory.dram >= kMovesDram) delay += c.launch_beside_memory;
  double wait = static_cast<double>(c.dram_latency.count()) * (memory.latency_inflation - 1);
  if (c.launch_access_most_wait > Time{})
    wait = std::min(wait, static_cast<double>(c.launch_access_most_wait.count()));
  return delay + Time{static_cast<std::int64_t>(accesses * wait)};
}

double Pipeline::energy() const {
  double sum = condition_.energy();
  for (const Work& work : launches_.all())
    if (work.instances != 0 || work.has_quotas())
      sum += work.load.sm.energy_pj * static_cast<double>(work.done - work.first);
  return sum;
}

UndisturbedRun Pipeline::last_run(Time since, SmArray::Integral sm_ps, SmArray::Integral warp_ps) const {
  const Time from = since + offset_;
  const LaunchTable::Course& last = launches_.last();
  return {last.started - from,        last.last_block - from, last.finished - from,
          dispatcher_.free() - since, sms_.sm_ps() - sm_ps,   sms_.warp_ps() - warp_ps};
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
