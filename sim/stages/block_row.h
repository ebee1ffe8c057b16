// The blocks of one task on an SM, or on each SM of a cohort, in the order of their ends.  A block's work is
// counted in picoseconds of its time alone.  All of them advance at one rate, the inverse of their slowdown, so
// that one count of progress does for all.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "sim/model/contention.h"
#include "sim/stages/task.h"
#include "traces/model/expects.h"

namespace corun::sim {

inline constexpr int kRateBits = 20;
inline constexpr std::uint32_t kFullRate = 1u << kRateBits;  // as alone
inline constexpr std::uint32_t kMostBlocks = 64;             // of an SM

struct BlockRow {
  static constexpr std::int64_t kUnknown = -1;
  /// Blocks that end together.
  struct Slot {
    std::int64_t end;                      // progress of the row at which they end
    std::int64_t starts;                   // sum of their times
    std::int64_t first_start, last_start;  // of the first and the last to come
    std::uint32_t number;
    std::uint16_t place, count;
  };

  BlockRow() {}  // leaves the slots as they are
  BlockRow(const BlockRow& from) { *this = from; }
  BlockRow& operator=(const BlockRow& from);

  TaskId task;
  WorkId work;
  std::int64_t progress = 0;  // at `since`
  std::int64_t since = 0;
  std::int64_t next = 0;      // when its first block ends,
  std::int64_t next_for = 0;  // of this progress; kUnknown: to be found anew
  std::uint32_t rate = 0;     // of progress
  std::uint32_t head = 0, slots_used = 0;
  std::uint32_t count = 0;   // blocks
  std::int64_t starts = 0;   // sum over its blocks
  std::int64_t backlog = 0;  // where blocks are served oldest first: progress at which the last of them is
  std::array<Slot, kMostBlocks> slots;

  /// Without blocks, from now on.
  void begin(TaskId of_task, WorkId of_work, std::int64_t now) {
    task = of_task, work = of_work;
    progress = 0, since = now;
    next_for = kUnknown;
    rate = kFullRate;
    head = slots_used = count = 0;
    starts = backlog = 0;
  }
  Slot& slot(std::uint32_t i) { return slots[(head + i) % kMostBlocks]; }
  const Slot& slot(std::uint32_t i) const { return slots[(head + i) % kMostBlocks]; }
  Starts ages() const {
    CORUN_EXPECTS_SLOW(count != 0);
    return {starts / count, slot(0).first_start, slot(slots_used - 1).last_start};
  }
  std::int64_t progress_at(std::int64_t now) const {
    const std::int64_t span = now - since;
    CORUN_EXPECTS_SLOW(span >= 0);
    return progress + (span >> kRateBits) * rate + ((span & (kFullRate - 1)) * rate >> kRateBits);
  }
  void set_rate(std::uint32_t to, std::int64_t now) {
    CORUN_EXPECTS_SLOW(to != 0);
    if (rate == to) return;
    progress = progress_at(now);
    since = now;
    rate = to;
    next_for = kUnknown;
  }

  /// A worker that finds no block stays no time, of which a slow row may not have counted the last picosecond:
  /// it ends now, not when the row was there.
  void find_next(std::int64_t now) {
    CORUN_EXPECTS_SLOW(slots_used != 0);
    const std::int64_t end = slot(0).end;
    if (end == next_for) {
      next = std::max(next, now);
      return;
    }
    next_for = end;
    const std::int64_t left = std::max<std::int64_t>(0, end - progress);
    if (rate == kFullRate) {
      next = since + left;
    } else if (left < std::int64_t{1} << (62 - kRateBits)) {
      next = since + ((left << kRateBits) + rate - 1) / rate;
    } else {  // whole units of 2^20 ps of time first, so that nothing overflows
      next = since + (left / rate << kRateBits) + ((left % rate << kRateBits) + rate - 1) / rate;
    }
    next = std::max(next, now);
  }

  /// `together`: those that end together are one slot.
  void insert(const Slot& added, bool together) {
    CORUN_EXPECTS_SLOW(added.count != 0 && count + added.count <= kMostBlocks);
    count += added.count;
    starts += added.starts;
    std::uint32_t i = slots_used;
    while (i > 0 && slot(i - 1).end > added.end) --i;
    if (together && i > 0 && slot(i - 1).end == added.end && slot(i - 1).number == added.number) {
      slot(i - 1).count += added.count;
      slot(i - 1).starts += added.starts;
      slot(i - 1).last_start = added.last_start;
      return;
    }
    for (std::uint32_t k = slots_used++; k > i; --k) slot(k) = slot(k - 1);
    slot(i) = added;
  }
  void pop() {
    CORUN_EXPECTS_SLOW(slots_used != 0);
    starts -= slot(0).starts;
    count -= slot(0).count;
    head = (head + 1) % kMostBlocks;
    --slots_used;
  }

  /// So much later it is as it is now, with blocks that are others; `restarts`: which began so much later,
  /// too.
  void skip(std::int64_t span, bool restarts) {
    since += span;
    next += span;
    if (!restarts) return;
    for (std::uint32_t i = 0; i < slots_used; ++i) {
      Slot& s = slot(i);
      s.starts += span * s.count, s.first_start += span, s.last_start += span;
      starts += span * s.count;
    }
  }

  /// Whether it goes on like the other from now on.
  bool alike(const BlockRow& other, bool oldest_first, std::int64_t now) const {
    if (task != other.task || rate != other.rate || starts != other.starts ||
        slots_used != other.slots_used || next != other.next)
      return false;
    if (since != other.since && rate != kFullRate) return false;  // they would be rounded differently
    const std::int64_t ahead = other.progress_at(now) - progress_at(now);
    if (oldest_first && backlog + ahead != other.backlog) return false;
    for (std::uint32_t k = 0; k < slots_used; ++k) {
      const Slot &p = slot(k), &q = other.slot(k);
      if (p.end + ahead != q.end || p.count != q.count || p.number != q.number || p.starts != q.starts ||
          p.first_start != q.first_start || p.last_start != q.last_start)
        return false;
    }
    return true;
  }
};

inline BlockRow& BlockRow::operator=(const BlockRow& from) {
  task = from.task, work = from.work;
  progress = from.progress, since = from.since;
  next = from.next, next_for = from.next_for;
  rate = from.rate;
  head = 0, slots_used = from.slots_used;
  count = from.count;
  starts = from.starts, backlog = from.backlog;
  for (std::uint32_t i = 0; i < from.slots_used; ++i) slots[i] = from.slot(i);
  return *this;
}

}  // namespace corun::sim
