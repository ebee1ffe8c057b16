#include "sim/stages/shared_sms.h"

#include <algorithm>
#include <bit>

namespace corun::sim {
namespace {

constexpr int kRateBits = 20;
constexpr std::uint32_t kFullRate = 1u << kRateBits;
/// Share of a launch's blocks that may come or go before the pressure is judged again.
constexpr std::uint32_t kFewBlocks = 64;
constexpr int kKnownBits = 10, kRatedBits = 12;
constexpr std::uint64_t kScatter = 0x9e3779b97f4a7c15u;

std::uint32_t rate_of(double slowdown) {
  const double rate = kFullRate / slowdown;
  return static_cast<std::uint32_t>(std::clamp(rate, 1.0, 64.0 * kFullRate));
}

}  // namespace

inline std::int64_t SharedSms::Row::progress_at(std::int64_t now) const {
  const std::int64_t span = now - since;
  return progress + (span >> kRateBits) * rate + ((span & (kFullRate - 1)) * rate >> kRateBits);
}

/// A worker that finds no block stays no time, of which a slow row may not have counted the last picosecond:
/// it ends now, not when the row was there.
inline void SharedSms::Row::find_next(std::int64_t now) {
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

inline void SharedSms::Row::insert(const Slot& added, bool together) {
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

inline void SharedSms::Row::pop() {
  starts -= slot(0).starts;
  count -= slot(0).count;
  head = (head + 1) % kMostBlocks;
  --slots_used;
}

SharedSms::SharedSms(const Gpu& gpu, const Cohorts& cohorts)
    : memory_(limits_of(gpu)),
      cohorts_(cohorts),
      sms_(gpu.sms),
      is_changed_(gpu.sms),
      next_(gpu.sms),
      next_of_(gpu.sms, MinTree::kNone) {}

inline std::int64_t SharedSms::least() const {
  if (!cohorts_.together()) return next_.least();
  if (least_ == kUnknown) {
    std::int64_t least = MinTree::kNone;
    std::uint32_t at = 0, several = 0;
    for (const std::uint32_t head : cohorts_.list()) {  // without branches: they could not be foreseen
      const std::int64_t next = next_of_[head];
      several = (next < least ? 0 : several) + (next <= least);
      at = next < least ? head : at;
      least = std::min(least, next);
    }
    least_ = least;
    least_at_ = several == 1 ? at : kSeveral;
  }
  return least_;
}

/// f(head) for each cohort with blocks that end then.
template <typename F>
void SharedSms::for_each_at(std::int64_t time, F&& f) {
  if (!cohorts_.together()) return next_.for_each_least(f);
  if (time == least_ && least_at_ != kSeveral) return f(least_at_);
  for (const std::uint32_t head : cohorts_.list())
    if (next_of_[head] == time) f(head);
}

inline void SharedSms::set_next(std::uint32_t head, std::int64_t next) {
  if (!cohorts_.together()) return next_.set(head, next);
  next_of_[head] = next;
  least_ = kUnknown;
}

Time SharedSms::next_time() const {
  const Time end{least()};
  return unsettled_ ? std::min(end, settles_at_) : end;
}

void SharedSms::introduce(WorkId work, const BlockLoad& load) {
  if (work.value >= launches_.size()) launches_.resize(work.value + 1);
  Launch& launch = launches_[work.value];
  launch.load = load;
  as_alone(launch);
}

/// What was known of a launch of this number, or under another pressure, no longer holds.
void SharedSms::as_alone(Launch& launch) {
  launch.settled = 0;
  press(launch, launch.load.delay_alone, launch.load.issue);
}

void SharedSms::press(Launch& launch, double delay, double issue) {
  launch.delay = delay;
  launch.issue = issue;
  const double alone = launch.load.alone, fp64 = launch.load.fp64, chance = launch.load.chance;
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(delay) ^ std::bit_cast<std::uint64_t>(issue) << 1 ^
                             std::bit_cast<std::uint64_t>(alone) << 2;
  if (known_.empty()) known_.resize(std::size_t{1} << kKnownBits);
  Known& known = known_[bits * kScatter >> (64 - kKnownBits)];
  if (known.serial == 0 || known.delay != delay || known.issue != issue || known.alone != alone ||
      known.fp64 != fp64 || known.chance != chance)
    known = {delay, issue, alone, fp64, chance, ++serials_};
  launch.serial = known.serial;
}

std::uint16_t SharedSms::new_row() {
  if (free_rows_.empty()) {
    rows_.emplace_back();
    return static_cast<std::uint16_t>(rows_.size() - 1);
  }
  const std::uint16_t row = free_rows_.back();
  free_rows_.pop_back();
  return row;
}

void SharedSms::add(const Task& task, TaskId id, const Blocks& blocks, Time now) {
  Rows& rows = sms_[blocks.head];
  const std::uint32_t sms = cohorts_.size(blocks.head);
  Launch& launch = launches_[task.work.value];
  if (launch.blocks == 0) {
    present_.push_back(task.work);
    presses_ += launch.load.presses();
    unsettle(now);
  }
  launch.blocks += sms * blocks.count;
  blocks_ += sms * blocks.count;
  Row* row = nullptr;
  for (const std::uint16_t r : rows)
    if (rows_[r].task == id) row = &rows_[r];
  if (row == nullptr) {
    launch.sms += sms;
    const std::uint16_t fresh = new_row();
    rows.push_back(fresh);
    row = &rows_[fresh];
    row->task = id;
    row->work = task.work;
    row->progress = 0;
    row->since = now.count();
    row->next_for = kUnknown;
    row->rate = kFullRate;
    row->head = row->slots_used = row->count = 0;
    row->starts = 0;
    row->line = 0;
  }
  if (const double at_once = launch.load.at_once; at_once > 0 && blocks.number != kNoBlock) {
    // Each joins a line that moves on by a block when a full SM would have done one.
    const std::int64_t progress = row->progress_at(now.count()), step = blocks.left / launch.load.residents;
    const auto least =
        progress + std::max<std::int64_t>(
                       1, static_cast<std::int64_t>(static_cast<double>(step) * std::max(1.0, at_once)));
    for (std::uint32_t i = 0; i < blocks.count; ++i) {
      row->line = std::max(progress, row->line) + step;
      row->insert({std::max(least, row->line), blocks.start, blocks.start, blocks.start, blocks.number,
                   blocks.place, 1},
                  cohorts_.together());
    }
    return changed(blocks.head);
  }
  row->insert({row->progress_at(now.count()) + blocks.left, blocks.start * blocks.count, blocks.start,
               blocks.start, blocks.number, blocks.place, static_cast<std::uint16_t>(blocks.count)},
              cohorts_.together());
  changed(blocks.head);
}

void SharedSms::take_ended(Time now, std::vector<Ended>& ended) {
  if (least() > now.count()) return;
  for_each_at(now.count(), [&](std::uint32_t head) { take_ended(head, now.count(), ended); });
}

inline void SharedSms::take_ended(std::uint32_t head, std::int64_t now, std::vector<Ended>& ended) {
  const std::uint32_t sms = cohorts_.size(head);
  Rows& rows = sms_[head];
  for (auto at = rows.begin(); at != rows.end();) {
    Row& row = rows_[*at];
    if (row.next > now) {
      ++at;
      continue;
    }
    Launch& launch = launches_[row.work.value];
    const std::int64_t progress = row.progress_at(now);
    do {
      const Slot& slot = row.slot(0);
      ended.push_back({row.task, slot.number, static_cast<std::uint16_t>(head), slot.place, slot.count});
      blocks_ -= sms * slot.count;
      launch.blocks -= sms * slot.count;
      row.pop();
    } while (row.slots_used != 0 && row.slot(0).end <= progress);
    if (row.slots_used != 0) {
      ++at;
      continue;
    }
    free_rows_.push_back(*at);
    launch.sms -= sms;
    if (launch.blocks == 0) {
      std::erase(present_, row.work);
      presses_ -= launch.load.presses();
      unsettle(Time{now});
    }
    at = rows.erase(at);
  }
  changed(head);
}

void SharedSms::remove(WorkId work, Time now, std::vector<Ended>& gone) {
  Launch& launch = launches_[work.value];
  if (launch.blocks == 0) return;
  for (const std::uint32_t head : cohorts_.list()) {
    const std::size_t before = gone.size();
    Rows& rows = sms_[head];
    const auto kept = std::remove_if(rows.begin(), rows.end(), [&](std::uint16_t r) {
      const Row& row = rows_[r];
      if (row.work != work) return false;
      for (std::uint32_t i = 0; i < row.slots_used; ++i) {
        const Slot& slot = row.slot(i);
        gone.push_back({row.task, slot.number, static_cast<std::uint16_t>(head), slot.place, slot.count});
      }
      blocks_ -= cohorts_.size(head) * row.count;
      free_rows_.push_back(r);
      return true;
    });
    rows.erase(kept, rows.end());
    if (gone.size() != before) changed(head);
  }
  launch.blocks = launch.sms = 0;
  std::erase(present_, work);
  presses_ -= launch.load.presses();
  unsettle(now);
}

void SharedSms::contend(bool contended, Time now) {
  contended_ = contended;
  use_ = {};
  unsettled_ = false;
  if (contended) {
    settled_at_ = -kSettling;
    for (const WorkId work : present_) as_alone(launches_[work.value]);
    unsettle(now);
  }
  change_all();
}

void SharedSms::split(std::uint32_t head, std::uint32_t other) {
  for (const std::uint16_t r : sms_[head]) {
    const std::uint16_t copy = new_row();
    const Row& from = rows_[r];
    Row& to = rows_[copy];
    to.task = from.task;
    to.work = from.work;
    to.progress = from.progress;
    to.since = from.since;
    to.next = from.next;
    to.next_for = from.next_for;
    to.rate = from.rate;
    to.head = 0;
    to.slots_used = from.slots_used;
    to.count = from.count;
    to.starts = from.starts;
    to.line = from.line;
    for (std::uint32_t i = 0; i < from.slots_used; ++i) to.slots[i] = from.slot(i);
    sms_[other].push_back(copy);
  }
  if (is_changed_[head] != 0) changed(other);
  if (cohorts_.together()) set_next(other, next_of_[head]);
}

void SharedSms::join(std::uint32_t other) {
  free_rows_.insert(free_rows_.end(), sms_[other].begin(), sms_[other].end());
  sms_[other].clear();
  set_next(other, MinTree::kNone);
}

bool SharedSms::alike(std::uint32_t a, std::uint32_t b, Time now) const {
  const auto &of_a = sms_[a], &of_b = sms_[b];
  if (of_a.size() != of_b.size()) return false;
  for (std::size_t i = 0; i < of_a.size(); ++i) {
    const Row &x = rows_[of_a[i]], &y = rows_[of_b[i]];
    if (x.task != y.task || x.rate != y.rate || x.starts != y.starts || x.slots_used != y.slots_used ||
        x.next != y.next)
      return false;
    if (x.since != y.since && x.rate != kFullRate) return false;  // they would be rounded differently
    const std::int64_t ahead = y.progress_at(now.count()) - x.progress_at(now.count());
    if (launches_[x.work.value].load.at_once > 0 && x.line + ahead != y.line) return false;
    for (std::uint32_t k = 0; k < x.slots_used; ++k) {
      const Slot &p = x.slot(k), &q = y.slot(k);
      if (p.end + ahead != q.end || p.count != q.count || p.number != q.number || p.starts != q.starts ||
          p.first_start != q.first_start || p.last_start != q.last_start)
        return false;
    }
  }
  return true;
}

/// The residents of an SM are others than before: it is rated anew at the end of this instant.
inline void SharedSms::changed(std::uint32_t head) {
  if (is_changed_[head] != 0) return;
  is_changed_[head] = 1;
  changed_.push_back(static_cast<std::uint16_t>(head));
}

void SharedSms::change_all() {
  for (const std::uint32_t head : cohorts_.list())
    if (!sms_[head].empty()) changed(head);
}

void SharedSms::rate_rows(std::uint32_t head, std::int64_t now) {
  const Rows& rows = sms_[head];
  if (!contended_) {
    for (const std::uint16_t r : rows) set_rate(rows_[r], kFullRate, now);
  } else if (rows.size() == 1) {
    Row& row = rows_[rows[0]];
    const Launch& launch = launches_[row.work.value];
    Rated& rated = rated_of({launch.serial, 0, row.count});
    if (rated.older_rate == 0)
      rated.older_rate =
          rate_of(alone_on_sm(launch.issue, row.count, launch.delay, launch.load.fp64, launch.load.chance) /
                  launch.load.alone);
    set_rate(row, in_turn(row, rated.older_rate), now);
  } else if (rows.size() == 2) {
    Row &a = rows_[rows[0]], &b = rows_[rows[1]];
    older(b, a) ? rate_pair(b, a, now) : rate_pair(a, b, now);
  } else {
    rate_several(rows, now);
  }
}

bool SharedSms::older(const Row& a, const Row& b) {
  __extension__ using Wide = __int128;  // quicker than to divide
  return Wide{a.starts} * b.count < Wide{b.starts} * a.count;
}

void SharedSms::rate_pair(Row& a, Row& b, std::int64_t now) {
  const Launch &x = launches_[a.work.value], &y = launches_[b.work.value];
  const std::uint32_t distance = x.load.even && y.load.even ? kByTurns : apart(a.ages(), b.ages());
  Rated& rated = rated_of({x.serial, y.serial, distance << 16 | a.count << 8 | b.count});
  if (rated.older_rate == 0) {
    SmShare shares[] = {{x.issue, x.delay, a.count, 0, x.load.fp64, x.load.chance},
                        {y.issue, y.delay, b.count, 0, y.load.fp64, y.load.chance}};
    share_sm(shares, distance, memory_);
    rated.older_rate = rate_of(shares[0].time / x.load.alone);
    rated.younger_rate = rate_of(shares[1].time / y.load.alone);
  }
  set_rate(a, in_turn(a, rated.older_rate), now);
  set_rate(b, in_turn(b, rated.younger_rate), now);
}

void SharedSms::rate_several(const Rows& rows, std::int64_t now) {
  order_ = rows;
  std::stable_sort(order_.begin(), order_.end(),
                   [this](std::uint16_t a, std::uint16_t b) { return older(rows_[a], rows_[b]); });
  std::uint32_t least_apart = kMostApart;
  for (std::size_t k = 1; k < order_.size(); ++k)
    least_apart = std::min(least_apart, apart(rows_[order_[k - 1]].ages(), rows_[order_[k]].ages()));
  const auto even = [this](std::uint16_t r) { return launches_[rows_[r].work.value].load.even; };
  if (std::all_of(order_.begin(), order_.end(), even)) least_apart = kByTurns;
  shares_.clear();
  for (const std::uint16_t r : order_) {
    const Launch& launch = launches_[rows_[r].work.value];
    shares_.push_back({launch.issue, launch.delay, rows_[r].count, 0, launch.load.fp64, launch.load.chance});
  }
  share_sm(shares_, least_apart, memory_);
  for (std::size_t k = 0; k < order_.size(); ++k) {
    Row& row = rows_[order_[k]];
    set_rate(row, in_turn(row, rate_of(shares_[k].time / launches_[row.work.value].load.alone)), now);
  }
}

/// The entry of this key, its rates 0 if they are not known.
inline SharedSms::Rated& SharedSms::rated_of(const Rated& key) {
  const std::uint64_t bits = (std::uint64_t{key.older} << 32 | key.younger) * kScatter + key.blocks;
  if (rated_.empty()) rated_.resize(std::size_t{1} << kRatedBits);
  Rated& rated = rated_[bits * kScatter >> (64 - kRatedBits)];
  if (rated.older != key.older || rated.younger != key.younger || rated.blocks != key.blocks) rated = key;
  return rated;
}

/// A line moves on by what all its blocks do, not by what each of them does; those that run at once do not
/// wait for each other.
inline std::uint32_t SharedSms::in_turn(const Row& row, std::uint32_t rate) const {
  const BlockLoad& load = launches_[row.work.value].load;
  if (load.at_once <= 0) return rate;
  const double serving = std::max<double>(row.count, load.at_once);
  return std::max(1u, static_cast<std::uint32_t>(rate * serving / load.residents));
}

inline void SharedSms::set_rate(Row& row, std::uint32_t rate, std::int64_t now) {
  if (row.rate == rate) return;
  row.progress = row.progress_at(now);
  row.since = now;
  row.rate = rate;
  row.next_for = kUnknown;
}

inline void SharedSms::find_next(std::uint32_t head, std::int64_t now) {
  std::int64_t next = MinTree::kNone;
  for (const std::uint16_t r : sms_[head]) {
    rows_[r].find_next(now);
    next = std::min(next, rows_[r].next);
  }
  set_next(head, next);
}

void SharedSms::unsettle(Time now) {
  if (unsettled_ || !contended_ || (presses_ == 0 && use_.dram == 0)) return;
  unsettled_ = true;
  settles_at_ = std::max(now, settled_at_ + kSettling);
}

void SharedSms::settle(Time now) {
  if (contended_ && presses_ != 0) {
    for (const WorkId work : present_) {
      const Launch& launch = launches_[work.value];
      const std::uint32_t moved =
          launch.blocks > launch.settled ? launch.blocks - launch.settled : launch.settled - launch.blocks;
      if (moved * kFewBlocks > launch.settled) unsettle(now);
    }
  }
  if (unsettled_ && now >= settles_at_) {
    unsettled_ = false;
    settled_at_ = now;
    if (judge_pressure()) {
      change_all();
    }
  }
  for (const std::uint16_t head : changed_) {
    is_changed_[head] = 0;
    if (!sms_[head].empty()) rate_rows(head, now.count());
    find_next(head, now.count());
  }
  changed_.clear();
}

/// Whether that changes how long blocks take.
bool SharedSms::judge_pressure() {
  contenders_.clear();
  for (const WorkId work : present_) {
    Launch& launch = launches_[work.value];
    launch.settled = launch.blocks;
    contenders_.push_back(
        {&launch.load, static_cast<double>(launch.blocks), static_cast<double>(launch.sms), 0, 0});
  }
  bool differs = false;
  use_ = share_memory(contenders_, memory_);
  for (std::size_t i = 0; i < contenders_.size(); ++i) {
    Launch& launch = launches_[present_[i].value];
    if (launch.delay == contenders_[i].delay && launch.issue == contenders_[i].issue) continue;
    press(launch, contenders_[i].delay, contenders_[i].issue);
    differs = true;
  }
  return differs;
}

}  // namespace corun::sim
