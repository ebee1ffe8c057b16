#include "sim/stages/fast_forward.h"

#include <algorithm>

namespace corun::sim {

std::optional<WaveJump> waves_to_skip(TaskId id, const Task& task, const Work& work,
                                      const CompletionQueue::Fifo& fifo, const ResidencyHistory& history,
                                      Time due) {
  CORUN_EXPECTS_SLOW(work.next <= work.blocks());
  const std::uint32_t n = fifo.size();
  if (n == 0 || n != task.resident || fifo.uniform() < n || work.block_times != nullptr) return std::nullopt;
  const std::uint64_t left = work.blocks() - work.next;
  if (left <= n) return std::nullopt;
  if (work.persistent()) {
    if (work.workers > work.ctas || work.instances != 1 || task.pending != 0) return std::nullopt;
    if (work.has_quotas() && work.spread.surplus()) return std::nullopt;
  }
  // The blocks now resident must have met the neighbours that their successors will meet.
  const Time oldest = Time{fifo.front().end} - fifo.duration();
  // A plain task's own blocks come and go in step; a persistent one's workers do not.
  const bool only_own = history.only(id) && !work.persistent();
  if (only_own ? history.only_since() > oldest : history.last_change() >= oldest) return std::nullopt;
  const std::int64_t last = fifo.back().end, d = fifo.duration().count();
  if (due.count() <= last || d == 0) return std::nullopt;
  const std::int64_t waves =
      std::min<std::int64_t>((due.count() - 1 - last) / d + 1, static_cast<std::int64_t>((left - 1) / n));
  if (waves <= 0) return std::nullopt;
  return WaveJump{waves * d, static_cast<std::uint64_t>(waves) * n, n, Time{last + (waves - 1) * d}};
}

}  // namespace corun::sim
