// What the sequences of servers met: time to the first token, time between tokens, goodput.
#pragma once

#include <span>
#include <vector>

#include "traces/model/trace.h"
#include "traces/timeline/metrics.h"
#include "traces/timeline/timeline.h"

namespace corun {

/// Gathers the sequences of a run.
class SequenceMeter final : public Sink {
 public:
  using Sink::record;
  void record(const SequenceRecord& r) override { all_.push_back(r); }
  std::vector<SequenceRecord>& sequences() { return all_; }

 private:
  std::vector<SequenceRecord> all_;
};

ServedResult measure_served(const Serving& serving, ClientId client, const Window& window,
                            std::span<const SequenceRecord> sequences);

}  // namespace corun
