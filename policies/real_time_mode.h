// What policies with a real-time and a best-effort mode have in common: which mode it is, and whose turn among
// the real-time clients.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "policies/api/policy.h"

namespace corun {

inline bool is_real_time(const Snapshot& now, const LaunchView& l) {
  return now.client_of(l).service_class == ServiceClass::real_time;
}
inline bool is_real_time(const Snapshot& now, const StreamView& s) {
  return now.client_of(s).service_class == ServiceClass::real_time;
}

class RealTimeMode {
 public:
  /// To be called first in decide(). Real-time requests are served one at a time, in the order in which their
  /// clients ask.
  void look(const Snapshot& now) {
    for (const Notice& notice : now.notices)
      if (const auto* done = std::get_if<RequestFinished>(&notice); done != nullptr && turn_ == done->client)
        turn_.reset();
    for (const Notice& notice : now.notices)
      if (const auto* ready = std::get_if<LaunchReady>(&notice); ready != nullptr)
        if (const LaunchView& l = now.launch(ready->launch); is_real_time(now, l)) queue(l.client);
    const auto gone = [&](ClientId c) { return !now.clients[c.value].busy; };
    if (turn_ && gone(*turn_)) turn_.reset();  // it failed, and its request will never end
    std::erase_if(waiting_, gone);
    if (!turn_ && !waiting_.empty()) {
      turn_ = waiting_.front();
      waiting_.erase(waiting_.begin());
    }
    active_ = std::any_of(now.clients.begin(), now.clients.end(), [](const ClientView& c) {
      return c.client->service_class == ServiceClass::real_time && (c.busy || c.requests_waiting != 0);
    });
  }

  /// A real-time request has come and is not finished.
  bool active() const { return active_; }
  /// Of the real-time clients, the one being served.
  bool has_turn(ClientId client) const { return turn_ == client; }

 private:
  void queue(ClientId client) {
    if (turn_ == client || std::find(waiting_.begin(), waiting_.end(), client) != waiting_.end()) return;
    waiting_.push_back(client);
  }

  bool active_ = false;
  std::optional<ClientId> turn_;
  std::vector<ClientId> waiting_;
};

inline bool runs_best_effort(const Snapshot& now) {
  return std::any_of(now.streams.begin(), now.streams.end(),
                     [&](const StreamView& s) { return s.running != 0 && !is_real_time(now, s); });
}

/// Orders every best-effort stream off the GPU that `may` (a launch in it) allows: its first launch, and with
/// it all behind that.  Launches that are coming off already are not ordered again.
template <class May>
void take_off_best_effort(const Snapshot& now, std::vector<Decision>& decisions, decide::Stop how, May may) {
  if (!runs_best_effort(now)) return;
  std::vector<std::pair<ClientId, StreamId>> seen;
  for (LaunchId id : now.running) {
    const LaunchView& l = now.launch(id);
    if (l.kernel == nullptr || is_real_time(now, l) || !may(l)) continue;
    if (l.state != LaunchState::submitted && l.state != LaunchState::draining) continue;
    const std::pair stream(l.client, l.stream);
    if (std::find(seen.begin(), seen.end(), stream) != seen.end()) continue;
    seen.push_back(stream);
    const bool idempotent = std::all_of(now.running.begin(), now.running.end(), [&](LaunchId other) {
      const LaunchView& o = now.launch(other);
      return o.client != l.client || o.stream != l.stream || o.kernel == nullptr || o.kernel->idempotent;
    });
    decisions.push_back(decide::Preempt{id, idempotent ? how : decide::Stop::at_block});
  }
}

}  // namespace corun
