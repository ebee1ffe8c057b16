#include "sim/stages/completion_queue.h"

#include <algorithm>

namespace corun::sim {

void CompletionQueue::Fifo::grow() {
  std::vector<Resident> larger(std::max<std::size_t>(64, 2 * ring_.size()));
  const std::uint32_t n = size();
  for (std::uint32_t i = 0; i < n; ++i) larger[i] = at(i);
  ring_ = std::move(larger);
  head_ = 0;
  tail_ = n;
  mask_ = static_cast<std::uint32_t>(ring_.size() - 1);
}

void CompletionQueue::add(TaskId task, const Resident& resident, Time duration) {
  CORUN_EXPECTS(task.value < fifos_.size());
  CORUN_EXPECTS_SLOW(duration >= Time{} && Time{resident.end} >= duration);
  Fifo& fifo = fifos_[task.value];
  if (fifo.empty() || fifo.back().end <= resident.end) {
    fifo.push(resident, duration);
    if (fifo.size() == 1 && leading_ != task) queue_head(task);
    return;
  }
  std::uint32_t stray = static_cast<std::uint32_t>(strays_.size());
  if (free_strays_.empty()) {
    strays_.push_back({task, resident});
  } else {
    stray = free_strays_.back();
    free_strays_.pop_back();
    strays_[stray] = {task, resident};
  }
  queue_.schedule(Time{resident.end}, 0, {task, true, stray});
}

/// The head of a list becomes an event, unless it is one.
void CompletionQueue::queue_head(TaskId task) {
  Fifo& fifo = fifos_[task.value];
  if (fifo.empty() || fifo.queued_) return;
  queue_.schedule(Time{fifo.front().end}, 0, {task, false, fifo.generation_});
  fifo.queued_ = true;
}

void CompletionQueue::remove(TaskId task, std::vector<Resident>& gone) {
  CORUN_EXPECTS(task.value < fifos_.size());
  Fifo& fifo = fifos_[task.value];
  if (!fifo.empty()) {
    for (std::uint32_t i = 0; i < fifo.size(); ++i) gone.push_back(fifo.at(i));
    fifo.clear();
    fifo.queued_ = false;
    ++fifo.generation_;
  }
  for (Stray& stray : strays_) {
    if (stray.gone || stray.task != task) continue;
    gone.push_back(stray.resident);
    stray.gone = true;
  }
}

}  // namespace corun::sim
