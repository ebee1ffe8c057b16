// Finds where the latency of each request goes (LatencyParts), from the records of its kernels and copies.
//
// Which resource running kernels lack they say themselves (LossRecord).  Where several of a request run at once,
// or after each other, its running time is divided in proportion to theirs together.
//
// Leaves out: what streams of one request wait for of each other.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "traces/model/trace.h"
#include "traces/timeline/timeline.h"

namespace corun {

/// Gathers the requests of a run, each with the parts of its latency.
class PartsMeter final : public Sink {
 public:
  /// `turns`: processes have contexts of their own, and take turns.  `resources`: running time is told by what
  /// kernels lack.
  PartsMeter(const Trace& trace, bool turns, bool resources = false);

  using Sink::record;
  void record(const RequestRecord& r) override;
  void record(const KernelRecord& r) override;
  void record(const LossRecord& r) override;
  void record(const CopyRecord& r) override;
  void record(const TurnRecord& r) override;
  bool wants_losses() const override { return resources_; }
  /// In the order in which they ended; `parts` is all zero for one that was dropped or is unfinished.
  std::vector<RequestRecord> requests();

 private:
  /// Disjoint intervals, ascending, of what ended in the order of its end.
  class Union {
   public:
    void add(Time begin, Time end);
    void clear() { all_.clear(); }
    bool empty() const { return all_.empty(); }
    /// With those of another.
    Union with(const Union& other) const;
    Time length(Time from, Time to) const;
    template <class Turns>
    Time length_within(const Turns& turns, Time from, Time to) const;

   private:
    std::vector<std::pair<Time, Time>> all_;
  };
  /// How far an operation has come.  From kWaiting on a level includes those before it; the first three are apart,
  /// because most requests have only the first.
  enum Level : std::uint8_t { kRunning, kPreempted, kCopying, kWaiting, kLaunching, kHeld, kLevels };
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};
  struct Request {
    std::uint64_t number = kNone;  // none: its memory may be used for the next one
    std::array<Union, kLevels> levels;
    RunningParts of_kernels{};  // sums
  };
  struct Ended {
    std::size_t index;  // into `requests_`
    Request request;
  };

  Request& under_way(ClientId client, std::uint64_t number);
  void settle(RequestRecord& record, const Request& request) const;

  std::vector<std::uint32_t> context_of_client_;
  bool turns_, resources_;
  std::vector<std::vector<Request>> under_way_;                     // by client
  std::vector<Ended> ended_;                                        // turns are told when they end
  std::vector<std::deque<std::pair<Time, Time>>> turns_of_context_;  // ascending
  std::vector<RequestRecord> requests_;
};

}  // namespace corun
