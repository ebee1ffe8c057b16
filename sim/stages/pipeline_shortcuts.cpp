// The pipeline's shortcuts: waves that repeat are skipped, rounds of a persistent launch too, and a launch
// passes that it has not seen.
#include <algorithm>

#include "sim/stages/pipeline.h"

namespace corun::sim {

void Pipeline::skip_waves(Time limit) {
  const auto leading = completions_.leading();
  if (!leading || to_do_.judge || quotas_.any_in_vain() || dispatcher_.next_time() != kNever) return;
  const CompletionQueue::Fifo& fifo = completions_.fifo(*leading);
  if (fifo.empty()) return;
  Task& task = tasks_[*leading];
  Work& work = launches_[task.work];
  if (!work.persistent()) {
    if (dispatcher_.table().empty() || dispatcher_.table().front() != *leading) return;
    if (dispatcher_.free().count() > fifo.front().end) return;
    if (quotas_.any_wants()) return;  // for an instant each place that changes hands is room to them
  }
  Time due = std::min(completions_.next_queued(), quotas_.next_time());
  if (!contention_.empty()) due = std::min(due, contention_.next_time());
  if (limit < kNever) due = std::min(due, limit + Time{1});
  const auto jump = waves_to_skip(*leading, task, work, fifo, history_, due);
  if (!jump) return;
  work.next += jump->blocks;
  completions_.skip(*leading, jump->time, work.next - jump->residents);
  work.done += jump->blocks;
  blocks_run_ += jump->blocks;
  if (!work.persistent()) {
    task.pending -= jump->blocks;
    dispatcher_.skip_to(jump->last_end + gpu_.dispatch_interval);
  }
  pass_time(jump->last_end);
}

/// Of a persistent launch that is alone, whose workers all take their next blocks at one instant, each round
/// is as long as the one before.
void Pipeline::skip_rounds(Time limit) {
  if (launches_.unfinished() != 1 || launches_.persistent() != 1 || launches_.with_quotas() != 0) return;
  if (to_do_.judge || dispatcher_.next_time() != kNever || contention_.empty()) return;
  const auto round = contention_.round(sms_.cohorts(), now_);
  if (!round) return;
  Work& work = launches_[round->work];
  if (work.block_times != nullptr || work.load.sm.oldest_served > 0 || work.workers != round->blocks ||
      work.workers > work.ctas)
    return;
  // The last rounds are simulated, whose workers may not all find a block.
  const std::uint64_t whole = (work.blocks() - work.next) / round->blocks;
  if (whole < 2) return;
  auto rounds = static_cast<std::int64_t>(whole - 1);
  if (limit < kNever) rounds = std::min<std::int64_t>(rounds, (limit - now_) / round->length);
  if (rounds == 0) return;
  contention_.skip(*round, rounds, !by_age_of_workers(gpu_), sms_.cohorts(), now_);
  const std::uint64_t blocks = static_cast<std::uint64_t>(rounds) * round->blocks;
  work.next += blocks;
  work.done += blocks;
  blocks_run_ += blocks;
  pass_time(now_ + round->length * rounds);
}

void Pipeline::pass(Work&& work, Time since, const UndisturbedRun& run) {
  CORUN_EXPECTS(at_rest() && since >= now_);
  KernelRecord& record = work.record;
  record.slotted = since + offset_;
  record.started = since + run.started + offset_;
  record.last_block = since + run.last_block + offset_;
  record.finished = since + run.end + offset_;
  work.next = work.done = work.blocks();
  now_ = since + run.end;
  ++steps_.taken;
  blocks_run_ += work.blocks();
  sms_.skip_time(run.sm_ps, run.warp_ps);
  dispatcher_.skip_to(since + run.dispatcher_free);
  condition_.ended(work);
  observer_.launch_ended(record);
}

}  // namespace corun::sim
