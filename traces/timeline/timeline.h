// The append-only record of what happened, in the order it happened.  Stages and the session write it, sinks
// and metrics read it.  It holds what only a simulator knows; a policy never sees it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "traces/model/ids.h"
#include "traces/model/time.h"

namespace corun {

/// What the time of running kernels is made of: the time that they take alone, and what they lose to others by
/// the resource that they share with them.  Only a simulator knows, and only if it was asked: else all is zero.
struct RunningParts {
  Time alone{};
  Time places{};  // fewer places on SMs than alone, or a worker's cost of taking blocks
  Time issue{};   // the SM's issue slots
  Time pipes{};   // the SM's pipes behind the slots
  Time l2{};      // L2: its bandwidth, and what others have replaced there
  Time dram{};    // DRAM: its bandwidth and queues
  Time clock{};   // a clock below the highest one

  Time sum() const { return alone + places + issue + pipes + l2 + dram + clock; }
  inline void operator+=(const RunningParts& more);
};
inline constexpr std::array kRunningParts{&RunningParts::alone, &RunningParts::places, &RunningParts::issue,
                                          &RunningParts::pipes, &RunningParts::l2,     &RunningParts::dram,
                                          &RunningParts::clock};
void RunningParts::operator+=(const RunningParts& more) {
  for (Time RunningParts::*part : kRunningParts) this->*part += more.*part;
}

/// Where the latency of a request goes: each instant from its arrival to its end is given to the furthest that any of
/// its operations has come, so that the parts add up to the whole.  An operation that waits for another one of its
/// request counts as far as that one has come.
struct LatencyParts {
  Time queue{};      // arrival until the host issues its first operation: the client's earlier requests
  Time host{};       // nothing of it is with the GPU or the policy: the host computes, calls or waits for an answer
  Time held{};       // by the policy
  Time launching{};  // handed over, not yet at the TMU: channel, stream order, launch latency
  Time waiting{};    // at the TMU or in a task slot, without a block on an SM
  Time off_turn{};   // another context has the SMs, or they are switched
  Time copying{};
  Time preempted{};  // kernels run that were taken off the GPU at least once, the time off included
  Time running{};    // kernels run
  RunningParts of_running{};  // its parts, where they were asked for

