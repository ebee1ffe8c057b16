// The blocks of launches that contend, by SM: how far each is and when the next one ends.
//
// A block's work is counted in picoseconds of its time alone.  All blocks of a task on an SM advance at one
// rate, the inverse of their slowdown, so they form a row in the order of their ends, and a row keeps one
// count of progress for all.  Rates change when the SM's residents change and, at most once a settling time,
// when the pressure on the memory does.  While one launch has the GPU, all is as alone.
//
// SMs in the same state are kept once, under the head of their cohort (`Cohorts`).
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include <boost/container/static_vector.hpp>

#include "sim/engine/min_tree.h"
#include "sim/model/contention.h"
#include "sim/stages/cohorts.h"
#include "sim/stages/task.h"
#include "traces/model/gpu.h"

namespace corun::sim {

class SharedSms {
 public:
  /// Of one task, on each SM of a cohort.
  struct Blocks {
    std::int64_t left;   // ps of their time alone
    std::int64_t start;  // time
    std::uint32_t number;
    std::uint16_t head, place;
    std::uint32_t count = 1;
  };

  SharedSms(const Gpu& gpu, const Cohorts& cohorts);

  bool empty() const { return blocks_ == 0; }
  /// When a block ends or the pressure settles next.
  Time next_time() const;

  /// Must precede the first block of a launch of this number.
  void introduce(WorkId work, const BlockLoad& load);
  void add(const Task& task, TaskId id, const Blocks& blocks, Time now);
  /// Takes out the blocks that end now, into `ended`: unordered.
  struct Ended {
    TaskId task;
    std::uint32_t number;
    std::uint16_t head, place;
    std::uint32_t count;
  };
  void take_ended(Time now, std::vector<Ended>& ended);
  /// Takes out all blocks of a launch, into `gone`.
  void remove(WorkId work, Time now, std::vector<Ended>& gone);
  /// Whether launches contend from now on; else all blocks take as long as alone.
  void contend(bool contended, Time now);
  /// To be called after each instant.
  void settle(Time now);

  /// The cohort of `other` has left that of `head`.
  void split(std::uint32_t head, std::uint32_t other);
  /// The cohort of `other` is about to join that of `head`, which is in the same state.
  void join(std::uint32_t other);
  bool alike(std::uint32_t a, std::uint32_t b, Time now) const;

  const MemoryUse& memory_use() const { return use_; }

  template <typename F>
  void for_each(F&& f) const {
    for (std::uint32_t rank = 0; rank < sms_.size(); ++rank)
      for (const std::uint16_t r : sms_[rank])
        for (std::uint32_t i = 0; i < rows_[r].count; ++i) f(rank, rows_[r].task);
  }

 private:
  static constexpr std::uint32_t kMostBlocks = 64;
  static constexpr std::int64_t kUnknown = -1;
  using Rows = boost::container::static_vector<std::uint16_t, kMostBlocks>;
  /// A memory request's time: the pressure does not follow what is shorter.
  static constexpr Time kSettling{1'000'000};
  /// Blocks that end together.
  struct Slot {
    std::int64_t end;                      // progress of the row at which they end
    std::int64_t starts;                   // sum of their times
    std::int64_t first_start, last_start;  // of the first and the last to come
    std::uint32_t number;
    std::uint16_t place, count;
  };
  struct Row {
    Row() {}  // leaves the slots as they are
    TaskId task;
    WorkId work;
    std::int64_t progress = 0;  // at `since`
    std::int64_t since = 0;
    std::int64_t next = 0;      // when its first block ends,
    std::int64_t next_for = 0;  // of this progress; kUnknown: to be found anew
    std::uint32_t rate = 0;     // of progress, kFullRate: as alone
    std::uint32_t head = 0, slots_used = 0;
    std::uint32_t count = 0;  // blocks
    std::int64_t starts = 0;  // sum over its blocks
    std::int64_t line = 0;    // where blocks are served by age: progress at which the last of them is
    std::array<Slot, kMostBlocks> slots;

