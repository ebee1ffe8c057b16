// How launches leave the GPU before their end: stopped between blocks, or killed.  And padded pairs.
#include "sim/stages/compute_engine.h"

#include <algorithm>

namespace corun::sim {

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
  std::erase(in_vain_, id);
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
  const auto leave = [&](TaskId id, std::uint32_t head, std::uint32_t block, std::uint16_t place,
                         std::uint32_t count) {
    Work& w = works_[work.value];
    if (w.spreads() && block != kNoBlock) {
      --w.spread.running[head];
      --w.spread.held[head];
      --w.workers;
    }
    vacate(id, head, place, count);
    tasks_[id.value].resident -= cohorts_.size(head) * count;
  };
  if (works_[work.value].resident != 0) {
    std::vector<SharedSms::Ended> gone;
    shared_.remove(work, now_, gone);
    for (const SharedSms::Ended& e : gone) leave(e.task, e.head, e.number, e.place, e.count);
  }
  for (std::uint32_t i = 0; i < tasks_.size(); ++i) {
    Row& row = rows_[i];
    if (row.empty() || !its({i})) continue;
    for (std::uint32_t k = 0; k < row.size(); ++k)
      leave({i}, row.at(k).rank, row.at(k).block, row.at(k).place, 1);
    row.clear();
    row_queued_[i] = false;
    ++row_generation_[i];
    tasks_[i].uniform = 0;
  }
  for (Stray& stray : strays_) {
    if (stray.gone || !its(stray.task)) continue;
    leave(stray.task, stray.resident.rank, stray.resident.block, stray.resident.place, 1);
    stray.gone = true;
  }
}

TakenOff ComputeEngine::collect(LaunchId launch) {
  const auto found = std::find_if(taken_off_.begin(), taken_off_.end(),
                                  [&](const TakenOff& t) { return t.record.launch == launch; });
  TakenOff off = *found;
  taken_off_.erase(found);
  return off;
}

}  // namespace corun::sim
