#include "sim/stages/shared_sms.h"

#include <algorithm>
#include <numeric>

namespace corun::sim {
namespace {

constexpr int kRateBits = 20;
constexpr std::uint32_t kFullRate = 1u << kRateBits;
/// Share of a launch's blocks that may come or go before the pressure is judged again.
constexpr std::uint32_t kFewBlocks = 64;

std::uint32_t rate_of(double slowdown) {
  const double rate = kFullRate / slowdown;
  return static_cast<std::uint32_t>(std::clamp(rate, 1.0, 64.0 * kFullRate));
}

}  // namespace

std::int64_t SharedSms::Row::progress_at(std::int64_t now) const {
  const std::int64_t span = now - since;
  return progress + (span >> kRateBits) * rate + ((span & (kFullRate - 1)) * rate >> kRateBits);
}

std::int64_t SharedSms::Row::end_of_first() const {
  const std::int64_t left = first().end - progress;
  if (left <= 0) return since;
  // Whole units of 2^20 ps of time first, so that nothing overflows; then the rest, rounded up.
  const std::int64_t whole = left / rate, rest = left % rate;
  return since + (whole << kRateBits) + ((rest << kRateBits) + rate - 1) / rate;
}

void SharedSms::Row::insert(const Slot& slot) {
  std::uint32_t i = count++;
  while (i > 0 && slots[(head + i - 1) % kMostBlocks].end > slot.end) {
    slots[(head + i) % kMostBlocks] = slots[(head + i - 1) % kMostBlocks];
    --i;
  }
  slots[(head + i) % kMostBlocks] = slot;
  starts += slot.start;
}

void SharedSms::Row::pop() {
  starts -= first().start;
  head = (head + 1) % kMostBlocks;
  --count;
}

SharedSms::SharedSms(const Gpu& gpu)
    : memory_(limits_of(gpu)), sms_(gpu.sms), is_changed_(gpu.sms), next_(gpu.sms) {
  for (auto& rows : sms_) rows.reserve(4);
}

Time SharedSms::next_time() const {
  const Time end{next_.least()};
  return unsettled_ ? std::min(end, settles_at_) : end;
}

void SharedSms::introduce(WorkId work, const BlockLoad& load) {
  if (work.value >= launches_.size()) launches_.resize(work.value + 1);
  launches_[work.value] = Launch{};
  rated_.fill({});  // another launch had this number
  launches_[work.value].load = load;
}

void SharedSms::add(const Task& task, TaskId id, const Block& block, Time now) {
  std::vector<Row>& rows = sms_[block.rank];
  auto row = std::find_if(rows.begin(), rows.end(), [&](const Row& r) { return r.task == id; });
  const bool joined = row != rows.end();
  Launch& launch = launches_[task.work.value];
  if (launch.blocks++ == 0) {
    present_.push_back(task.work);
    launch.delay = launch.load.delay_alone;
    launch.issue = launch.load.issue;
    launch.rate.fill(0);
    launch.settled = 0;
    unsettle(now);
  }
  if (!joined) {
    ++launch.sms;
    row = rows.emplace(rows.end());
    row->task = id;
    row->work = task.work;
    row->arrival = task.arrival;
    row->since = now.count();
    row->rate = kFullRate;
  }
  row->insert({row->progress_at(now.count()) + block.left, block.start, block.number, block.place});
  ++blocks_;
  changed(block.rank);
}

void SharedSms::take_ended(Time now, std::vector<Ended>& ended) {
  const std::size_t first = ended.size();
  next_.for_each_least([&](std::uint32_t rank) {
    for (Row& row : sms_[rank])
      while (row.count != 0 && row.end_of_first() <= now.count()) {
        ended.push_back(
            {row.task, {0, 0, row.first().number, static_cast<std::uint16_t>(rank), row.first().place}});
        row.pop();
        --blocks_;
        Launch& launch = launches_[row.work.value];
        if (row.count == 0) --launch.sms;
        if (--launch.blocks == 0) {
          std::erase(present_, row.work);
          unsettle(now);
        }
      }
  });
  for (std::size_t i = first; i < ended.size(); ++i) {
    const std::uint32_t rank = ended[i].block.rank;
    if (i > first && ended[i - 1].block.rank == rank) continue;
    std::erase_if(sms_[rank], [](const Row& row) { return row.count == 0; });
    changed(rank);
  }
}

void SharedSms::take_all(Time now, std::vector<Ended>& out) {
  for (std::uint32_t rank = 0; rank < sms_.size(); ++rank) {
    for (Row& row : sms_[rank]) {
      const std::int64_t progress = row.progress_at(now.count());
      for (; row.count != 0; row.pop())
        out.push_back({row.task,
                       {std::max<std::int64_t>(0, row.first().end - progress), row.first().start,
                        row.first().number, static_cast<std::uint16_t>(rank), row.first().place}});
      launches_[row.work.value].blocks = launches_[row.work.value].sms = 0;
    }
    sms_[rank].clear();
    next_.set(rank, MinTree::kNone);
  }
  for (const std::uint16_t rank : changed_) is_changed_[rank] = false;
  changed_.clear();
  present_.clear();
  blocks_ = 0;
  unsettled_ = false;
  use_ = {};
}

/// The residents of an SM are others than before: it is rated anew at the end of this instant.
void SharedSms::changed(std::uint32_t rank) {
  if (is_changed_[rank]) return;
  is_changed_[rank] = true;
  changed_.push_back(static_cast<std::uint16_t>(rank));
}

std::uint32_t SharedSms::rate_alone(Launch& launch, std::uint32_t blocks) {
  std::uint32_t& rate = launch.rate[blocks];
  if (rate == 0) rate = rate_of(alone_on_sm(launch.issue, blocks, launch.delay) / launch.load.alone);
  return rate;
}

void SharedSms::rate_rows(std::uint32_t rank, std::int64_t now) {
  std::vector<Row>& rows = sms_[rank];
  if (rows.size() == 1)
    return set_rate(rows[0], rate_alone(launches_[rows[0].work.value], rows[0].count), now);
  order_.resize(rows.size());
  std::iota(order_.begin(), order_.end(), 0u);
  const auto mean_start = [&](std::uint32_t i) { return rows[i].starts / rows[i].count; };
  std::stable_sort(order_.begin(), order_.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return mean_start(a) < mean_start(b); });
  const auto starts = [&](std::uint32_t i) {
    return Starts{mean_start(i), rows[i].first().start, rows[i].last_start()};
  };
  std::uint32_t least_apart = kMostApart;
  for (std::size_t k = 1; k < order_.size(); ++k)
    least_apart = std::min(least_apart, apart(starts(order_[k - 1]), starts(order_[k])));
  Rated* known = nullptr;
  if (rows.size() == 2) {  // the usual case, and few combinations of it occur
    const Row &x = rows[order_[0]], &y = rows[order_[1]];
    const std::uint64_t key = (std::uint64_t{x.work.value} << 41 | std::uint64_t{y.work.value} << 15 |
                               least_apart << 12 | x.count << 6 | y.count) +
                              1;
    known = &rated_[(key * 0x9e3779b97f4a7c15u) >> 54];
    if (known->key == key) {
      set_rate(rows[order_[0]], known->older, now);
      set_rate(rows[order_[1]], known->younger, now);
      return;
    }
    known->key = key;
  }
  shares_.clear();
  for (const std::uint32_t i : order_) {
    const Launch& launch = launches_[rows[i].work.value];
    shares_.push_back({launch.issue, launch.delay, rows[i].count, 0});
  }
  share_sm(shares_, least_apart, memory_);
  for (std::size_t k = 0; k < order_.size(); ++k) {
    Row& row = rows[order_[k]];
    const std::uint32_t rate = rate_of(shares_[k].time / launches_[row.work.value].load.alone);
    set_rate(row, rate, now);
    if (known != nullptr) (k == 0 ? known->older : known->younger) = rate;
  }
}

