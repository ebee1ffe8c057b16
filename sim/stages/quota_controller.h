// Launches with a number of CTAs per SM, by fulfil and retreat: which further instances are needed, and when
// (Chen, smCompactor, section 4.3.4).  The host sees in the workers' counts what is missing, and launches
// again.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "sim/stages/task.h"
#include "traces/model/expects.h"

namespace corun::sim {

class QuotaController {
 public:
  explicit QuotaController(Time launch_latency) : launch_latency_(launch_latency) {
    CORUN_EXPECTS(launch_latency >= Time{});
  }

  /// Another instance of one full residency reaches the TMU.
  void began(WorkId id, Spread& spread, Time now) {
    CORUN_EXPECTS(!spread.quota.empty() && spread.workers != 0);
    CORUN_EXPECTS(now >= spread.came);
    spread.trying = true;
    spread.newest = Spread::Newest::waiting;
    spread.came = now;
    std::erase(wanting_, id);
  }
  /// An instance has been placed, the numbers have changed, or an SM that it wants has got room.  `place_left`: a worker
  /// more could stay somewhere.  True: a further instance comes at once, which only `immediately` allows.
  bool seek(WorkId id, Work& work, bool place_left, Time now, bool immediately = false);
  /// The launch needs no more instances.
  void forget(WorkId id) {
    std::erase(wanting_, id);
    std::erase(in_vain_, id);
    std::erase_if(further_, [id](const Further& f) { return f.work == id; });
  }

  /// When a further instance reaches the TMU.
  Time next_time() const { return further_.empty() ? kNever : further_.front().at; }
  /// One that does by now.
  std::optional<WorkId> take_due(Time now) {
    if (further_.empty() || further_.front().at > now) return std::nullopt;
    const WorkId work = further_.front().work;
    further_.erase(further_.begin());
    return work;
  }
  /// The newest instance of these came and went at the last instant: they are to seek again.
  std::vector<WorkId> take_in_vain() { return std::exchange(in_vain_, {}); }
  bool any_in_vain() const { return !in_vain_.empty(); }
  /// Those that wait for room, first come first.
  const std::vector<WorkId>& wanting() const { return wanting_; }
  bool any_wants() const { return !wanting_.empty(); }

 private:
  struct Further {
    Time at;
    WorkId work;
  };

  Time launch_latency_;
  std::vector<Further> further_;  // in the order of their times, which is that of their making
  std::vector<WorkId> wanting_;   // fewer workers than they are to have, for want of room
  std::vector<WorkId> in_vain_;
};

}  // namespace corun::sim
