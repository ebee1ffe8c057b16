// Which best-effort launches end before the next real-time request is expected: those may go, as in batch scheduling a job
// that ends before the first job's reserved start is let past it (Lifka 1995, EASY backfilling).  For where a kernel that
// is on the GPU cannot be stopped, or not soon.
//
// Expected is what a client has done: of its last gaps between requests, without the shortest and the longest, its next request
// comes after the shortest at the soonest, and within an eighth more.  One whose gaps differ by more than that is not expected at
// all, nor one that is later: irregular arrivals hold nothing back.  A launch is held back from one request at most: after it, it
// goes first.
//
// Leaves out: what a kernel has not been seen to take, which counts as nothing; that kernels of several streams may share the
// GPU: their times add up.
#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <vector>

#include "policies/real_time_mode.h"

namespace corun {

/// When a client's next request comes, from when its requests came.
class RegularArrivals {
 public:
  static constexpr std::size_t kGaps = 8;
  static constexpr int kRegular = 8;  // gaps that differ by at most this part of the shortest are regular
  struct Window {
    Time soonest{}, latest{};
  };

  void arrived(Time at) {
    if (last_) gaps_[n_++ % kGaps] = at - *last_;
    last_ = at;
  }
  std::optional<Window> next() const {
    if (n_ < kGaps) return {};
    std::array<Time, kGaps> sorted = gaps_;
    std::ranges::sort(sorted);
    const Time least = sorted[1], most = sorted[kGaps - 2];
    if (most - least > least / kRegular) return {};
    return Window{*last_ + least, *last_ + least + least / kRegular};
  }

 private:
  std::array<Time, kGaps> gaps_{};
  std::size_t n_ = 0;
  std::optional<Time> last_;
};

class Backfill {
 public:
  /// Launches of a stream on the GPU while a request is expected: what kernels take differs, and what is launched early would
  /// end when it was not meant to.
  static constexpr std::uint32_t kDepth = 4;

  /// To be called first in decide().
  void look(const Snapshot& now) {
    for (const Notice& notice : now.notices)
      if (const auto* arrived = std::get_if<RequestArrived>(&notice);
          arrived != nullptr && now.clients[arrived->client.value].client->service_class == ServiceClass::real_time) {
        arrivals_[arrived->client].arrived(now.now);
        passed_.insert(passed_.end(), held_.begin(), held_.end());
        held_.clear();
      }
    const auto gone = [&](LaunchId id) {
      const LaunchView& l = now.launch(id);
      return l.id != id || l.state != LaunchState::pending;
    };
    std::erase_if(held_, gone);
    std::erase_if(passed_, gone);
    expected_.reset();
    for (const auto& [client, arrivals] : arrivals_)
      if (const auto next = arrivals.next(); next && now.now < next->latest)
        if (!expected_ || next->soonest < expected_->soonest) expected_ = next;
    ends_ = now.now;
    lanes_.clear();
    holds_ = false;
    if (!expected_) return;
    for (LaunchId id : now.running) {
      const LaunchView& l = now.launch(id);
      if (l.kernel == nullptr || is_real_time(now, l)) continue;
      Time left = time_left(l);
      if (lane_of(l).launched++ == 0) left = std::max(Time{}, left - (now.now - begun(now, l)));  // others are behind it
      ends_ += left;
    }
  }

  /// Whether this pending best-effort launch may go now, to be asked in order; it counts as gone if so.
  bool may_go(const LaunchView& l) {
    if (!expected_) return true;
    Lane& lane = lane_of(l);
    if (lane.launched >= kDepth) return false;
    const Time end = ends_ + time_left(l);
    if (end > expected_->soonest && l.solo_time > Time{} && std::ranges::find(passed_, l.id) == passed_.end()) {
      lane.launched = kDepth;
      holds_ = true;
      if (std::ranges::find(held_, l.id) == held_.end()) held_.push_back(l.id);
      return false;
    }
    ++lane.launched;
    ends_ = end;
    return true;
  }
  /// When what is held goes if no request comes; nothing is held: never.
  Time until() const { return holds_ ? expected_->latest : kNever; }

 private:
  struct Lane {  // a stream
    ClientId client;
    StreamId stream;
    std::uint32_t launched = 0;  // kDepth: no more
  };
  Lane& lane_of(const LaunchView& l) {
    for (Lane& lane : lanes_)
      if (lane.client == l.client && lane.stream == l.stream) return lane;
    return lanes_.emplace_back(l.client, l.stream);
  }
  static Time time_left(const LaunchView& l) {
    if (l.blocks_done == 0) return l.solo_time;
    const auto blocks = static_cast<std::int64_t>(l.kernel->blocks());
    return l.solo_time / blocks * (blocks - static_cast<std::int64_t>(l.blocks_done));
  }
  static Time begun(const Snapshot& now, const LaunchView& l) {
    for (const StreamView& s : now.streams)
      if (s.client == l.client && s.stream == l.stream) return std::max(s.ended_at, l.submitted_at);
    return l.submitted_at;
  }

  std::map<ClientId, RegularArrivals> arrivals_;
  std::optional<RegularArrivals::Window> expected_;  // of all clients the first
  Time ends_{};                                      // of what is on the GPU, and what has been let go since
  std::vector<Lane> lanes_;
  bool holds_ = false;
  std::vector<LaunchId> held_, passed_;              // passed: held back from a request that came
};

}  // namespace corun
