#include "sim/stages/gpu_condition.h"

namespace corun::sim {
namespace {

/// A block's time alone goes with its load's, which was `before`.
void lengthen(Work& work, double before) {
  if (work.load.alone == before) return;
  work.block_alone = Time{
      static_cast<std::int64_t>(static_cast<double>(work.block_alone.count()) * (work.load.alone / before))};
}

}  // namespace

void GpuCondition::meet(Work& work, const LaunchTable& launches) {
  if (!work.load.contends()) return;
  const double fast = work.load.alone;
  slow_down(work.load, clock_stretch_, limits_);
  lengthen(work, fast);
  work.times_alone = {fast, work.load.alone};
  if (work.load.contends()) cool(work, launches);
}

void GpuCondition::cool(Work& work, const LaunchTable& launches) {
  double others = moved_;
  for (const Work& w : launches.all())
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
  const double cold = 1 - survival(footprint + since, limits_.l2_shared_bytes, limits_.l2_bytes);
  if (cold <= load.cold) return;
  const double warm = load.alone;
  load.cold = cold;
  settle_alone(load, limits_);
  lengthen(work, warm);
}

void GpuCondition::ended(const Work& work) {
  CORUN_EXPECTS(work.done >= work.first);
  const auto blocks = static_cast<double>(work.done - work.first);
  energy_ += work.load.energy * blocks;
  const double bytes = blocks * bytes_moved(work.load);
  if (bytes <= 0) return;
  moved_ += bytes;
  if (const std::uint32_t client = work.record.client.value; client < clients_.size())
    clients_[client].moved += bytes;
}

}  // namespace corun::sim
