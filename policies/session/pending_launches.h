// The launches that wait for the policy: all of them, and those of each stream, both in the order of
// readiness, which is that of their serials.  With graphs a thousand wait, and those that go next are near the
// front: to take one out, the shorter side moves.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "policies/api/snapshot.h"

namespace corun {

class PendingLaunches {
 public:
  /// To be called in the order of ClientId, for each of a client's streams.
  void add_stream(ClientId client, StreamId stream) {
    if (client.value >= first_stream_.size()) first_stream_.push_back(views_.size());
    views_.push_back({client, stream, 0, {}, {}});
    of_stream_.emplace_back();
  }

  bool empty() const { return all_.ids().empty(); }
  std::size_t size() const { return all_.ids().size(); }
  /// Valid until the next change.
  std::span<const LaunchId> all() const { return all_.ids(); }
  std::span<const StreamView> streams() {
    for (std::size_t i = 0; i < views_.size(); ++i) views_[i].pending = of_stream_[i].ids();
    return views_;
  }

  /// Of the launch's stream; none: nothing of it waits.
  std::optional<LaunchId> first(const LaunchView& l) const {
    const std::span<const LaunchId> ids = of_stream_[number(l)].ids();
    return ids.empty() ? std::nullopt : std::optional(ids.front());
  }

  void insert(const LaunchView& l) {
    all_.insert(l.id);
    of_stream_[number(l)].insert(l.id);
  }
  /// It waits no longer, if it did.
  void erase(const LaunchView& l) {
    all_.erase(l.id);
    of_stream_[number(l)].erase(l.id);
  }
  /// A kernel of the stream is on the GPU, or no longer.
  void came(const LaunchView& l) { ++views_[number(l)].running; }
  void went(const LaunchView& l) { --views_[number(l)].running; }
  /// A kernel or copy of the stream has ended.
  void ended(const LaunchView& l, Time now) { views_[number(l)].ended_at = now; }
  Time ended_at(ClientId client, StreamId stream) const {
    return views_[first_stream_[client.value] + stream.value].ended_at;
  }
  void resume(ClientId client, StreamId stream, Time ended_at) {
    views_[first_stream_[client.value] + stream.value].ended_at = ended_at;
  }

 private:
  class BySerial {
   public:
    std::span<const LaunchId> ids() const { return std::span(ids_).subspan(first_); }
    void insert(LaunchId id) {
      if (first_ == ids_.size()) {
        ids_.clear();
        first_ = 0;
      } else if (2 * first_ > ids_.size()) {
        ids_.erase(ids_.begin(), front());
        first_ = 0;
      }
      if (ids_.empty() || sooner(ids_.back(), id))
        ids_.push_back(id);
      else
        ids_.insert(std::upper_bound(front(), ids_.end(), id, sooner), id);
    }
    void erase(LaunchId id) {
      if (first_ != ids_.size() && ids_[first_] == id) {
        ++first_;
        return;
      }
      const auto found = std::lower_bound(front(), ids_.end(), id, sooner);
      if (found == ids_.end() || *found != id) return;
      if (found - front() > ids_.end() - found) {
        ids_.erase(found);
        return;
      }
      std::move_backward(front(), found, found + 1);
      ++first_;
    }

   private:
    static bool sooner(LaunchId a, LaunchId b) { return a.serial < b.serial; }
    std::vector<LaunchId>::iterator front() { return ids_.begin() + static_cast<std::ptrdiff_t>(first_); }

    std::vector<LaunchId> ids_;
    std::size_t first_ = 0;
  };
  std::size_t number(const LaunchView& l) const { return first_stream_[l.client.value] + l.stream.value; }

  BySerial all_;
  std::vector<BySerial> of_stream_;        // as in `views_`
  std::vector<StreamView> views_;          // of all clients' streams
  std::vector<std::size_t> first_stream_;  // by client
};

}  // namespace corun