  Time sum() const {
    return queue + host + held + launching + waiting + off_turn + copying + preempted + running;
  }
};

/// One request of a client.  Latency counts from the intended arrival.
struct RequestRecord {
  ClientId client;
  std::uint64_t request = 0;
  Time arrival{};   // intended
  Time started{};   // its first operation issued by the host
  Time finished{};  // kNever: unfinished at the end of the run
  bool dropped =
      false;         // a newer one replaced it before it started; started and finished are then meaningless
  Time work_done{};  // solo time of its finished kernels (for one still unfinished: so far)
  LatencyParts parts{};  // filled in by a PartsMeter
};

/// One sequence of a server.
struct SequenceRecord {
  ClientId client;
  std::uint64_t sequence = 0;
  Time arrival{};
  Time first_token{};  // kNever: none by the end of the run
  Time finished{};     // kNever: unfinished
  std::vector<Time> gaps{};  // from each token to the next
  std::uint32_t cached = 0;      // tokens of its prompt that were in the prefix cache
  std::uint32_t uncaptured = 0;  // of its tokens: by decodes of a batch or context outside of all that were captured
};

/// One kernel launch.
struct KernelRecord {
  LaunchId launch;
  ClientId client;
  StreamId stream;
  OpId op;
  KernelId kernel;
  std::uint64_t request = 0;
  std::int32_t priority = 0;
  std::uint32_t ctas = 0;  // 0: plain
  Time ready{};            // the host's call
  Time submitted{};        // decided
  Time queued{};      // reached the TMU: its stream predecessor has ended, its channel has let it through
  Time slotted{};     // first entered a task slot of the WDU
  Time started{};     // first block started
  Time last_block{};  // last block started
  Time finished{};    // last block finished; kNever: unfinished at the end of the run
  std::uint64_t blocks = 0;
  std::uint32_t evictions = 0;      // times a task of higher priority took its slot
  std::uint32_t preemptions = 0;    // times it was taken off the GPU
  std::uint64_t redone_blocks = 0;  // started, and run again because of a reset
  Time solo{};                      // alone on the whole GPU, as the trace has it; zero: not known
};

/// Of a launch that ran without being taken off the GPU: the parts of its time from the first block's start to
/// the last one's end, without turns of other contexts.  Before its KernelRecord.
struct LossRecord {
  LaunchId launch;
  ClientId client;
  std::uint64_t request = 0;
  RunningParts parts{};
};

/// One block (of a persistent kernel: one task block of a worker).
struct BlockRecord {
  LaunchId launch;
  ClientId client;
  KernelId kernel;
  std::uint32_t block = 0;
  SmId sm;
  std::uint32_t lane = 0;  // which of the SM's block places it took
  Time start{}, end{};
  /// When the dispatcher gets to it, each block an interval after the one before.  Blocks of a lap start
  /// together, a little before that.  A worker's later task blocks are not dispatched: zero.
  Time dispatched{};
};

struct CopyRecord {
  LaunchId launch;
  ClientId client;
  StreamId stream;
  OpId op;
  std::uint64_t request = 0;
  std::uint64_t bytes = 0;
  std::uint32_t engine = 0;
  Time started{}, finished{};
};

/// A buffer moved out of device memory (checkpoint) or back into it (restore).
struct MoveRecord {
  ClientId client;
  BufferId buffer;
  bool to_host = false;
  std::uint64_t bytes = 0;
  std::uint32_t engine = 0;
  Time started{}, finished{};
};

/// Launches of one stream were ordered off the GPU.
struct PreemptionRecord {
  ClientId client;
  StreamId stream;
  bool reset = false;
  Time decided{};
  Time cleared{};  // the last of them is off the GPU: none of their blocks runs, none of them is queued
  std::uint32_t launches = 0;
};

/// The GPU gave this context the SMs for [start, end).
struct TurnRecord {
  std::uint32_t context = 0;
  Time start{}, end{};
};

enum class Gauge : std::uint8_t {
  pending_launches,  // called by clients, not yet decided
  tmu_queue,         // tasks waiting for a slot
  task_slots,        // grids in the WDU
  resident_blocks,
  resident_warps,
  dram_bandwidth_pct,  // of the peak, as the model has it
  device_memory,       // bytes, where the trace allocates any
};
inline constexpr std::uint32_t kGauges = 7;
const char* to_string(Gauge gauge);

struct GaugeRecord {
  Gauge gauge = Gauge::pending_launches;
  Time at{};
  double value = 0;
};

class Sink {
 public:
  virtual ~Sink() = default;
  virtual void record(const RequestRecord&) {}
  virtual void record(const SequenceRecord&) {}
  virtual void record(const KernelRecord&) {}
  virtual void record(const LossRecord&) {}
  virtual void record(std::span<const BlockRecord>) {}
  virtual void record(const CopyRecord&) {}
  virtual void record(const MoveRecord&) {}
  virtual void record(const TurnRecord&) {}
  virtual void record(const PreemptionRecord&) {}
  virtual void record(const GaugeRecord&) {}
  virtual bool wants_blocks() const { return false; }
  virtual bool wants_gauges() const { return false; }
  virtual bool wants_losses() const { return false; }
};

/// Fans each record out to the sinks.  Blocks are handed over in batches, those of a kernel before its
/// KernelRecord; nothing is built for a level nobody wants.
class Timeline {
 public:
  void attach(Sink& sink);
  bool wants_blocks() const { return wants_blocks_; }
  bool wants_gauges() const { return wants_gauges_; }
  bool wants_losses() const { return wants_losses_; }

  void record(const RequestRecord& r) {
    for (Sink* s : sinks_) s->record(r);
  }
  void record(const SequenceRecord& r) {
    for (Sink* s : sinks_) s->record(r);
  }
  void record(const KernelRecord& r) {
    flush();
    for (Sink* s : sinks_) s->record(r);
  }
  void record(const LossRecord& r) {
    for (Sink* s : sinks_) s->record(r);
  }
  void record(const CopyRecord& r) {
    for (Sink* s : sinks_) s->record(r);
  }
  void record(const MoveRecord& r) {
    for (Sink* s : sinks_) s->record(r);
  }
  void record(const TurnRecord& r) {
    for (Sink* s : sinks_) s->record(r);
  }
  void record(const PreemptionRecord& r) {
    for (Sink* s : sinks_) s->record(r);
  }
  void record(const GaugeRecord& r) {
    for (Sink* s : sinks_) s->record(r);
  }
  void record(const BlockRecord& b) {
    blocks_.push_back(b);
    if (blocks_.size() == kBatch) flush();
  }
  void flush();

 private:
  static constexpr std::size_t kBatch = 4096;
  std::vector<Sink*> sinks_;
  std::vector<BlockRecord> blocks_;
  bool wants_blocks_ = false, wants_gauges_ = false, wants_losses_ = false;
};

}  // namespace corun
