// The blocks of launches that contend, by SM: how far each is and when the next one ends.
//
// A block's work is counted in picoseconds of its time alone.  All blocks of a task on an SM advance at one
// rate, the inverse of their slowdown, so they form a row in the order of their ends, and a row keeps one
// count of progress for all.  Rates change when the SM's residents change and, at most once a settling time,
// when the pressure on the memory does.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/engine/min_tree.h"
#include "sim/model/contention.h"
#include "sim/stages/task.h"
#include "traces/model/gpu.h"

namespace corun::sim {

class SharedSms {
 public:
  struct Block {
    std::int64_t left;   // ps of its time alone
    std::int64_t start;  // time
    std::uint32_t number;
    std::uint16_t rank, place;
  };

  explicit SharedSms(const Gpu& gpu);

  bool empty() const { return blocks_ == 0; }
  /// When a block ends or the pressure settles next.
  Time next_time() const;

  /// Must precede the first block of a launch of this number.
  void introduce(WorkId work, const BlockLoad& load);
  void add(const Task& task, TaskId id, const Block& block, Time now);
  /// Takes out the blocks that end now, into `ended`: unordered.
  struct Ended {
    TaskId task;
    Block block;
  };
  void take_ended(Time now, std::vector<Ended>& ended);
  /// Takes out everything, with what is left of it.
  void take_all(Time now, std::vector<Ended>& out);
  /// Forgets when the pressure was judged last.
  void restart() { settled_at_ = -kSettling; }
  /// To be called after each instant.
  void settle(Time now);

  const MemoryUse& memory_use() const { return use_; }

  template <typename F>
  void for_each(F&& f) const {
    for (std::uint32_t rank = 0; rank < sms_.size(); ++rank)
      for (const Row& row : sms_[rank])
        for (std::uint32_t i = 0; i < row.count; ++i) f(rank, row.task);
  }

 private:
  static constexpr std::uint32_t kMostBlocks = 64;
  /// A memory request's time: the pressure does not follow what is shorter.
  static constexpr Time kSettling{1'000'000};
  struct Slot {
    std::int64_t end;    // progress of the row at which the block ends
    std::int64_t start;  // time
    std::uint32_t number;
    std::uint16_t place;
  };
  struct Row {
    TaskId task;
    WorkId work;
    std::uint64_t arrival = 0;
    std::int64_t progress = 0;  // at `since`
    std::int64_t since = 0;
    std::uint32_t rate = 0;  // of progress, kFullRate: as alone
    std::uint32_t head = 0, count = 0;
    std::int64_t starts = 0;  // sum over its blocks
    std::array<Slot, kMostBlocks> slots;

    const Slot& first() const { return slots[head]; }
    std::int64_t last_start() const { return slots[(head + count - 1) % kMostBlocks].start; }
    std::int64_t progress_at(std::int64_t now) const;
    std::int64_t end_of_first() const;
    void insert(const Slot& slot);
    void pop();
  };
  struct Launch {
    BlockLoad load;
    double delay = 0, issue = 0;  // ps of a block, off and at the issue slots, under the present pressure
    std::array<std::uint32_t, kMostBlocks + 1>
        rate{};                 // on an SM of its own, by its blocks there; 0: not yet known
    std::uint32_t blocks = 0;   // on all SMs
    std::uint32_t sms = 0;      // that have any
    std::uint32_t settled = 0;  // blocks when the pressure was last judged
  };

  void changed(std::uint32_t rank);
  void rate_rows(std::uint32_t rank, std::int64_t now);
  std::uint32_t rate_alone(Launch& launch, std::uint32_t blocks);
  void set_rate(Row& row, std::uint32_t rate, std::int64_t now);
  void set_next(std::uint32_t rank);
  void unsettle(Time now);
  bool judge_pressure();

  MemoryLimits memory_;
  std::vector<std::vector<Row>> sms_;  // rows in the order in which their tasks came to the SM
  std::vector<Launch> launches_;       // by WorkId
  std::vector<WorkId> present_;        // launches with blocks, in the order of their first
  std::vector<std::uint32_t> order_;   // of an SM's rows, oldest first
  /// What two launches on one SM come to, by which they are and how many blocks each has.
  struct Rated {
    std::uint64_t key = 0;
    std::uint32_t older = 0, younger = 0;
  };
  std::array<Rated, 1024> rated_{};
  std::vector<std::uint16_t> changed_;  // SMs, at this instant
  std::vector<bool> is_changed_;
  MinTree next_;
  std::uint32_t blocks_ = 0;
  bool unsettled_ = false;
  Time settles_at_{}, settled_at_ = -kSettling;
  MemoryUse use_;
  std::vector<Contender> contenders_;
  std::vector<SmShare> shares_;
};

}  // namespace corun::sim
