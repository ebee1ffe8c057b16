// What must hold after every event, checked under --audit: time does not go back, every block runs once, no
// SM and no task slot is oversubscribed, and the dispatcher never rests while a task could start a block.  A
// breach is a defect of the engine.
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "sim/stages/compute_engine.h"

namespace corun::sim {
namespace {

[[noreturn]] void broken(const std::string& what) { throw std::logic_error("audit: " + what); }

}  // namespace

void ComputeEngine::audit_time(Time next) const {
  if (next < now_) broken(fmt::format("time goes back from {} ps to {} ps", now_.count(), next.count()));
}

void ComputeEngine::audit_block(Work& work, std::uint64_t block) const {
  if (work.ran[block])
    broken(fmt::format("block {} of launch {} ran twice", block, work.record.launch.serial));
  work.ran[block] = true;
}

void ComputeEngine::audit_sm(std::uint32_t rank) const {
  const SmResources most = capacity_of(gpu_.sm);
  const SmResources& f = free_[rank];
  // Unsigned: more taken than there is shows as a huge rest.
  if (f.blocks > most.blocks || f.warps > most.warps || f.threads > most.threads ||
      f.registers > most.registers || f.shared_memory > most.shared_memory)
    broken(fmt::format("SM {} is oversubscribed", gpu_.placement_order[rank].value));
}

/// A block of a launch with a number of CTAs per SM starts.  Those that run from before a number fell end
/// first.
void ComputeEngine::audit_quota(Work& work, std::uint32_t rank) const {
  if (work.spread.running[rank] >= work.spread.quota[rank])
    broken(fmt::format("launch {} runs more blocks on SM {} than its quota", work.record.launch.serial,
                       gpu_.placement_order[rank].value));
}

void ComputeEngine::audit_end(const Work& work) const {
  if (!work.reset && work.done != work.blocks())
    broken(fmt::format("launch {} ended with blocks not run", work.record.launch.serial));
  for (const std::uint16_t held : work.spread.held)
    if (held != 0) broken(fmt::format("launch {} ended with workers on SMs", work.record.launch.serial));
  std::vector<SmResources> expected(gpu_.sms, capacity_of(gpu_.sm));
  std::uint32_t slots = 0;
  for (std::uint32_t i = 0; i < tasks_.size(); ++i) {
    if (std::find(free_tasks_.begin(), free_tasks_.end(), i) != free_tasks_.end()) continue;
    const Task& task = tasks_[i];
    slots += task.pending == 0;
    Row row = rows_[i];
    if (row.size() > task.resident) broken("a task has more residents than it counts");
    for (std::uint32_t k = 0; k < row.size(); ++k) expected[row.at(k).rank] -= task.demand;
  }
  shared_.for_each([&](std::uint32_t rank, TaskId id) { expected[rank] -= tasks_[id.value].demand; });
  for (const auto& ended : ended_)  // at this instant, not yet seen to
    if (ended.task.value < tasks_.size()) expected[ended.head] -= tasks_[ended.task.value].demand;
  for (const Stray& stray : strays_)
    if (!stray.gone) expected[stray.resident.rank] -= tasks_[stray.task.value].demand;
  if (expected != free_) broken("the SMs' free resources do not add up");
  if (wdu_.used() > gpu_.task_slots || slots > gpu_.task_slots) broken("more tasks than task slots");
}

/// After each instant: if the dispatcher rests, then no task of the table may start a block anywhere.
void ComputeEngine::audit_work_conserved() {
  if (dispatch_at_ != kNever) return;
  SmMask claimed;
  for (TaskId id : wdu_.table()) {
    const Task& task = tasks_[id.value];
    for (std::uint32_t rank = 0; rank < gpu_.sms; ++rank)
      if (task.allowed.test(rank) && !claimed.test(rank) && room_on(rank, task) > 0)
        broken(fmt::format("SM {} has room, and the dispatcher rests", gpu_.placement_order[rank].value));
    claimed |= task.allowed;
  }
}

}  // namespace corun::sim
