#include "sim/stages/contention_model.h"

#include <algorithm>

#include <boost/container/small_vector.hpp>

namespace corun::sim {
namespace {

/// Share of a launch's blocks that may come or go before the pressure is judged again.
constexpr std::uint32_t kFewBlocks = 64;

using Contenders = boost::container::small_vector<Contender, 16>;
using Numbers = boost::container::small_vector<std::uint32_t, 16>;

std::uint32_t rate_of(double slowdown) {
  const double rate = kFullRate / slowdown;
  return static_cast<std::uint32_t>(std::clamp(rate, 1.0, 64.0 * kFullRate));
}

}  // namespace

ContentionModel::ContentionModel(const Gpu& gpu, bool together)
    : memory_(limits_of(gpu)), together_(together), sms_(gpu.sms), ends_(gpu.sms), is_changed_(gpu.sms) {
  CORUN_EXPECTS(gpu.sms <= kMaxSms && gpu.sm.max_blocks <= kMostBlocks);
  pressure_.settled_at = -kSettling;
}

Time ContentionModel::next_time() const {
  const Time end{ends_.first()};
  return pressure_.unsettled ? std::min(end, pressure_.settles_at) : end;
}

// ---- blocks come and go -----------------------------------------------------------------------------------

void ContentionModel::introduce(WorkId work, const BlockLoad& load) {
  CORUN_EXPECTS(load.contends());
  CORUN_EXPECTS(load.sm.oldest_served <= 0 || load.extent.residents != 0);
  if (work.value >= launches_.size()) launches_.resize(work.value + 1);
  Launch& launch = launches_[work.value];
  CORUN_EXPECTS(launch.blocks == 0);  // of the one that had the number
  launch.load = load;
  launch.number = memory_.number_of(load);
  launch.kind = {0, 0, load.alone_ps, load.sm.arrival_randomness, load.sm.uses, load.sm.accounted};
  as_alone(launch);
}

/// What was known of a launch of this number, or under another pressure, no longer holds.
void ContentionModel::as_alone(Launch& launch) {
  launch.settled = launch.settled_sms = 0;
  press(launch, launch.load.delay_alone_ps, launch.load.sm.issue_ps);
}

void ContentionModel::press(Launch& launch, double delay, double issue) {
  launch.kind.delay = delay;
  launch.kind.issue = issue;
  launch.serial = rates_.serial_of(launch.kind);
}

/// `blocks` of its blocks have come; negative: have gone.
inline void ContentionModel::count(Launch& launch, WorkId work, std::int64_t blocks) {
  launch.blocks = static_cast<std::uint32_t>(launch.blocks + blocks);
  if (launch.counted) return;
  launch.counted = true;
  counted_.push_back(work);
}

/// Its first block, or its last.
void ContentionModel::came(Launch& launch, WorkId work, Time now) {
  present_.push_back(work);
  pressure_.launches += launch.load.presses();
  unsettle(now);
}
void ContentionModel::went(Launch& launch, WorkId work, Time now) {
  std::erase(present_, work);
  pressure_.launches -= launch.load.presses();
  unsettle(now);
}

std::uint16_t ContentionModel::new_row() {
  if (free_rows_.empty()) {
    rows_.emplace_back();
    return static_cast<std::uint16_t>(rows_.size() - 1);
  }
  const std::uint16_t row = free_rows_.back();
  free_rows_.pop_back();
  return row;
}

inline BlockRow& ContentionModel::row_of(TaskId task, WorkId work, std::uint32_t head, std::uint32_t sms,
                                         std::int64_t now) {
  Rows& rows = sms_[head];
  for (const std::uint16_t r : rows)
    if (rows_[r].task == task) return rows_[r];
  launches_[work.value].sms += sms;
  rows.push_back(new_row());
  BlockRow& row = rows_[rows.back()];
  row.begin(task, work, now);
  return row;
}

void ContentionModel::add(TaskId task, WorkId work, const Blocks& blocks, const Cohorts& cohorts, Time now) {
  CORUN_EXPECTS(work.value < launches_.size());
  CORUN_EXPECTS(blocks.count != 0 && blocks.left >= 0 && blocks.start <= now.count());
  CORUN_EXPECTS_SLOW(cohorts.heads().test(blocks.head));
  const std::uint32_t sms = cohorts.size(blocks.head);
  Launch& launch = launches_[work.value];
  if (launch.blocks == 0) came(launch, work, now);
  count(launch, work, std::int64_t{sms} * blocks.count);
  BlockRow& row = row_of(task, work, blocks.head, sms, now.count());
  changed(blocks.head);
  const std::int64_t progress = row.progress_at(now.count());
  if (const double oldest_served = launch.load.sm.oldest_served;
      oldest_served > 0 && blocks.number != kNoBlock) {
    // Each joins a backlog that moves on by a block when a full SM would have done one.
    const std::int64_t step = blocks.left / launch.load.extent.residents;
    const auto least =
        progress + std::max<std::int64_t>(1, static_cast<std::int64_t>(static_cast<double>(step) *
                                                                       std::max(1.0, oldest_served)));
    for (std::uint32_t i = 0; i < blocks.count; ++i) {
      row.backlog = std::max(progress, row.backlog) + step;
      row.insert({std::max(least, row.backlog), blocks.start, blocks.start, blocks.start, blocks.number,
                  blocks.place, 1},
                 together_);
    }
    return;
  }
  row.insert({progress + blocks.left, blocks.start * blocks.count, blocks.start, blocks.start, blocks.number,
              blocks.place, static_cast<std::uint16_t>(blocks.count)},
             together_);
}

void ContentionModel::take_ended(Time now, const Cohorts& cohorts) {
  if (ends_.first() > now.count()) return;
  CORUN_EXPECTS(ends_.first() == now.count());  // else an end was missed
  ends_.for_each_first(cohorts,
                       [&](std::uint16_t head) { take_ended(head, cohorts.size(head), now.count()); });
}

inline void ContentionModel::take_ended(std::uint32_t head, std::uint32_t sms, std::int64_t now) {
  Rows& rows = sms_[head];
  for (auto at = rows.begin(); at != rows.end();) {
    BlockRow& row = rows_[*at];
    if (row.next > now) {
      ++at;
      continue;
    }
    Launch& launch = launches_[row.work.value];
    const std::int64_t progress = row.progress_at(now);
    do {
      const BlockRow::Slot& slot = row.slot(0);
      ended_.push_back({row.task, slot.number, static_cast<std::uint16_t>(head), slot.place, slot.count});
      count(launch, row.work, -std::int64_t{sms} * slot.count);
      row.pop();
    } while (row.slots_used != 0 && row.slot(0).end <= progress);
    if (row.slots_used != 0) {
      ++at;
      continue;
    }
    free_rows_.push_back(*at);
    launch.sms -= sms;
    if (launch.blocks == 0) went(launch, row.work, Time{now});
    at = rows.erase(at);
  }
  changed(head);
}

void ContentionModel::remove(WorkId work, Time now, const Cohorts& cohorts, std::vector<Ended>& gone) {
  CORUN_EXPECTS(work.value < launches_.size());
  Launch& launch = launches_[work.value];
  if (launch.blocks == 0) return;
  for (const std::uint32_t head : cohorts.list()) {
    const std::size_t before = gone.size();
    Rows& rows = sms_[head];
    const auto kept = std::remove_if(rows.begin(), rows.end(), [&](std::uint16_t r) {
      const BlockRow& row = rows_[r];
      if (row.work != work) return false;
      for (std::uint32_t i = 0; i < row.slots_used; ++i) {
        const BlockRow::Slot& slot = row.slot(i);
        gone.push_back({row.task, slot.number, static_cast<std::uint16_t>(head), slot.place, slot.count});
      }
      free_rows_.push_back(r);
      return true;
    });
    rows.erase(kept, rows.end());
    if (gone.size() != before) changed(head);
  }
  launch.blocks = launch.sms = 0;
  went(launch, work, now);
}

// ---- cohorts ----------------------------------------------------------------------------------------------

void ContentionModel::split(std::uint32_t head, std::uint32_t other) {
  CORUN_EXPECTS(head != other && sms_[other].empty());
  for (const std::uint16_t r : sms_[head]) {
    const std::uint16_t copy = new_row();
    rows_[copy] = rows_[r];
    sms_[other].push_back(copy);
  }
  if (is_changed_[head] != 0) changed(other);
  ends_.split(head, other);
}

void ContentionModel::end_at_both(std::uint32_t head, std::uint32_t other) {
  for (std::size_t i = 0, n = ended_.size(); i < n; ++i) {
    if (ended_[i].head != head) continue;
    Ended same = ended_[i];
    same.head = static_cast<std::uint16_t>(other);
    ended_.push_back(same);
  }
}

void ContentionModel::end_singly(TaskId task, const SmMask& heads) {
  for (std::size_t i = 0, n = ended_.size(); i < n; ++i) {
    if (ended_[i].task != task || ended_[i].count == 1 || !heads.test(ended_[i].head)) continue;
    Ended one = ended_[i];
    one.count = 1;
    ended_.insert(ended_.end(), ended_[i].count - 1, one);
    ended_[i].count = 1;
  }
}

void ContentionModel::merge(std::uint32_t other) {
  free_rows_.insert(free_rows_.end(), sms_[other].begin(), sms_[other].end());
  sms_[other].clear();
  ends_.merge(other);
}

bool ContentionModel::alike(std::uint32_t a, std::uint32_t b, Time now) const {
  const auto &of_a = sms_[a], &of_b = sms_[b];
  if (of_a.size() != of_b.size()) return false;
  for (std::size_t i = 0; i < of_a.size(); ++i) {
    const BlockRow& row = rows_[of_a[i]];
    if (!row.alike(rows_[of_b[i]], launches_[row.work.value].load.sm.oldest_served > 0, now.count()))
      return false;
  }
  return true;
}

std::uint64_t ContentionModel::signature(std::uint32_t head) const {
  std::uint64_t bits = 0;
  for (const std::uint16_t r : sms_[head]) {
    const BlockRow& row = rows_[r];
    bits = (bits ^ static_cast<std::uint64_t>(row.next) ^ static_cast<std::uint64_t>(row.starts) << 1 ^
            std::uint64_t{row.task.value} << 40) *
           0xff51afd7ed558ccdu;
  }
  return bits;
}

// ---- rates ------------------------------------------------------------------------------------------------

/// The residents of an SM are others than before: it is rated anew at the end of this instant.
inline void ContentionModel::changed(std::uint32_t head) {
  if (is_changed_[head] != 0) return;
  is_changed_[head] = 1;
  changed_.push_back(static_cast<std::uint16_t>(head));
}

void ContentionModel::change_all(const Cohorts& cohorts) {
  for (const std::uint32_t head : cohorts.list())
    if (!sms_[head].empty()) changed(head);
}

void ContentionModel::contend(bool contended, Time now, const Cohorts& cohorts) {
  if (contended == contended_) return;
  contended_ = contended;
  pressure_.dram = 0;
  pressure_.unsettled = false;
  if (contended) {
    pressure_.settled_at = -kSettling;
    for (const WorkId work : present_) as_alone(launches_[work.value]);
    unsettle(now);
  }
  change_all(cohorts);
}

void ContentionModel::settle(Time now, const Cohorts& cohorts, LossMeter* losses) {
  CORUN_EXPECTS(losses == nullptr || !together_);
  CORUN_EXPECTS_SLOW(now >= pressure_.settled_at);
  const bool pressed = contended_ && pressure_.launches != 0;
  for (const WorkId work : counted_) {
    Launch& launch = launches_[work.value];
    launch.counted = false;
    const std::uint32_t moved =
        launch.blocks > launch.settled ? launch.blocks - launch.settled : launch.settled - launch.blocks;
    if (pressed && moved * kFewBlocks > launch.settled) unsettle(now);
  }
  counted_.clear();
  if (pressure_.unsettled && now >= pressure_.settles_at) {
    pressure_.unsettled = false;
    pressure_.settled_at = now;
    if (judge_pressure(losses) || losses != nullptr) change_all(cohorts);
  }
  if (changed_.empty()) return;
  for (const std::uint16_t head : changed_) {
    is_changed_[head] = 0;
    if (!sms_[head].empty()) rate_rows(head, now.count());
    if (losses != nullptr) tell(*losses, head, now.count());
    find_next(head, now.count());
  }
  changed_.clear();
  ends_.find_first(cohorts);
}

inline void ContentionModel::find_next(std::uint32_t head, std::int64_t now) {
  std::int64_t next = NextEnds::kNone;
  for (const std::uint16_t r : sms_[head]) {
    rows_[r].find_next(now);
    next = std::min(next, rows_[r].next);
  }
  ends_.set(head, next);
}

void ContentionModel::rate_rows(std::uint32_t head, std::int64_t now) {
  const Rows& rows = sms_[head];
  if (!contended_) {
    for (const std::uint16_t r : rows) rows_[r].set_rate(kFullRate, now);
  } else if (rows.size() == 1) {
    BlockRow& row = rows_[rows[0]];
    const Launch& launch = launches_[row.work.value];
    RateTable::Rates& rates = rates_.rates_of({launch.serial, 0, row.count});
    if (rates.older == 0)
      rates.older = rate_of(launch.kind.alone_on_sm(row.count) / launch.kind.alone);
    row.set_rate(oldest_first(row, rates.older), now);
  } else if (rows.size() == 2) {
    BlockRow &a = rows_[rows[0]], &b = rows_[rows[1]];
    older(b, a) ? rate_pair(b, a, now) : rate_pair(a, b, now);
  } else {
    rate_several(rows, now);
  }
}

bool ContentionModel::older(const BlockRow& a, const BlockRow& b) {
  __extension__ using Wide = __int128;  // quicker than to divide
  return Wide{a.starts} * b.count < Wide{b.starts} * a.count;
}

void ContentionModel::rate_pair(BlockRow& a, BlockRow& b, std::int64_t now) {
  const Launch &x = launches_[a.work.value], &y = launches_[b.work.value];
  const std::uint32_t distance =
      x.load.sm.processor_sharing && y.load.sm.processor_sharing ? kProcessorSharing : apart(a.ages(), b.ages());
  RateTable::Rates& rates = rates_.rates_of({x.serial, y.serial, distance << 16 | a.count << 8 | b.count});
  if (rates.older == 0) {
    SmShare shares[] = {x.kind.share(a.count), y.kind.share(b.count)};
    share_sm(shares, distance, memory_.limits());
    rates.older = rate_of(shares[0].time_ps / x.kind.alone);
    rates.younger = rate_of(shares[1].time_ps / y.kind.alone);
  }
  a.set_rate(oldest_first(a, rates.older), now);
  b.set_rate(oldest_first(b, rates.younger), now);
}

/// Oldest first.
ContentionModel::Rows ContentionModel::by_age(const Rows& rows) const {
  Rows order;
  for (const std::uint16_t row : rows) {
    order.push_back(row);
    for (std::size_t k = order.size() - 1; k > 0 && older(rows_[row], rows_[order[k - 1]]); --k)
      std::swap(order[k], order[k - 1]);
  }
  return order;
}

std::uint32_t ContentionModel::least_apart(const Rows& order) const {
  std::uint32_t least = kMostApart;
  for (std::size_t k = 1; k < order.size(); ++k)
    least = std::min(least, apart(rows_[order[k - 1]].ages(), rows_[order[k]].ages()));
  const auto sharing = [this](std::uint16_t r) {
    return launches_[rows_[r].work.value].load.sm.processor_sharing;
  };
  return std::all_of(order.begin(), order.end(), sharing) ? kProcessorSharing : least;
}

void ContentionModel::rate_several(const Rows& rows, std::int64_t now) {
  const Rows order = by_age(rows);
  const std::uint32_t distance = least_apart(order);
  RateTable::SeveralRates* known = nullptr;
  if (order.size() <= RateTable::kMost) {
    RateTable::Several company{{}, {}, distance};
    for (std::size_t k = 0; k < order.size(); ++k) {
      company.kinds[k] = launches_[rows_[order[k]].work.value].serial;
      company.blocks[k] = rows_[order[k]].count;
    }
    known = &rates_.rates_of_several(company);
  }
  const bool found = known != nullptr && known->front() != 0;
  boost::container::static_vector<SmShare, kMostBlocks> shares;
  if (!found) {
    for (const std::uint16_t r : order)
      shares.push_back(launches_[rows_[r].work.value].kind.share(rows_[r].count));
    share_sm({shares.data(), shares.size()}, distance, memory_.limits());
  }
  for (std::size_t k = 0; k < order.size(); ++k) {
    BlockRow& row = rows_[order[k]];
    const std::uint32_t rate =
        found ? (*known)[k] : rate_of(shares[k].time_ps / launches_[row.work.value].kind.alone);
    if (known != nullptr) (*known)[k] = rate;
    row.set_rate(oldest_first(row, rate), now);
  }
}

/// A backlog served oldest first moves on by what all its blocks do, not by what each of them does; those
/// that run at once do not wait for each other.
inline std::uint32_t ContentionModel::oldest_first(const BlockRow& row, std::uint32_t rate) const {
  const BlockLoad& load = launches_[row.work.value].load;
  if (load.sm.oldest_served <= 0) return rate;
  const double serving = std::max<double>(row.count, load.sm.oldest_served);
  return std::max(1u, static_cast<std::uint32_t>(rate * serving / load.extent.residents));
}

void ContentionModel::tell(LossMeter& losses, std::uint32_t head, std::int64_t now) const {
  const Rows order = by_age(sms_[head]);
  boost::container::static_vector<LossMeter::Row, kMostBlocks> rows;
  for (const std::uint16_t r : order) {
    const BlockRow& row = rows_[r];
    rows.push_back({row.work, row.count, launches_[row.work.value].settled != 0});
  }
  losses.rated(head, now, {rows.data(), rows.size()}, contended_ ? least_apart(order) : 0, contended_);
}

// ---- pressure ---------------------------------------------------------------------------------------------

void ContentionModel::unsettle(Time now) {
  if (pressure_.unsettled || !feels_pressure()) return;
  pressure_.unsettled = true;
  pressure_.settles_at = std::max(now, pressure_.settled_at + kSettling);
}

/// Whether that changes how long blocks take.
bool ContentionModel::judge_pressure(LossMeter* losses) {
  Contenders contenders;
  Numbers numbers;
  pressure_.only.reset();
  if (present_.size() == 1) pressure_.only = present_.front();
  for (const WorkId work : present_) {
    Launch& launch = launches_[work.value];
    launch.settled = launch.blocks, launch.settled_sms = launch.sms;
    numbers.push_back(launch.number);
    contenders.push_back(
        {&launch.load, static_cast<double>(launch.blocks), static_cast<double>(launch.sms), 0, 0});
  }
  if (losses != nullptr) losses->judged(present_, {contenders.data(), contenders.size()});
  bool differs = false;
  pressure_.dram =
      memory_.share({contenders.data(), contenders.size()}, {numbers.data(), numbers.size()}).dram;
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    Launch& launch = launches_[present_[i].value];
    if (launch.kind.delay == contenders[i].delay_ps && launch.kind.issue == contenders[i].issue_ps) continue;
    press(launch, contenders[i].delay_ps, contenders[i].issue_ps);
    differs = true;
  }
  return differs;
}

MemoryUse ContentionModel::memory_for_another() const {
  Contenders contenders;
  Numbers numbers;
  for (const Launch& launch : launches_) {
    if (launch.blocks == 0) continue;
    const double n = launch.blocks;
    numbers.push_back(launch.number);
    contenders.push_back({&launch.load, n, n / launch.load.extent.residents, 0});
  }
  return memory_.share({contenders.data(), contenders.size()}, {numbers.data(), numbers.size()});
}

double ContentionModel::dram_use() const {
  if (contended_) return pressure_.dram;
  double use = 0;
  for (const Launch& launch : launches_)
    if (launch.blocks != 0)
      use +=
          launch.blocks * bytes_moved(launch.load) / launch.load.alone_ps / memory_.limits().dram.read_bytes_per_ps;
  return std::min(1.0, use);
}

}  // namespace corun::sim
