// The host interface of one context: hardware channels, each a queue in the order of submission.  An empty
// stream gets a channel with its first submission: an idle one if there is any, else the next in turn.  What
// waits for its stream or for an event holds up whatever is behind it in its channel, other streams' tasks
// too: the false dependencies of CUDA_DEVICE_MAX_CONNECTIONS.  As measured in experiments/h200/launch_path,
// questions 5 and 6.
//
// Leaves out: launches with many parameters, which fill a channel sooner.
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
  std::uint32_t stream = 0;  // number of the stream within the context
  Time reaches_gpu{};
  Time gap{};                     // at least this long after what it waits for has ended
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
  Host(const Gpu& gpu, std::uint32_t streams)
      : gpu_(gpu), channels_(gpu.host_channels), users_(gpu.host_channels), streams_(streams) {}

  bool full(std::uint32_t stream) const {
    return channels_[channel_for(stream)].size() >= gpu_.channel_depth;
  }
  /// Returns the channel.
  std::uint32_t accept(Submission submission) {
    Stream& stream = streams_[submission.stream];
    const std::uint32_t channel = channel_for(submission.stream);
    if (stream.unfinished++ == 0) {
      stream.channel = channel;
      ++users_[channel];
      next_ = (channel + 1) % gpu_.host_channels;
    }
    channels_[channel].push_back(std::move(submission));
    return channel;
  }

  /// When the head of the channel can go on to the GPU; kNever: it waits for something unfinished, or there
  /// is none. `ended(launch)`: when that launch ended, kNever if it has not.
  template <class Ended>
  Time ready_at(std::uint32_t channel, Ended ended) const {
    if (channels_[channel].empty()) return kNever;
    const Submission& head = channels_[channel].front();
    const Stream& stream = streams_[head.stream];
    if (stream.in_flight) return kNever;
    Time ready = std::max(head.reaches_gpu, stream.ended + head.gap);
    for (LaunchId other : head.follows) {
      const Time end = ended(other);
      if (end == kNever) return kNever;
      ready = std::max(ready, end + head.gap);
    }
    return ready;
  }
  Submission take(std::uint32_t channel) {
    Submission head = std::move(channels_[channel].front());
    channels_[channel].pop_front();
    streams_[head.stream].in_flight = true;
    return head;
  }
  /// What was in flight of this stream has ended, and the GPU is so busy that its next launch starts `late`.
  void ended(std::uint32_t number, Time now, Time late) {
    Stream& stream = streams_[number];
    stream.in_flight = false;
    stream.ended = now + late;
    if (--stream.unfinished == 0) --users_[stream.channel];
  }

  /// Whether the channel's head may have waited for this launch.
  bool waits(std::uint32_t channel, LaunchId launch, std::uint32_t stream) const {
    if (channels_[channel].empty()) return false;
    const Submission& head = channels_[channel].front();
    return head.stream == stream ||
           std::find(head.follows.begin(), head.follows.end(), launch) != head.follows.end();
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
    bool in_flight = false;          // its head is past the channel
    std::uint32_t unfinished = 0;    // submitted, not ended
    std::uint32_t channel = 0;       // while there is anything unfinished
    Time ended{-1'000'000'000'000};  // long before the run
  };
  std::uint32_t channel_for(std::uint32_t number) const {
    const Stream& stream = streams_[number];
    if (stream.unfinished != 0) return stream.channel;
    for (std::uint32_t i = 0; i < gpu_.host_channels; ++i)
      if (const std::uint32_t c = (next_ + i) % gpu_.host_channels; users_[c] == 0) return c;
    return next_;
  }

  const Gpu& gpu_;
  std::vector<std::deque<Submission>> channels_;
  std::vector<std::uint32_t> users_;  // by channel: streams with unfinished work in it
  std::vector<Stream> streams_;
  std::uint32_t next_ = 0;
};

}  // namespace corun::sim
