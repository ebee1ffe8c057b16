// How fast the blocks of launches that contend advance, and when the next one ends: by SM, rows of blocks that
// share its issue slots, under one pressure of all on L2 and DRAM.  Rates change when an SM's residents change
// and, at most once a settling time, when the pressure does.  While one launch has the GPU, all is as alone.
//
// SMs in the same state are kept once, under the head of their cohort (`Cohorts`).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <boost/container/static_vector.hpp>

#include "sim/model/contention.h"
#include "sim/stages/block_row.h"
#include "sim/stages/cohorts.h"
#include "sim/stages/loss_meter.h"
#include "sim/stages/memory_table.h"
#include "sim/stages/next_ends.h"
#include "sim/stages/rate_table.h"
#include "sim/stages/task.h"
#include "traces/model/expects.h"
#include "traces/model/gpu.h"

namespace corun::sim {

class ContentionModel {
 public:
  /// Of one task, on each SM of a cohort.
  struct Blocks {
    std::int64_t left;   // ps of their time alone
    std::int64_t start;  // time
    std::uint32_t number;
    std::uint16_t head, place;
    std::uint32_t count = 1;
  };
  struct Ended {
    TaskId task;
    std::uint32_t number;
    std::uint16_t head, place;
    std::uint32_t count;
  };

  /// `together`: SMs in the same state are kept as one.
  ContentionModel(const Gpu& gpu, bool together);

  bool empty() const { return present_.empty(); }
  /// When a block ends or the pressure settles next.
  Time next_time() const;

  /// Must precede the first block of a launch of this number.
  void introduce(WorkId work, const BlockLoad& load);
  void add(TaskId task, WorkId work, const Blocks& blocks, const Cohorts& cohorts, Time now);
  /// Takes out the blocks that end now, into `ended()`, unordered, where they stay until all have been completed.
  void take_ended(Time now, const Cohorts& cohorts);
  const std::vector<Ended>& ended() const { return ended_; }
  /// The blocks at that place of `ended()`, which are being completed: the place is of no task from now on.
  Ended complete(std::size_t at) {
    CORUN_EXPECTS_SLOW(at < ended_.size() && ended_[at].task != kNoTask);
    const Ended e = ended_[at];
    ended_[at].task = kNoTask;
    return e;
  }
  void completed_all() { ended_.clear(); }
  /// The cohort of `other` has left that of `head` while blocks end: the same ones end there.
  void end_at_both(std::uint32_t head, std::uint32_t other);
  /// Blocks of the task that end on these SMs do so one by one.
  void end_singly(TaskId task, const SmMask& heads);
  /// Takes out all blocks of a launch, into `gone`.
  void remove(WorkId work, Time now, const Cohorts& cohorts, std::vector<Ended>& gone);

  /// Launches that have blocks, in the order of their first.
  std::span<const WorkId> present() const { return present_; }
  /// Whether they slow each other from now on; else all blocks take as long as alone.
  void contend(bool contended, Time now, const Cohorts& cohorts);
  bool contended() const { return contended_; }
  /// To be called after each instant, and again where more has changed in it: rates what has changed.  `losses`, if not null, is told; SMs are then kept
  /// one by one.
  void settle(Time now, const Cohorts& cohorts, LossMeter* losses = nullptr);
  /// The only launch, all of whose blocks began at this instant and end together: its next blocks go as they
  /// do.
  struct Round {
    WorkId work;
    std::uint32_t head = 0;
    std::uint32_t blocks = 0;
    Time length{};
  };
  std::optional<Round> round(const Cohorts& cohorts, Time now) const;
  /// `rounds` more of them have passed, in which each block that ended was replaced at once; `restarts`: the
  /// blocks that run count as begun with the last of them.
  void skip(const Round& round, std::int64_t rounds, bool restarts, const Cohorts& cohorts, Time now);

  /// What an access meets at DRAM beside those who are there now.
  MemoryUse memory_for_another() const;
  /// The use of DRAM, 0 to 1.
  double dram_use() const;

