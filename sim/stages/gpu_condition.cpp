#include "sim/stages/gpu_condition.h"

namespace corun::sim {
namespace {

/// A block's time alone goes with its load's, which was `before`.
void lengthen(Work& work, double before) {
  if (work.load.alone_ps == before) return;
  work.block_alone = Time{
      static_cast<std::int64_t>(static_cast<double>(work.block_alone.count()) * (work.load.alone_ps / before))};
}

}  // namespace

void GpuCondition::meet(Work& work, double moved) {
  CORUN_EXPECTS(moved >= moved_);
  if (!work.load.contends()) return;
  const double fast = work.load.alone_ps;
  slow_down(work.load, clock_ratio_, limits_);
  lengthen(work, fast);
  work.times_alone = {fast, work.load.alone_ps};
  if (work.load.contends()) replace_in_l2(work, moved);
}

/// The others have replaced a part of what the client's launch before left in L2.
void GpuCondition::replace_in_l2(Work& work, double moved) {
  const std::uint32_t client = work.record.client.value;
  if (client >= clients_.size()) clients_.resize(client + 1);
  Client& mine = clients_[client];
  const double others = moved - mine.moved;
  const double since = mine.launched ? others - mine.others : 0;
  mine.launched = true;
  mine.others = others;
  BlockLoad& load = work.load;
  if (load.memory.uncached_share >= 1 || since <= 0) return;
  const double footprint = (load.memory.read_bytes + load.memory.write_bytes) * load.extent.blocks;
  const double uncached = 1 - survival(footprint + since, limits_.l2.shared_bytes, limits_.l2.own_bytes);
  if (uncached <= load.memory.uncached_share) return;
  const double before = load.alone_ps;
  load.memory.uncached_share = uncached;
  settle_alone(load, limits_);
  lengthen(work, before);
}

void GpuCondition::ended(const Work& work) {
  CORUN_EXPECTS(work.done >= work.first);
  const auto blocks = static_cast<double>(work.done - work.first);
  energy_ += work.load.sm.energy_pj * blocks;
  const double bytes = blocks * bytes_moved(work.load);
  if (bytes <= 0) return;
  moved_ += bytes;
  if (const std::uint32_t client = work.record.client.value; client < clients_.size())
    clients_[client].moved += bytes;
}

}  // namespace corun::sim
