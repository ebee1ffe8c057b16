// The host interface of one context: hardware channels, each a queue in the order of submission.  An empty
// stream gets a channel with its first submission: an idle one if there is any, else the next in turn.  What
// waits for its stream or for an event holds up whatever is behind it in its channel, other streams' tasks
// too: the false dependencies of CUDA_DEVICE_MAX_CONNECTIONS.  As measured in experiments/h200/launch_path,
// questions 5 and 6.  Under MPS each client has channels of its own.
//
// Launches that are ordered off the GPU vanish from the channels if they have not reached the GPU yet; the
// others pass it one by one and find, by a flag that every kernel reads first, that they are to do nothing
// (REEF's lazy eviction: Han et al., OSDI 2022, section 4.1).
//
// The kernels of a graph without copies are read ahead: the front end has all of a channel's commands while
// the first of them run, and the context has nothing more to ask its turn for.  As measured in
// experiments/h200/networks, turns.json.gz.
//
// A graph has one entry in each channel that it uses: its next kernel or copy there.  Who hands over the graph puts the one
// after it in its place (`put_next`).
//
// Leaves out: launches with many parameters, which fill a channel sooner.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include <boost/circular_buffer.hpp>

#include "sim/stages/task.h"
#include "traces/model/trace.h"

namespace corun::sim {

/// A kernel on its way to the GPU, before it becomes a `Work`.
struct SubmittedKernel {
  KernelRecord record;  // so far
  bool resumed = false;
  std::uint64_t first = 0, last = 0;
  std::vector<std::uint16_t> ctas_per_sm;
  Time block_alone{}, per_task{};
  const BlockLoad* load = nullptr;  // outlives the submission
  const std::vector<Time>* block_times = nullptr;
  std::uint32_t ctas = 0, level = 0;
  bool controlled = false;  // the host sees its last block start
  SmMask allowed;
  SmResources demand;
  std::unique_ptr<SubmittedKernel> padding;  // one grid with it

  Work work() &&;
};
struct SubmittedCopy {
  CopyRecord record;
  Copy copy;
};

struct Submission {
  using Kernel = SubmittedKernel;
  using CopyJob = SubmittedCopy;

  LaunchId launch;
  std::uint32_t stream = 0;  // number of the stream within the context
  Time reaches_gpu{};
  Time gap{};                     // at least this long after what it waits for has ended
  std::vector<LaunchId> follows;  // events it waits for
  std::variant<Kernel, CopyJob> what;
  bool evicted = false;  // it passes the GPU without doing anything
  bool graph = false;    // of a graph, as all of its stream
  std::uint32_t node = 0;  // its number in a whole graph
  bool ahead = false;    // read before what is in front of it has ended, as all of its stream
};

inline Work SubmittedKernel::work() && {
  Work work;
  work.record = record;
  work.block_alone = block_alone;
  work.block_times = block_times;
  work.load = *load;
  work.per_task = per_task;
  work.first = first;
  work.last = last;
  work.ctas = ctas;
  work.tells_last = controlled;
  work.spread.quota = std::move(ctas_per_sm);
  work.resumed = resumed;
  return work;
}

class Host {
 public:
  Host(const Gpu& gpu, std::uint32_t streams)
      : Host(gpu, gpu.host_channels, std::vector<std::uint32_t>(streams)) {}
  /// `group[s]`: which group of `channels_each` channels stream s uses.
  Host(const Gpu& gpu, std::uint32_t channels_each, const std::vector<std::uint32_t>& group)
      : gpu_(gpu), each_(channels_each), streams_(group.size()) {
    std::uint32_t groups = 1;
    for (std::uint32_t g : group) groups = std::max(groups, g + 1);
    channels_.resize(std::size_t{groups} * each_);
    users_.resize(channels_.size());
    waiting_.resize(channels_.size());
    unread_.resize(channels_.size());
    next_.resize(groups);
    for (std::size_t s = 0; s < group.size(); ++s) streams_[s].group = group[s];
  }

