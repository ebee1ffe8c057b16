// A GPU in virtual time, for `sim calibrate`: its kernels take the times that its card states.  Time passes when the clock is
// read and when the driver is called, and with it the GPU's work goes on, so a run is the same on a busy machine.
//
// A stream's work passes through the channel of its number, in order; behind work that must wait, other streams' waits too.
// SMs have no places of their own: kernels that run at once do not slow each other, but clients that load the memory do.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "fake_card.h"
#include "tests/support/waiting_memory.h"

namespace corun::fake {

using Ns = std::int64_t;

class Gpu {
 public:
  explicit Gpu(const FakeCard& card);

  Ns now() const { return now_; }
  /// The host has been busy for so long.
  void pass(Ns ns);

  std::uint64_t stream();
  void destroy(std::uint64_t stream) { streams_.erase(stream); }
  bool idle(std::uint64_t stream) const { return streams_.at(stream).left == 0; }
  std::size_t streams() const { return streams_.size(); }

  /// Work of a stream: what it does when it begins.  Returns when it will have ended, nothing where that hangs on others:
  /// then `poll` is asked.
  struct Work {
    std::function<std::optional<Ns>(Ns begun)> begin;
    std::function<std::optional<Ns>(Ns now)> poll = {};
    bool is_kernel = false;
    Ns delay = 0;  // from the call until it can begin
  };
  /// Waits while the channel is full, as a call does.
  void add(std::uint64_t stream, Work work);
  void at(Ns when, std::function<void()> what) { events_.emplace(when, std::move(what)); }

  struct Launch {
    std::string entry;
    std::uint32_t blocks, threads, shared;
    std::vector<std::uint64_t> words;  // the parameters
    corun::hw::Work client = {};       // that of a client
  };
  /// Bytes of each, "w" for a client's Work; nothing where the card has no such kernel.
  static std::optional<std::string> parameters_of(const std::string& entry, const FakeCard& card);
  Work kernel(const Launch& launch);
  std::uint32_t resident(std::uint32_t threads, std::uint32_t shared) const;
  /// Whether an address is the host's.
  std::function<bool(std::uint64_t)> is_host = [](std::uint64_t) { return false; };

 private:
  struct Queued {
    std::uint64_t stream;
    Ns ready;
    Work work;
  };
  struct Stream {
    std::size_t channel = 0, left = 0;
    bool busy = false, after_kernel = false;
    Ns free = 0;
  };
  struct Polled {  // a kernel
    std::uint64_t stream;
    std::function<std::optional<Ns>(Ns)> poll;
  };
  void settle();
  bool begin_next();
  void end(std::uint64_t stream, bool is_kernel, Ns when);
  Ns blocks_ns(std::uint32_t blocks, double per_sm, double block_ns) const;
  Ns body_ns(std::uint64_t cycles) const { return static_cast<Ns>(static_cast<double>(cycles) * 1e3 / card_.clock_mhz); }
  Work wait_for_flag(const Launch& launch);
  Work client(const Launch& launch);
  void count(const corun::hw::WaitingMemory::Client& client);

  const FakeCard& card_;
  corun::hw::WaitingMemory memory_;
  Ns now_ = 0, reached_ = 0;  // the latter: by what has happened
  std::uint64_t made_ = 0;
  std::uint32_t dispatches_ = 0;
  std::size_t kernels_ = 0;  // that run
  std::map<std::uint64_t, Stream> streams_;
  std::vector<std::deque<Queued>> channels_;
  std::multimap<Ns, std::function<void()>> events_;
  std::vector<Polled> polled_;
};

}  // namespace corun::fake