  /// The cohort of `other` has left that of `head`.
  void split(std::uint32_t head, std::uint32_t other);
  /// The cohort of `other` is about to become one with that of another head, which is in the same state.
  void merge(std::uint32_t other);
  bool alike(std::uint32_t a, std::uint32_t b, Time now) const;
  /// The same of SMs that are alike, and seldom of others.
  std::uint64_t signature(std::uint32_t head) const;

  /// f(rank, task) for each block, where each SM is on its own.
  template <typename F>
  void for_each(F&& f) const {
    for (std::uint32_t rank = 0; rank < sms_.size(); ++rank)
      for (const std::uint16_t r : sms_[rank])
        for (std::uint32_t i = 0; i < rows_[r].count; ++i) f(rank, rows_[r].task);
  }

 private:
  /// A memory request's time: the pressure does not follow what is shorter.
  static constexpr Time kSettling{1'000'000};
  using Rows = boost::container::static_vector<std::uint16_t, kMostBlocks>;
  struct Launch {
    BlockLoad load;
    std::uint32_t number = 0;     // of the load (`MemoryTable`)
    RateTable::Kind kind;         // under the present pressure
    std::uint32_t serial = 0;     // of the kind
    std::uint32_t blocks = 0;     // on all SMs
    std::uint32_t sms = 0;        // that have any
    std::uint32_t settled = 0;    // blocks when the pressure was last judged,
    std::uint32_t settled_sms = 0;  // and SMs
    bool counted = false;         // its blocks are others than at the last instant
  };
  /// On what all SMs share.
  struct Pressure {
    std::uint32_t launches = 0;  // present, whose neighbours wait for the memory or the clock
    bool unsettled = false;
    Time settles_at{}, settled_at{};
    std::optional<WorkId> only;  // that had blocks when it was judged last, so that a judgement finds the same (round)
    double dram = 0;  // its use, 0 to 1
  };

  bool feels_pressure() const { return contended_ && (pressure_.launches != 0 || pressure_.dram != 0); }
  void as_alone(Launch& launch);
  void press(Launch& launch, double delay, double issue);
  std::uint16_t new_row();
  BlockRow& row_of(TaskId task, WorkId work, std::uint32_t head, std::uint32_t sms, std::int64_t now);
  void take_ended(std::uint32_t head, std::uint32_t sms, std::int64_t now);
  void came(Launch& launch, WorkId work, Time now);
  void went(Launch& launch, WorkId work, Time now);
  void changed(std::uint32_t head);
  void change_all(const Cohorts& cohorts);
  void rate_rows(std::uint32_t head, std::int64_t now);
  static bool older(const BlockRow& a, const BlockRow& b);
  void rate_pair(BlockRow& older, BlockRow& younger, std::int64_t now);
  void rate_several(const Rows& rows, std::int64_t now);
  Rows by_age(const Rows& rows) const;
  std::uint32_t least_apart(const Rows& order) const;
  void tell(LossMeter& losses, std::uint32_t head, std::int64_t now) const;
  std::uint32_t oldest_first(const BlockRow& row, std::uint32_t rate) const;
  void find_next(std::uint32_t head, std::int64_t now);
  void count(Launch& launch, WorkId work, std::int64_t blocks);
  void unsettle(Time now);
  bool judge_pressure(LossMeter* losses);

  mutable MemoryTable memory_;  // which looking may fill
  bool together_;
  bool contended_ = false;
  std::vector<BlockRow> rows_;
  std::vector<std::uint16_t> free_rows_;
  std::vector<Rows> sms_;         // rows in the order in which their tasks came, by head
  std::vector<Launch> launches_;  // by WorkId
  std::vector<WorkId> present_;
  std::vector<WorkId> counted_;  // at this instant
  RateTable rates_;
  NextEnds ends_;
  std::vector<std::uint16_t> changed_;  // heads, at this instant
  std::vector<std::uint8_t> is_changed_;
  std::vector<Ended> ended_;
  Pressure pressure_;
};

}  // namespace corun::sim
