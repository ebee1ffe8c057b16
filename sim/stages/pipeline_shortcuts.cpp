// The pipeline's shortcuts: waves that repeat are skipped, rounds of a persistent launch too, and a launch passes that
// it has not seen.
#include <algorithm>

#include <boost/container/small_vector.hpp>

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

/// Of a persistent launch that is alone, whose workers all take their next blocks at one instant, each round is as long
/// as the one before.
void Pipeline::skip_rounds(Time limit) {
  if (launches_.unfinished() != 1 || launches_.persistent() != 1 || launches_.with_quotas() != 0) return;
  if (to_do_.judge || dispatcher_.next_time() != kNever || contention_.empty()) return;
  const auto round = contention_.round(sms_.cohorts(), now_);
  if (!round) return;
  Work& work = launches_[round->work];
  if (work.block_times != nullptr || work.load.at_once > 0 || work.workers != round->blocks || work.workers > work.ctas)
    return;
  // The last rounds are simulated, whose workers may not all find a block.
  const std::uint64_t whole = (work.blocks() - work.next) / round->blocks;
  if (whole < 2) return;
  auto rounds = static_cast<std::int64_t>(whole - 1);
  if (limit < kNever) rounds = std::min<std::int64_t>(rounds, (limit - now_) / round->length);
  if (rounds == 0) return;
  contention_.skip(*round, rounds, !by_age_of_workers(gpu_), now_);
  const std::uint64_t blocks = static_cast<std::uint64_t>(rounds) * round->blocks;
  work.next += blocks;
  work.done += blocks;
  blocks_run_ += blocks;
  pass_time(now_ + round->length * rounds);
}

/// Workers whose blocks end at this instant all take their next ones: nothing else happens, and no rate changes.
bool Pipeline::go_on(Time t) {
  if (launches_.persistent() == 0 || launches_.with_quotas() != 0 || !by_age_of_workers(gpu_)) return false;
  if (to_do_.judge || to_do_.merge || to_do_.refill || contention_.empty()) return false;
  if (std::min({dispatcher_.next_time(), completions_.next_time(), quotas_.next_time()}) <= t) return false;
  ContentionModel::Endings endings;
  if (!contention_.endings(t, sms_.cohorts(), endings)) return false;
  struct Going {
    WorkId work;
    std::uint64_t blocks;
  };
  boost::container::small_vector<Going, 4> going;
  for (const auto& e : endings) {
    const Work& work = launches_[e.work];
    if (!work.persistent() || work.block_times != nullptr || work.load.at_once > 0 || work.workers > work.ctas)
      return false;
    auto found = std::ranges::find(going, e.work, &Going::work);
    if (found == going.end()) found = going.insert(going.end(), {e.work, 0});
    found->blocks += std::uint64_t{sms_.cohorts().size(e.head)} * e.count;
  }
  const auto all_end = [&](const Going& g) { return g.blocks == contention_.blocks(g.work); };
  for (const Going& g : going)
    if (launches_[g.work].blocks() - launches_[g.work].next <= g.blocks) return false;
  if (std::ranges::count_if(going, all_end) > 1) return false;
  pass_time(t);
  ++steps_.taken;
  for (const auto& e : endings) {
    const Work& work = launches_[e.work];
    const Time left = std::max(work.per_task + work.block_alone, Time{1});
    contention_.replace(e, left.count(), tasks_[e.task].started.count(), true, t);
  }
  for (const Going& g : going) {
    Work& work = launches_[g.work];
    work.next += g.blocks;
    work.done += g.blocks;
    blocks_run_ += g.blocks;
    if (all_end(g)) contention_.replaced_all(g.work, t);
  }
  settle();
  return true;
}

void Pipeline::pass(Work&& work, Time since, const UndisturbedRun& run) {
  CORUN_EXPECTS(!busy() && since >= now_);
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
