// The observer looks at the pipeline and changes nothing: records of launches and blocks, gauges and losses for the timeline, and the audit.
// Under audit these must hold at every instant: time does not go back, every block runs once, no SM and no
// task slot is oversubscribed, and the dispatcher never rests while a task could start a block.  A breach is a
// defect of the engine.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "sim/stages/launch_table.h"
#include "sim/stages/loss_meter.h"
#include "sim/stages/sm_array.h"
#include "traces/model/expects.h"
#include "traces/model/gpu.h"
#include "traces/timeline/timeline.h"

namespace corun::sim {

class EngineObserver {
 public:
  EngineObserver(const Gpu& gpu, Timeline& timeline, bool audit)
      : gpu_(gpu),
        timeline_(&timeline),
        audits_(audit),
        records_blocks_(timeline.wants_blocks()),
        records_gauges_(timeline.wants_gauges()) {
    if (timeline.wants_losses()) losses_.emplace(gpu);
  }

  bool audits() const { return audits_; }
  bool records_blocks() const { return records_blocks_; }
  bool records_gauges() const { return records_gauges_; }
  /// Neither looks at single blocks, nor at each instant.
  bool looks_away() const { return !audits_ && !records_blocks_ && !records_gauges_ && !losses_; }
  /// Null: nobody asked what launches lose to each other.
  LossMeter* losses() { return losses_ ? &*losses_ : nullptr; }
  /// From now on it writes there.
  void write_to(Timeline& timeline) { timeline_ = &timeline; }

  void launch_began(WorkId id, const Work& work) {
    if (losses_) losses_->began(id, work);
    if (!audits_ && !records_blocks_) return;
    if (id.value >= blocks_.size()) blocks_.resize(id.value + 1);
    Blocks& blocks = blocks_[id.value];
    if (audits_) blocks.ran.assign(work.blocks(), false);
    if (!records_blocks_) return;
    blocks.starts.resize(work.blocks());
    blocks.dispatched.resize(work.blocks());
  }
  /// The next block, if there is one, got a place at this time of the dispatcher.
  void block_dispatched(WorkId id, const Work& work, Time global) {
    CORUN_EXPECTS(records_blocks_);
    if (!work.all_started()) blocks_[id.value].dispatched[work.next] = global;
  }
  void block_started(WorkId id, const Work& work, std::uint32_t block, std::uint32_t rank, Time global) {
    if (audits_) check_block(id, work, block, rank);
    if (records_blocks_) blocks_[id.value].starts[block] = global;
  }
  void block_ended(WorkId id, const Work& work, std::uint32_t block, std::uint32_t rank, std::uint16_t place,
                   Time global) const {
    if (!records_blocks_) return;
    const Blocks& blocks = blocks_[id.value];
    timeline_->record(BlockRecord{work.record.launch, work.record.client, work.record.kernel, block,
                                  gpu_.placement_order[rank], place, blocks.starts[block], global,
                                  blocks.dispatched[block]});
  }
  void first_block(WorkId id, Time now) {
    if (losses_) losses_->first_block(id, now);
  }
  void launch_ended(const KernelRecord& record) const { timeline_->record(record); }
  /// All its blocks have run, at this time of its context.
  void launch_ended(WorkId id, const Work& work, Time now) {
    const KernelRecord& r = work.record;
    if (losses_ && r.preemptions == 0)
      timeline_->record(LossRecord{r.launch, r.client, r.request, losses_->ended(id, work, now)});
    launch_ended(r);
  }

  /// What has changed since the last time, once a microsecond at most and when the SMs fall empty.
  void gauge(Time now, Time global, std::size_t waiting, std::uint32_t slots, const SmArray& sms,
             double dram_use);

  // ---- the audit ----
  void check_time(Time now, Time next) const;
  void check_sm(const SmArray& sms, std::uint32_t rank) const;
  /// `free`: of each SM, what the blocks that are known to run on it leave.
  void check_end(const Work& work, const std::vector<SmResources>& free, const SmArray& sms,
                 std::uint32_t slots) const;
  void check_dispatcher_rests(const std::vector<TaskId>& table, const TaskTable& tasks,
                              const SmArray& sms) const;

 private:
  /// Of a launch, by block.
  struct Blocks {
    std::vector<bool> ran;                 // under audit
    std::vector<Time> starts, dispatched;  // when blocks are recorded
  };
  void check_block(WorkId id, const Work& work, std::uint64_t block, std::uint32_t rank);

  const Gpu& gpu_;
  Timeline* timeline_;
  bool audits_, records_blocks_, records_gauges_;
  std::vector<Blocks> blocks_;  // by WorkId
  std::optional<LossMeter> losses_;
  Time gauged_at_{};
  std::array<double, 5> gauged_{};
};

}  // namespace corun::sim