void SharedSms::set_rate(Row& row, std::uint32_t rate, std::int64_t now) {
  if (row.rate == rate) return;
  row.progress = row.progress_at(now);
  row.since = now;
  row.rate = rate;
}

void SharedSms::set_next(std::uint32_t rank) {
  std::int64_t next = MinTree::kNone;
  for (const Row& row : sms_[rank]) next = std::min(next, row.end_of_first());
  next_.set(rank, next);
}

void SharedSms::unsettle(Time now) {
  if (unsettled_) return;
  unsettled_ = true;
  settles_at_ = std::max(now, settled_at_ + kSettling);
}

void SharedSms::settle(Time now) {
  for (const WorkId work : present_) {
    const Launch& launch = launches_[work.value];
    const std::uint32_t moved =
        launch.blocks > launch.settled ? launch.blocks - launch.settled : launch.settled - launch.blocks;
    if (moved * kFewBlocks > launch.settled) unsettle(now);
  }
  if (unsettled_ && now >= settles_at_) {
    unsettled_ = false;
    settled_at_ = now;
    if (judge_pressure())
      for (std::uint32_t rank = 0; rank < sms_.size(); ++rank)
        if (!sms_[rank].empty()) changed(rank);
  }
  for (const std::uint16_t rank : changed_) {
    is_changed_[rank] = false;
    if (!sms_[rank].empty()) rate_rows(rank, now.count());
    set_next(rank);
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
    launch.delay = contenders_[i].delay;
    launch.issue = contenders_[i].issue;
    launch.rate.fill(0);
    differs = true;
  }
  if (differs) rated_.fill({});
  return differs;
}

}  // namespace corun::sim
