// Everything that a run wrote to its timeline.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "traces/timeline/timeline.h"

namespace corun::sim {

class Collector : public Sink {
 public:
  using Sink::record;
  explicit Collector(bool with_blocks = false) : wants_blocks_(with_blocks) {}

  void record(const RequestRecord& r) override { requests.push_back(r); }
  void record(const KernelRecord& r) override { kernels.push_back(r); }
  void record(std::span<const BlockRecord> r) override { blocks.insert(blocks.end(), r.begin(), r.end()); }
  void record(const CopyRecord& r) override { copies.push_back(r); }
  void record(const MoveRecord& r) override { moves.push_back(r); }
  void record(const TurnRecord& r) override { turns.push_back(r); }
  void record(const PreemptionRecord& r) override { preemptions.push_back(r); }
  bool wants_blocks() const override { return wants_blocks_; }

  std::vector<RequestRecord> requests;
  std::vector<KernelRecord> kernels;
  std::vector<BlockRecord> blocks;
  std::vector<CopyRecord> copies;
  std::vector<MoveRecord> moves;
  std::vector<TurnRecord> turns;
  std::vector<PreemptionRecord> preemptions;

  /// The records of one client's kernels in the order of their operations and requests.
  std::vector<KernelRecord> of(ClientId client) const;
  /// The only launch of this client.
  const KernelRecord& only(ClientId client) const;
  /// Blocks of a launch in the order in which they started.
  std::vector<BlockRecord> blocks_of(LaunchId launch) const;

 private:
  bool wants_blocks_;
};

/// A line for each, every field of it, in an order that does not depend on how the run was simulated.
std::vector<std::string> lines(std::vector<KernelRecord> kernels);
std::vector<std::string> lines(std::vector<RequestRecord> requests);

/// %smid of each.
std::vector<std::uint32_t> sms_of(const std::vector<BlockRecord>& blocks);

/// Most of the spans [started, finished) that overlap at any instant.
std::size_t most_at_once(const std::vector<KernelRecord>& kernels);

}  // namespace corun::sim