  bool full(std::uint32_t stream) const {
    return waiting_[channel_for(stream)] >= gpu_.channel_depth;
  }
  /// Returns the channel.
  std::uint32_t accept(Submission&& submission) {
    const std::uint32_t channel = accept_behind(submission.stream, submission.graph, submission.ahead);
    auto& queue = channels_[channel];
    if (queue.full()) queue.set_capacity(std::max<std::size_t>(gpu_.channel_depth, 2 * queue.capacity()));
    queue.push_back(std::move(submission));
    if (closed_) ++unread_[channel];
    return channel;
  }
  /// The stream has a further submission, which put_next() will put into the channel.  Returns the channel.
  std::uint32_t accept_behind(std::uint32_t number, bool graph, bool ahead) {
    Stream& stream = streams_[number];
    const std::uint32_t channel = channel_for(number);
    if (stream.unfinished++ == 0) {
      stream.channel = channel;
      ++users_[channel];
      next_[stream.group] = (channel + 1) % each_;
    }
    stream.graph = graph;
    stream.ahead = ahead;
    ++waiting_[channel];
    return channel;
  }
  /// The channel of the stream's next submission.
  std::uint32_t channel_of(std::uint32_t stream) const { return channel_for(stream); }

  /// When the head of the channel can go on to the GPU; kNever: it waits for something unfinished, or there
  /// is none. `ended(launch)`: when that launch ended, kNever if it has not.
  template <class Ended>
  Time ready_at(std::uint32_t channel, Ended ended) const {
    if (channels_[channel].size() <= unread_[channel]) return kNever;
    const Submission& head = channels_[channel].front();
    const Stream& stream = streams_[head.stream];
    if (stream.in_flight) return kNever;
    if (head.evicted) return std::max(head.reaches_gpu, stream.ended);
    Time ready = std::max(head.reaches_gpu, stream.ended + head.gap);
    for (LaunchId other : head.follows) {
      const Time end = ended(other);
      if (end == kNever) return kNever;
      ready = std::max(ready, end + head.gap);
    }
    return ready;
  }
  /// The head, which goes on to the GPU.  To be dropped before anything else is done with the channel.
  Submission& take(std::uint32_t channel) {
    Submission& head = channels_[channel].front();
    Stream& stream = streams_[head.stream];
    stream.in_flight = true;
    if (std::holds_alternative<SubmittedKernel>(head.what) && !head.evicted) launched_last_ = head.stream;
    stream.evicted = !head.evicted ? Evicted::none : stream.evicted == Evicted::none ? Evicted::first : Evicted::further;
    return head;
  }
  void drop(std::uint32_t channel) {
    channels_[channel].pop_front();
    --waiting_[channel];
  }
  /// Instead of drop(): the next one of the head's graph takes its place.
  void put_next(std::uint32_t channel, Submission&& next) {
    channels_[channel].front() = std::move(next);
    --waiting_[channel];
  }
  /// Whether what was taken last of this stream, evicted, came right behind another that was.
  bool follows_evicted(std::uint32_t stream) const { return streams_[stream].evicted == Evicted::further; }

  /// A launch of this stream is on the GPU as part of another stream's.
  void hold(std::uint32_t number) {
    Stream& stream = streams_[number];
    const std::uint32_t channel = channel_for(number);
    if (stream.unfinished++ == 0) {
      stream.channel = channel;
      ++users_[channel];
    }
    stream.in_flight = true;
  }
  /// The submissions of these launches that have not been taken: those that have not reached the GPU by `now`
  /// vanish, into `vanished`; with `mark`, the others are to pass the GPU without doing anything.
  void evict(const std::vector<LaunchId>& launches, Time now, bool mark, std::vector<LaunchId>& vanished) {
    for (std::size_t c = 0; c < channels_.size(); ++c) {
      auto& channel = channels_[c];
      std::size_t read = channel.size() - unread_[c];
      const auto kept = std::remove_if(channel.begin(), channel.end(), [&](Submission& s) {
        const bool unread = read == 0;
        if (!unread) --read;
        if (std::find(launches.begin(), launches.end(), s.launch) == launches.end()) return false;
        s.evicted = s.evicted || mark;
        if (s.reaches_gpu <= now) return false;
        vanished.push_back(s.launch);
        Stream& stream = streams_[s.stream];
        if (--stream.unfinished == 0) --users_[stream.channel];
        --waiting_[c];
        if (unread) --unread_[c];
        return true;
      });
      channel.erase(kept, channel.end());
    }
  }
  /// What was in flight of this stream has ended, and the GPU is so busy that its next launch starts `late`.
  void ended(std::uint32_t number, Time now, Time late) {
    Stream& stream = streams_[number];
    stream.in_flight = false;
    stream.ended = now + late;
    graph_ended_ = stream.graph;
    if (--stream.unfinished == 0) --users_[stream.channel];
  }

