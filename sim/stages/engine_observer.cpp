#include "sim/stages/engine_observer.h"

#include <fmt/format.h>

#include <chrono>
#include <stdexcept>
#include <utility>

namespace corun::sim {
namespace {

constexpr Time kGaugeInterval = std::chrono::microseconds(1);

[[noreturn]] void broken(const std::string& what) { throw std::logic_error("audit: " + what); }

}  // namespace

void EngineObserver::gauge(Time now, Time global, std::size_t waiting, std::uint32_t slots,
                           const SmArray& sms, double dram_use) {
  if (now - gauged_at_ < kGaugeInterval && sms.resident_blocks() != 0) return;
  gauged_at_ = now;
  const std::array<std::pair<Gauge, double>, 5> values{{{Gauge::tmu_queue, static_cast<double>(waiting)},
                                                        {Gauge::task_slots, slots},
                                                        {Gauge::resident_blocks, sms.resident_blocks()},
                                                        {Gauge::resident_warps, sms.resident_warps()},
                                                        {Gauge::dram_bandwidth_pct, 100 * dram_use}}};
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i].second == gauged_[i]) continue;
    gauged_[i] = values[i].second;
    timeline_->record(GaugeRecord{values[i].first, global, values[i].second});
  }
}

void EngineObserver::check_time(Time now, Time next) const {
  if (next < now) broken(fmt::format("time goes back from {} ps to {} ps", now.count(), next.count()));
}

/// Blocks that run on an SM from before its number fell end first.
void EngineObserver::check_block(WorkId id, const Work& work, std::uint64_t block, std::uint32_t rank) {
  std::vector<bool>& ran = blocks_[id.value].ran;
  CORUN_EXPECTS(block < ran.size());
  if (ran[block]) broken(fmt::format("block {} of launch {} ran twice", block, work.record.launch.serial));
  ran[block] = true;
  if (work.has_quotas() && work.spread.running[rank] >= work.spread.quota[rank])
    broken(fmt::format("launch {} runs more blocks on SM {} than its quota", work.record.launch.serial,
                       gpu_.placement_order[rank].value));
}

void EngineObserver::check_sm(const SmArray& sms, std::uint32_t rank) const {
  const SmResources most = capacity_of(gpu_.sm);
  const SmResources& f = sms.free()[rank];
  // Unsigned: more taken than there is shows as a huge rest.
  if (f.blocks > most.blocks || f.warps > most.warps || f.threads > most.threads ||
      f.registers > most.registers || f.shared_memory > most.shared_memory)
    broken(fmt::format("SM {} is oversubscribed", gpu_.placement_order[rank].value));
}

void EngineObserver::check_end(const Work& work, const std::vector<SmResources>& free, const SmArray& sms,
                               std::uint32_t slots) const {
  if (!work.reset && work.done != work.blocks())
    broken(fmt::format("launch {} ended with blocks not run", work.record.launch.serial));
  for (const std::uint16_t held : work.spread.held)
    if (held != 0) broken(fmt::format("launch {} ended with workers on SMs", work.record.launch.serial));
  if (free != sms.free()) broken("the SMs' free resources do not add up");
  if (slots > gpu_.task_slots) broken("more tasks than task slots");
}

void EngineObserver::check_dispatcher_rests(const std::vector<TaskId>& table, const TaskTable& tasks,
                                            const SmArray& sms) const {
  SmMask claimed;
  for (const TaskId id : table) {
    const Task& task = tasks[id];
    for (std::uint32_t rank = 0; rank < gpu_.sms; ++rank)
      if (task.allowed.test(rank) && !claimed.test(rank) &&
          sms.free_places(rank, task.demand, task.carveout) > 0)
        broken(fmt::format("SM {} has room, and the dispatcher rests", gpu_.placement_order[rank].value));
    claimed |= task.allowed;
  }
}

}  // namespace corun::sim