    Slot& slot(std::uint32_t i) { return slots[(head + i) % kMostBlocks]; }
    const Slot& slot(std::uint32_t i) const { return slots[(head + i) % kMostBlocks]; }
    Starts ages() const { return {starts / count, slot(0).first_start, slot(slots_used - 1).last_start}; }
    std::int64_t progress_at(std::int64_t now) const;
    void find_next(std::int64_t now);
    void insert(const Slot& slot, bool together);
    void pop();
  };
  struct Launch {
    BlockLoad load;
    double delay = 0, issue = 0;  // ps of a block, off and at the issue slots, under the present pressure
    std::uint32_t serial = 0;     // of these two and the time alone
    std::uint32_t blocks = 0;     // on all SMs
    std::uint32_t sms = 0;        // that have any
    std::uint32_t settled = 0;    // blocks when the pressure was last judged
  };

  std::uint16_t new_row();
  void as_alone(Launch& launch);
  void changed(std::uint32_t head);
  void change_all();
  void take_ended(std::uint32_t head, std::int64_t now, std::vector<Ended>& ended);
  void rate_rows(std::uint32_t head, std::int64_t now);
  static bool older(const Row& a, const Row& b);
  void rate_pair(Row& older, Row& younger, std::int64_t now);
  void rate_several(const Rows& rows, std::int64_t now);
  void press(Launch& launch, double delay, double issue);
  struct Rated;
  Rated& rated_of(const Rated& key);
  void set_rate(Row& row, std::uint32_t rate, std::int64_t now);
  std::uint32_t in_turn(const Row& row, std::uint32_t rate) const;
  std::int64_t least() const;
  template <typename F>
  void for_each_at(std::int64_t time, F&& f);
  void set_next(std::uint32_t head, std::int64_t next);
  void find_next(std::uint32_t head, std::int64_t now);
  void unsettle(Time now);
  bool judge_pressure();

  MemoryLimits memory_;
  const Cohorts& cohorts_;
  bool contended_ = false;
  std::vector<Row> rows_;
  std::vector<std::uint16_t> free_rows_;
  std::vector<Rows> sms_;         // rows in the order in which their tasks came, by head
  std::vector<Launch> launches_;  // by WorkId
  std::vector<WorkId> present_;   // launches with blocks, in the order of their first
  Rows order_;                    // of an SM's rows, oldest first
  /// The same few launches meet again and again: what makes their blocks' times has a number, and what one or
  /// two of them come to on an SM is kept by those and by how many blocks each has.  Tables of the
  /// latest.
  struct Known {
    double delay = 0, issue = 0, alone = 0, fp64 = 0, chance = 1;
    std::uint32_t serial = 0;
  };
  std::vector<Known> known_;
  std::uint32_t serials_ = 0;
  struct Rated {
    std::uint32_t older = 0, younger = 0;  // serials, 0: none
    std::uint32_t blocks = 0;              // of both, and how far they are apart
    std::uint32_t older_rate = 0, younger_rate = 0;
  };
  std::vector<Rated> rated_;
  std::vector<std::uint16_t> changed_;  // heads, at this instant
  std::vector<std::uint8_t> is_changed_;
  // When the next block of each ends: a tree if every SM is on its own, else a list, as cohorts are few.
  MinTree next_;                       // by rank
  std::vector<std::int64_t> next_of_;  // by head
  mutable std::int64_t least_ = MinTree::kNone;
  static constexpr std::uint32_t kSeveral = ~std::uint32_t{0};
  mutable std::uint32_t least_at_ = kSeveral;  // the one, if only one ends then
  std::uint32_t blocks_ = 0;
  std::uint32_t presses_ = 0;  // present launches whose neighbours wait for the memory or the clock
  bool unsettled_ = false;
  Time settles_at_{}, settled_at_ = -kSettling;
  MemoryUse use_;
  std::vector<Contender> contenders_;
  std::vector<SmShare> shares_;
};

}  // namespace corun::sim
