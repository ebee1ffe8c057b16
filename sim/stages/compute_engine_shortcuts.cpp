// The engine's two shortcuts, exact to the tick: waves that repeat are skipped, and a task that has the GPU
// to itself goes as it did the last time.
#include <algorithm>

#include "sim/stages/compute_engine.h"

namespace corun::sim {

/// While each block of the hot row that ends is replaced at once, on the same SM, by the next one of the same
/// length, and no other task comes or goes, one wave is like the one before: skip as many as fit before
/// anything else is due.
void ComputeEngine::skip_waves(Time limit) {
  if (judge_contention_ || !in_vain_.empty()) return;
  Task& task = tasks_[hot_->value];
  Row& row = rows_[hot_->value];
  const std::uint32_t n = row.size();
  if (n == 0 || n != task.resident || task.uniform < n) return;
  Work& work = works_[task.work.value];
  if (work.block_times != nullptr || dispatch_at_ != kNever) return;
  std::uint64_t left = work.blocks() - work.next;
  if (left <= n) return;
  if (work.persistent()) {
    if (work.workers > work.ctas || work.instances != 1 || task.pending != 0) return;
    if (work.spreads() && work.spread.surplus()) return;
  } else {
    if (wdu_.table().empty() || wdu_.table().front() != *hot_) return;
    if (dispatcher_free_.count() > row.front().end) return;
    if (!wanting_.empty()) return;  // for an instant each place that changes hands is room to them
  }
  // The blocks now resident must have met the neighbours that their successors will meet.
  const Time oldest = Time{row.front().end} - task.duration;
  // A plain task's own blocks come and go in step; a persistent one's workers do not.
  const bool only_own = sole_ == *hot_ && !work.persistent();
  if (only_own ? sole_since_ > oldest : last_change_ >= oldest) return;
  const std::int64_t due =
      std::min({queue_.empty() ? kNever : queue_.next_time(), shared_.empty() ? kNever : shared_.next_time(),
                further_.empty() ? kNever : further_.front().at, limit < kNever ? limit + Time{1} : limit})
          .count();
  const std::int64_t last = row.back().end, d = task.duration.count();
  if (due <= last || d == 0) return;
  const std::int64_t waves =
      std::min<std::int64_t>((due - 1 - last) / d + 1, static_cast<std::int64_t>((left - 1) / n));
  if (waves <= 0) return;
  const std::uint64_t blocks = static_cast<std::uint64_t>(waves) * n;
  for (std::uint32_t i = 0; i < n; ++i) {
    Resident& r = row.at(i);
    r.end += waves * d;
    r.block = static_cast<std::uint32_t>(work.next + blocks - n + i);
  }
  work.next += blocks;
  work.done += blocks;
  blocks_run_ += blocks;
  const Time ended{last + (waves - 1) * d};
  if (!work.persistent()) {
    task.pending -= blocks;
    dispatcher_free_ = ended + gpu_.dispatch_interval;
  }
  pass_time(ended);
}

std::size_t ComputeEngine::SoloHash::operator()(const SoloKey& key) const {
  std::uint64_t h = static_cast<std::uint64_t>(key.block_alone) * 0x9e3779b97f4a7c15u;
  h ^= (std::uint64_t{key.kernel} << 32 | key.ctas) * 0xff51afd7ed558ccdu;
  return static_cast<std::size_t>(h ^ h >> 29);
}

void ComputeEngine::try_solo(TaskId id) {
  const Work& work = works_[tasks_[id.value].work.value];
  if (work.block_times != nullptr || dispatcher_free_ > now_) return;
  alone_ = id;
  solo_advanced_ = false;
  alone_since_ = now_;
  alone_sm_ps_ = sm_ps_;
  alone_warp_ps_ = warp_ps_;
  const auto found = solo_memo_.find({work.record.kernel.value, work.ctas, work.block_alone.count(),
                                      work.load.alone, tasks_[id.value].allowed});
  if (found == solo_memo_.end()) return;
  solo_ = &found->second;
  works_[tasks_[id.value].work.value].record.last_block = Time{-1};  // not yet told
}

void ComputeEngine::learn_solo(const Work& work) {
  if (solo_ == nullptr) {
    const SoloKey key{work.record.kernel.value, work.ctas, work.block_alone.count(), work.load.alone,
                      tasks_[alone_->value].allowed};
    const Time since = alone_since_ + offset;
    solo_memo_[key] =
        Solo{work.record.started - since,     work.record.last_block - since, work.record.finished - since,
             dispatcher_free_ - alone_since_, sm_ps_ - alone_sm_ps_,          warp_ps_ - alone_warp_ps_};
  }
  alone_.reset();
}

void ComputeEngine::advance_solo() {
  const Solo solo = *solo_;
  const TaskId id = *alone_;
  Work& work = works_[tasks_[id.value].work.value];
  const Time t = next_time();
  ++events_;
  if (work.record.last_block < Time{}) {
    work.record.started = alone_since_ + solo.started + offset;
    work.record.last_block = t + offset;
    now_ = t;
    tell(EngineNotice::Kind::last_block_started, work.record.launch);
    if (solo.end != solo.last_block) return;
  }
  now_ = t;
  sm_ps_ = alone_sm_ps_ + solo.sm_ps;
  warp_ps_ = alone_warp_ps_ + solo.warp_ps;
  dispatcher_free_ = alone_since_ + solo.dispatcher_free;
  dispatch_at_ = kNever;
  blocks_run_ += work.blocks();
  work.next = work.done = work.blocks();
  work.workers = 0;
  tasks_[id.value].pending = 0;
  wdu_.release(id);
  retire(id);  // finish() clears alone_
  solo_ = nullptr;
  refill();
}

/// Somebody looks or comes: what has not been simulated so far is simulated now, up to this instant.
void ComputeEngine::end_solo_early() {
  if (solo_ != nullptr) {
    const Time until = now_;
    const bool advanced =
        solo_advanced_;  // else others may still arrive at this very instant, before the first block
    solo_ = nullptr;
    alone_.reset();
    now_ = alone_since_;
    sm_ps_ = alone_sm_ps_;
    warp_ps_ = alone_warp_ps_;
    std::vector<EngineNotice> known;  // told already
    std::vector<EngineNotice>* const outer = notices_;
    while (advanced && next_time() <= until) {
      known.clear();
      advance(until, known);
    }
    pass_time(until);
    notices_ = outer;
  }
  alone_.reset();
}

}  // namespace corun::sim