  bool in_graphs(std::uint32_t stream) const { return streams_[stream].graph; }
  /// Whether another stream's kernel went on to the GPU after the latest of this one.
  bool others_launched_since(std::uint32_t stream) const { return launched_last_ != stream; }

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
    for (std::size_t c = 0; c < channels_.size(); ++c)
      if (channels_[c].size() > unread_[c] && channels_[c].front().reaches_gpu <= now) return true;
    return false;
  }

  /// Whether the front end has read all that it was given: nothing but kernels that are read ahead.
  bool read_whole() const {
    if (gpu_.read_ahead_launches == 0) return false;
    std::size_t launches = 0;
    for (const std::size_t waiting : waiting_) launches += waiting;
    if (launches > gpu_.read_ahead_launches) return false;
    return std::all_of(streams_.begin(), streams_.end(),
                       [](const Stream& s) { return s.unfinished == 0 || s.ahead; });
  }
  /// What has not reached the GPU by now waits for the next turn.
  void close(Time now) {
    closed_ = true;
    for (std::size_t c = 0; c < channels_.size(); ++c) {
      const auto& queue = channels_[c];
      while (unread_[c] < queue.size() && queue[queue.size() - 1 - unread_[c]].reaches_gpu > now)
        ++unread_[c];
    }
  }
  bool closed() const { return closed_; }
  /// What ended last was of a graph.
  bool graph_ended() const { return graph_ended_; }
  void open() {
    closed_ = false;
    std::fill(unread_.begin(), unread_.end(), 0);
  }

 private:
  /// What was taken last of a stream: not evicted, or that and the first or a further one in a row.
  enum class Evicted : std::uint8_t { none, first, further };
  struct Stream {
    bool in_flight = false;  // its head is past the channel
    bool graph = false;
    bool ahead = false;            // its kernels are read ahead
    Evicted evicted = Evicted::none;
    std::uint32_t unfinished = 0;  // submitted, not ended
    std::uint32_t channel = 0;     // while there is anything unfinished
    std::uint32_t group = 0;
    Time ended{-1'000'000'000'000};  // long before the run
  };
  std::uint32_t channel_for(std::uint32_t number) const {
    const Stream& stream = streams_[number];
    if (stream.unfinished != 0) return stream.channel;
    const std::uint32_t first = stream.group * each_, next = next_[stream.group];
    for (std::uint32_t i = 0; i < each_; ++i)
      if (const std::uint32_t c = first + (next + i) % each_; users_[c] == 0) return c;
    return first + next;
  }

  const Gpu& gpu_;
  std::uint32_t each_;  // channels of a group
  std::vector<boost::circular_buffer<Submission>> channels_;
  std::vector<std::size_t> waiting_;  // by channel: submissions in it, with those that put_next() will bring
  std::vector<std::uint32_t> users_;  // by channel: streams with unfinished work in it
  std::vector<Stream> streams_;
  std::vector<std::uint32_t> next_;                                          // by group
  bool closed_ = false;                                                      // for this turn
  std::uint32_t launched_last_ = std::numeric_limits<std::uint32_t>::max();  // the latest kernel's stream
  bool graph_ended_ = false;
  std::vector<std::size_t> unread_;  // by channel: those at its end that wait for the next turn
};

}  // namespace corun::sim
