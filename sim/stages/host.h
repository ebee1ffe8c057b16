// The host interface of one context: hardware channels, each a queue in the order of submission.  Streams share channels
// round robin; a task that waits (for its stream or an event) holds up whatever is behind it in its channel, other
// streams' tasks too: the false dependencies of CUDA_DEVICE_MAX_CONNECTIONS.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <variant>
#include <vector>

#include "sim/stages/task.h"
#include "traces/model/trace.h"

namespace corun::sim {

/// A kernel or a copy on its way to the GPU.
struct Submission {
  LaunchId launch;
  std::uint32_t stream = 0;       // number of the stream within the context
  Time reaches_gpu{};
  std::vector<LaunchId> follows;  // events it waits for
  struct Kernel {
    Work work;
    std::uint32_t level = 0;
    SmMask allowed;
    SmResources demand;
  };
  struct CopyJob {
    CopyRecord record;
    Copy copy;
  };
  std::variant<Kernel, CopyJob> what;
};

class Host {
 public:
  Host(const Gpu& gpu, std::uint32_t streams) : gpu_(gpu), channels_(gpu.host_channels), streams_(streams) {}

  std::uint32_t channel_of(std::uint32_t stream) const { return stream % gpu_.host_channels; }
  bool full(std::uint32_t stream) const { return channels_[channel_of(stream)].size() >= gpu_.channel_depth; }
  void accept(Submission submission) {
    std::deque<Submission>& channel = channels_[channel_of(submission.stream)];
    channel.push_back(std::move(submission));
  }

  /// When the head of the channel can go on to the GPU; kNever: it waits for something unfinished, or there is none.
  /// `ended(launch)`: when that launch ended, kNever if it has not.
  template <class Ended>
  Time ready_at(std::uint32_t channel, Ended ended) const {
    if (channels_[channel].empty()) return kNever;
    const Submission& head = channels_[channel].front();
    const Stream& stream = streams_[head.stream];
    if (stream.in_flight) return kNever;
    Time ready = std::max(head.reaches_gpu, stream.ready);
    for (LaunchId other : head.follows) {
      const Time end = ended(other);
      if (end == kNever) return kNever;
      ready = std::max(ready, end + gpu_.stream_gap);
    }
    return ready;
  }
  Submission take(std::uint32_t channel) {
    Submission head = std::move(channels_[channel].front());
    channels_[channel].pop_front();
    streams_[head.stream].in_flight = true;
    return head;
  }
  /// What was in flight of this stream has ended.
  void ended(std::uint32_t stream, Time now) { streams_[stream] = {false, now + gpu_.stream_gap}; }

  /// Whether the channel's head may have waited for this launch.
  bool waits(std::uint32_t channel, LaunchId launch, std::uint32_t stream) const {
    if (channels_[channel].empty()) return false;
    const Submission& head = channels_[channel].front();
    return head.stream == stream || std::find(head.follows.begin(), head.follows.end(), launch) != head.follows.end();
  }

  std::uint32_t channels() const { return static_cast<std::uint32_t>(channels_.size()); }
  /// Something has reached the GPU and waits for its turn, or for its stream.
  bool has_work(Time now) const {
    for (const auto& channel : channels_)
      if (!channel.empty() && channel.front().reaches_gpu <= now) return true;
    return false;
  }

 private:
  struct Stream {
    bool in_flight = false;
    Time ready{};
  };
  const Gpu& gpu_;
  std::vector<std::deque<Submission>> channels_;
  std::vector<Stream> streams_;
};

}  // namespace corun::sim
