// The time of a host program that issues for all clients with one thread, as hw/backend does: decisions, hand-overs
// and ends take it one after the other, and the thread hears of nothing meanwhile.  Where clients are processes, each
// hands over by itself.
//
// Leaves out: what stopping, resizing and asking for progress cost the thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include "policies/session/profile_file.h"
#include "traces/model/expects.h"
#include "traces/model/ids.h"
#include "traces/model/time.h"

namespace corun::sim {

class HostThread {
 public:
  /// Nothing takes its time: each client has a thread of its own.
  HostThread() = default;
  /// `processes`: clients that hand over by themselves; 0: the thread does it for all.
  HostThread(const HostCosts& costs, std::size_t processes) : costs_(costs), process_free_(processes) {
    CORUN_EXPECTS(costs.launch_call >= Time{} && costs.held_call >= Time{});
    CORUN_EXPECTS(costs.hand_over >= Time{} && costs.end_call >= Time{} && costs.take_back >= Time{});
  }

  bool takes_time() const { return costs_.has_value(); }
  /// When it has done what it is at.
  Time free() const { return free_; }

  /// A launch is decided.  When the call begins that hands it over; of one that is `held`, when deciding does.
  Time decide(Time now, ClientId client, bool held) {
    if (!costs_) return now;
    const Time from = std::max(now, free_);
    if (process_free_.empty()) {
      free_ = from + (held ? costs_->held_call : costs_->launch_call);
      return from;
    }
    CORUN_EXPECTS(client.value < process_free_.size());
    free_ = from + costs_->held_call;
    Time& free = process_free_[client.value];
    const Time begins = std::max(free_, free);
    free = begins + costs_->hand_over;
    return begins;
  }
  /// It hands over what it held.  When that begins.
  Time hand_over(Time now) { return spend(now, costs_->hand_over); }
  void hear_of_end(Time now) { spend(now, costs_->end_call); }
  void take_back(Time now) { spend(now, costs_->take_back); }

 private:
  Time spend(Time now, Time cost) {
    const Time from = std::max(now, free_);
    free_ = from + cost;
    return from;
  }

  std::optional<HostCosts> costs_;
  Time free_{};
  std::vector<Time> process_free_;  // the same by client
};

}  // namespace corun::sim
