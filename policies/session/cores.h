// CPU cores that host threads of several clients share.  A thread with something to do waits in one line for a core that it may
// run on.  It keeps that core for a slice while others wait, and then goes to the end of the line, as Linux's fair
// scheduler has threads of one weight (decision 437).  A thread that spins while it waits for the GPU keeps its core likewise.
//
// Leaves out: what a switch costs, caches that it empties, weights, further threads of the programs and of the machine, cores that
// are two hardware threads of one.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "traces/model/trace.h"

namespace corun {

class Cores {
 public:
  /// The cores that clients name; other clients have one of their own, and only shares() may be asked of them.
  explicit Cores(const Trace& trace);

  bool shares(ClientId client) const { return threads_[client.value].cpus.has_value(); }
  /// True if the client's thread has a core.
  bool runs(ClientId client) const { return threads_[client.value].core.has_value(); }
  /// True if the thread has a core and has done its work.
  bool ready(ClientId client) const { return runs(client) && threads_[client.value].left == Time{}; }
  bool sleeps(ClientId client) const { return threads_[client.value].sleeps; }

  /// Adds work for the thread; one that slept takes a free core or gets in line.
  void work(ClientId client, Time now, Time amount);
  /// Drops the thread's work.
  void stop(ClientId client) { threads_[client.value].left = Time{}; }
  /// The thread, which runs, gives its core up until it has work.
  void sleep(ClientId client);

  /// Threads that have a core work until `now`.
  void advance(Time now);
  /// Gives out cores that are free or whose slice is over.  Whether a thread got one.
  bool turn();
  /// When a thread will be ready or a slice over that somebody waits for; kNever: not by itself.
  Time next() const;

 private:
  struct Thread {
    std::optional<CpuSet> cpus;
    std::optional<std::uint32_t> core{};
    bool sleeps = true;
    Time left{};  // of its work
  };
  struct Core {
    std::optional<std::uint32_t> thread{};
    Time slice_ends{};
  };
  std::deque<std::uint32_t>::const_iterator first_in_line(std::uint32_t core) const;
  void give(std::uint32_t core, std::uint32_t thread);

  Time slice_, now_{};
  std::vector<Thread> threads_;  // by client
  std::vector<Core> cores_;      // by number
  std::deque<std::uint32_t> line_;
};

}  // namespace corun
