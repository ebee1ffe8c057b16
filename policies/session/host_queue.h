// The host's queue, the same before the simulator and before a GPU.  A launch that its policy may stop is
// held on the host until few are before it in its stream, so that taking a stream off the GPU costs the same
// however long its queue is.  Here is the rule which of the held launches may go to the device, and which of
// those can wait until the host has nothing else to do.
//
// Leaves out: what handing over is, and how long it takes.  The backend does it and says when to.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "traces/model/expects.h"
#include "traces/model/ids.h"
#include "traces/model/time.h"

namespace corun {

/// Of a stream that may be stopped, at most kDeviceQueue launches are on the device, and beyond two only until there is
/// kQueuedWork behind the first.  A launch there takes a few us to come off: no more than keep the GPU busy.
inline constexpr std::size_t kDeviceQueue = 3;
inline constexpr Time kQueuedWork = std::chrono::microseconds(25);

/// A launch or copy as far as the rule looks at it.
struct HostLaunch {
  LaunchId id;
  Time solo{};
  bool copy = false;
  bool stoppable = false;           // its policy may take it off the GPU
  bool grows = false;               // more CTAs of it may come, on other streams of the device
  std::vector<LaunchId> follows{};  // launches of other streams that are before it
};

/// Whether the next launch of a stream may be handed over behind what of it is on the device, in order.
bool may_go(const HostLaunch& next, std::span<const HostLaunch> device);
/// The GPU has work enough of the stream: handing over more, some 8 us of the host's time, can wait until
/// nothing else is to be done, so that an urgent launch does not wait for it.
bool can_wait(const HostLaunch& next, std::span<const HostLaunch> device);
/// Whether one that it follows must have ended.  Of others it is enough that they have been handed over: the
/// device keeps the order.
bool must_have_ended(const HostLaunch& followed);

/// `Work`: what the backend hands over for a launch.
template <class Work>
class HostQueue {
 public:
  using UnderWay = std::function<bool(LaunchId)>;
  using HandOver = std::function<void(ClientId, Work)>;

  /// `under_way` is asked of what is not in the queue, as paddings are not: whether it has yet to end.
  HostQueue(UnderWay under_way, HandOver hand_over)
      : under_way_(std::move(under_way)), hand_over_(std::move(hand_over)) {}

  /// The next one.
  void add_client(std::size_t streams) {
    CORUN_EXPECTS(streams != 0);
    lanes_.emplace_back(streams);
  }

  /// The last of its stream.  It may go at once.
  void hold(ClientId client, StreamId stream, HostLaunch launch, Work work) {
    CORUN_EXPECTS(client.value < lanes_.size() && stream.value < lanes_[client.value].size());
    CORUN_EXPECTS(find(launch.id) == nullptr);
    if (launch.id.slot >= places_.size()) places_.resize(launch.id.slot + 1);
    places_[launch.id.slot] = {launch.id, client, stream, Place::Where::host, must_have_ended(launch)};
    lane(client, stream).held.emplace_back(std::move(launch), std::move(work));
    hand_over_needed(client);
  }
  /// What may go and cannot wait.
  void hand_over_needed(ClientId client) {
    for (Lane& of : lanes_[client.value])
      while (may_go(of) && !can_wait(of.held.front().first, of.device)) hand_over(client, of);
  }
  /// One of those that can wait.  False: there is none.
  bool hand_over_one() {
    for (std::uint32_t client = 0; client < lanes_.size(); ++client)
      for (Lane& of : lanes_[client])
        if (may_go(of)) return hand_over(ClientId{client}, of), true;
    return false;
  }
  /// The host knows that it has ended or come off the device.  Nothing: it was not there by this queue.
  std::optional<ClientId> over(LaunchId launch) {
    Place* at = find(launch);
    if (at == nullptr || at->where != Place::Where::device) return {};
    at->where = Place::Where::gone;
    std::erase_if(lane(at->client, at->stream).device, [&](const HostLaunch& l) { return l.id == launch; });
    return at->client;
  }
  /// Off the queue.  False: it was not held any more.
  bool take_back(LaunchId launch) {
    Place* at = find(launch);
    if (at == nullptr || at->where != Place::Where::host) return false;
    at->where = Place::Where::gone;
    std::erase_if(lane(at->client, at->stream).held, [&](const auto& h) { return h.first.id == launch; });
    return true;
  }
  /// As if nothing had been held.
  void clear() {
    places_.clear();
    for (std::vector<Lane>& of_client : lanes_)
      for (Lane& of : of_client) of = {};
  }

 private:
  struct Lane {  // a client's stream
    std::deque<std::pair<HostLaunch, Work>> held;
    std::vector<HostLaunch> device;  // in order, as far as the host knows
  };
  struct Place {  // of the launch that last had the slot
    LaunchId id;
    ClientId client;
    StreamId stream;
    enum class Where : std::uint8_t { host, device, gone } where = Where::gone;
    bool must_have_ended = false;
  };

  Lane& lane(ClientId client, StreamId stream) { return lanes_[client.value][stream.value]; }
  Place* find(LaunchId id) {
    if (id.slot >= places_.size() || places_[id.slot].id != id) return nullptr;
    return places_[id.slot].where == Place::Where::gone ? nullptr : &places_[id.slot];
  }
  bool holds_up(LaunchId followed) {
    const Place* at = find(followed);
    if (at == nullptr) return under_way_(followed);
    return at->where == Place::Where::host || at->must_have_ended;
  }
  bool may_go(const Lane& of) {
    if (of.held.empty()) return false;
    const HostLaunch& next = of.held.front().first;
    return std::none_of(next.follows.begin(), next.follows.end(),
                        [&](LaunchId id) { return holds_up(id); }) &&
           corun::may_go(next, of.device);
  }
  void hand_over(ClientId client, Lane& of) {
    auto [launch, work] = std::move(of.held.front());
    of.held.pop_front();
    places_[launch.id.slot].where = Place::Where::device;
    of.device.push_back(std::move(launch));
    hand_over_(client, std::move(work));
  }

  UnderWay under_way_;
  HandOver hand_over_;
  std::vector<std::vector<Lane>> lanes_;  // by client, stream
  std::vector<Place> places_;             // by LaunchId::slot
};

}  // namespace corun
