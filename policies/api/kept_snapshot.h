// A Snapshot that outlives the instant that it shows: what it points to is copied, kernels too.
//
// Leaves out: notices, profiles, device memory.  Clients and operations are not copied and must outlive it.
// LaunchView::uses is not to be read.
#pragma once

#include <map>
#include <vector>

#include "policies/api/snapshot.h"

namespace corun {

class KeptSnapshot {
 public:
  KeptSnapshot() = default;
  KeptSnapshot(const KeptSnapshot&) = delete;
  KeptSnapshot& operator=(const KeptSnapshot&) = delete;

  /// Forgets what it kept.  A launch that is over is a free slot, of which nobody asks.
  void keep(const Snapshot& now) {
    clients_.assign(now.clients.begin(), now.clients.end());
    launches_.assign(now.launches.begin(), now.launches.end());
    kernels_.clear();
    for (LaunchView& l : launches_)
      l.kernel = l.state == LaunchState::finished || l.kernel == nullptr ? nullptr : &kernels_.try_emplace(l.kernel, *l.kernel).first->second;
    pending_.assign(now.pending.begin(), now.pending.end());
    running_.assign(now.running.begin(), now.running.end());
    streams_.assign(now.streams.begin(), now.streams.end());
    of_stream_.clear();
    for (const StreamView& s : now.streams) of_stream_.emplace_back(s.pending.begin(), s.pending.end());
    for (std::size_t i = 0; i < streams_.size(); ++i) streams_[i].pending = of_stream_[i];
    snapshot_ = Snapshot{now.now, {}, clients_, launches_, pending_, running_, {}};
    snapshot_.streams = streams_;
  }
  const Snapshot& snapshot() const { return snapshot_; }

 private:
  std::vector<ClientView> clients_;
  std::vector<LaunchView> launches_;
  std::map<const Kernel*, Kernel> kernels_;
  std::vector<LaunchId> pending_, running_;
  std::vector<std::vector<LaunchId>> of_stream_;
  std::vector<StreamView> streams_;
  Snapshot snapshot_;
};

}  // namespace corun
