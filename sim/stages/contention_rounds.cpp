// Rounds of a launch that is alone: its blocks all end at one instant, and the next ones begin.  One is like
// the one before, and need not be looked into.  Exact to the tick.
#include "sim/stages/contention_model.h"

namespace corun::sim {

std::optional<ContentionModel::Round> ContentionModel::round(const Cohorts& cohorts, Time now) const {
  if (present_.size() != 1) return std::nullopt;
  const Launch& launch = launches_[present_.front().value];
  const bool judged = pressure_.only == present_.front() && launch.settled == launch.blocks &&
                      launch.settled_sms == launch.sms;
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

void ContentionModel::skip(const Round& round, std::int64_t rounds, bool restarts, const Cohorts& cohorts,
                           Time now) {
  CORUN_EXPECTS(rounds > 0 && round.length > Time{});
  CORUN_EXPECTS(changed_.empty() && counted_.empty() && ended_.empty());
  const Time end = now + round.length * rounds;
  BlockRow& row = rows_[sms_[round.head].front()];
  row.skip((end - now).count(), restarts);
  ends_.set(round.head, row.next);
  ends_.find_first(cohorts);
  if (!feels_pressure()) return;
  // At the end of each round the launch has no block for an instant. The engine then asks for the pressure to
  // be judged anew. The judgement finds what it found before, but between two judgements at least kSettling
  // passes. So the loop goes through the ends of the rounds, and keeps only when the pressure was judged last
  // and whether it is to be judged again.
  for (Time t = now + round.length; t <= end; t += round.length) {
    if (pressure_.unsettled && pressure_.settles_at < t)
      pressure_.settled_at = pressure_.settles_at, pressure_.unsettled = false;
    unsettle(t);
    if (pressure_.settles_at > t) continue;
    pressure_.settled_at = t, pressure_.unsettled = false;
    if (round.length < kSettling) continue;
    // Rounds are longer than kSettling: the pressure is judged at this end and at each one after it.
    pressure_.settled_at = end;
    return;
  }
}

}  // namespace corun::sim
