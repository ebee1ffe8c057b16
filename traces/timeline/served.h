// Latencies of servers' sequences: to the first token, per and between tokens and to the end; and which
// kept their promises.
//
// Leaves out: guesses at what those under way would have met.  One that has not got its first token, or its last,
// counts as infinite, unless a limit gives it more time than it has had.
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

/// `sequences`: records of the run, of these clients and others.  Clients are a server, one of its replicas, of whose sequences only
/// those count that are dealt to it, or all of its replicas.  One of their sequences that has no record was not begun.
ServedResult measure_served(const Client& client, std::span<const ClientId> clients, const Window& window,
                            std::span<const SequenceRecord> sequences);

}  // namespace corun
