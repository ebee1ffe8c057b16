// How long it takes to get launches off the GPU for others, and real-time requests onto it.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "traces/model/trace.h"
#include "traces/timeline/metrics.h"
#include "traces/timeline/timeline.h"

namespace corun {

class PreemptionMeter : public Sink {
 public:
  using Sink::record;
  explicit PreemptionMeter(const Trace& trace) : trace_(trace) {}
  void record(const RequestRecord& r) override;
  void record(const KernelRecord& r) override;
  void record(const PreemptionRecord& r) override;

  /// Of what was decided, and of the requests that arrived, in the window.  Streams ordered off at one
  /// instant are one preemption, which lasts until the last of their launches is off.
  PreemptionResult result(const Window& window) const;

 private:
  const Trace& trace_;
  struct Off {
    Time cleared{};
    std::uint64_t launches = 0;
  };
  std::map<Time, Off> off_;                                        // by the time of the decision
  std::map<std::pair<std::uint32_t, std::uint64_t>, Time> first_;  // by client, request: first block's start
  std::vector<std::pair<std::pair<std::uint32_t, std::uint64_t>, Time>> arrivals_;  // of real-time requests
  std::uint64_t redone_blocks_ = 0;
};

}  // namespace corun
