// Blocks that end and are replaced at once by the next ones of their task: what the contention model need not look
// into then.  Exact to the tick.
#include <algorithm>

#include "sim/stages/contention_model.h"

namespace corun::sim {

// ---- one round of a launch that is alone is like the next -------------------------------------------------

std::optional<ContentionModel::Round> ContentionModel::round(const Cohorts& cohorts, Time now) const {
  if (present_.size() != 1) return std::nullopt;
  const Launch& launch = launches_[present_.front().value];
  const bool judged = pressure_.only == present_.front() && launch.settled == launch.blocks && launch.settled_sms == launch.sms;
  if (feels_pressure() && !judged) return std::nullopt;
  for (const std::uint16_t head : cohorts.list()) {
    const Rows& rows = sms_[head];
    if (rows.empty()) continue;
    const BlockRow& row = rows_[rows.front()];
    const bool all = cohorts.size(head) * row.count == launch.blocks;
    if (!all || row.slots_used != 1 || row.since != now.count() || row.progress != 0) return std::nullopt;
    return Round{present_.front(), head, launch.blocks, Time{row.next} - now};
  }
  return std::nullopt;
}

void ContentionModel::skip(const Round& round, std::int64_t rounds, bool restarts, Time now) {
  CORUN_EXPECTS(rounds > 0 && round.length > Time{});
  CORUN_EXPECTS(changed_.empty() && counted_.empty() && ended_.empty());
  const Time end = now + round.length * rounds;
  BlockRow& row = rows_[sms_[round.head].front()];
  row.skip((end - now).count(), restarts);
  ends_[round.head] = next_end_ = row.next;
  if (!feels_pressure()) return;
  // At the end of each round its launch has no block for an instant, so that the pressure is judged anew, which
  // changes nothing but when that may be done again.
  for (Time t = now + round.length; t <= end; t += round.length) {
    if (pressure_.unsettled && pressure_.settles_at < t) pressure_.settled_at = pressure_.settles_at, pressure_.unsettled = false;
    unsettle(t);
    if (pressure_.settles_at > t) continue;
    pressure_.settled_at = t, pressure_.unsettled = false;
    if (round.length < kSettling) continue;
    pressure_.settled_at = end;  // as at each end from now on
    return;
  }
}

// ---- one instant at which blocks end and the next ones begin ----------------------------------------------

bool ContentionModel::endings(Time now, const Cohorts& cohorts, Endings& endings) const {
  endings.clear();
  if (next_end_ != now.count()) return false;
  const auto look = [&](std::uint16_t head) {
    bool found = false;
    for (const std::uint16_t r : sms_[head]) {
      const BlockRow& row = rows_[r];
      if (row.next > now.count()) continue;
      if (found) return false;
      found = true;
      const std::int64_t progress = row.progress_at(now.count());
      Ending e{row.work, row.task, head, r, 0, 0};
      do {
        const BlockRow::Slot& slot = row.slot(e.slots++);
        if (slot.number == kNoBlock) return false;
        e.count += slot.count;
      } while (e.slots != row.slots_used && row.slot(e.slots).end <= progress);
      endings.push_back(e);
    }
    return found;
  };
  if (!several_due_) return look(due_);
  return std::ranges::all_of(cohorts.list(), [&](std::uint16_t head) { return ends_[head] != now.count() || look(head); });
}

void ContentionModel::replace(const Ending& e, std::int64_t left, std::int64_t start, bool alike, Time now) {
  BlockRow& row = rows_[e.row];
  CORUN_EXPECTS_SLOW(row.work == e.work && launches_[e.work.value].load.at_once <= 0);
  count(launches_[e.work.value], e.work, 0);
  boost::container::static_vector<std::uint16_t, kMostBlocks> counts;
  for (std::uint32_t i = 0; i < e.slots; ++i) {
    counts.push_back(row.slot(0).count);
    row.pop();
  }
  const bool begins = row.slots_used == 0;
  Rows& rows = sms_[e.head];
  if (begins) {  // as the last that came
    const std::uint32_t rate = row.rate;
    row.begin(e.task, e.work, now.count());
    row.rate = rate;
    rows.erase(std::ranges::find(rows, e.row));
    rows.push_back(e.row);
  }
  const std::int64_t end = row.progress_at(now.count()) + left;
  for (const std::uint16_t count : counts)
    row.insert({end, start * count, start, start, 0, 0, count}, together_);
  // Of rows that are equally old the first counts as the older one.
  const auto as_old = [&](std::uint16_t r) { return r != e.row && !older(rows_[r], row) && !older(row, rows_[r]); };
  if (!alike || (begins && std::ranges::any_of(rows, as_old)))
    changed(e.head);
  else
    renewed(e.head);
}

void ContentionModel::replaced_all(WorkId work, Time now) {
  std::erase(present_, work);
  present_.push_back(work);
  unsettle(now);
}

}  // namespace corun::sim
