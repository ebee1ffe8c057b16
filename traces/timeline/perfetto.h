// The timeline of a run as a Perfetto trace (protobuf, TrackEvent), for ui.perfetto.dev and trace_processor.
//
// One process holds the GPU: its context turns, its counters, and for each SM a row per block place.  One
// process per client holds its arrivals, requests, copies, and the kernels of each stream with their waits
// nested inside.  Flows lead from a request to its kernels.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <memory>

#include "traces/model/gpu.h"
#include "traces/model/trace.h"
#include "traces/timeline/timeline.h"

namespace corun {

/// What is written: each level holds what the ones before it do.
enum class TraceLevel : std::uint8_t {
  request,  // requests and context turns
  kernel,   // kernels, copies and counters
  cta,      // blocks on SMs
};

struct PerfettoOptions {
  TraceLevel level = TraceLevel::kernel;
  Time begin{}, end = kNever;  // what lies outside [begin, end) is left out, what crosses its borders is cut
};

/// Writes records as they come; holds only what is unfinished.  The same records give the same bytes.
/// Timestamps are nanoseconds, rounded down.  Of the changes of a counter within 100 ns only the first and
/// the last are written.  A block takes about 50 bytes.
class PerfettoSink : public Sink {
 public:
  using Sink::record;
  /// All three must outlive the sink.  `out` must be binary.
  PerfettoSink(const Trace& trace, const Gpu& gpu, PerfettoOptions options, std::ostream& out);
  ~PerfettoSink() override;

  void record(const RequestRecord& r) override;
  void record(const KernelRecord& r) override;
  void record(std::span<const BlockRecord> blocks) override;
  void record(const CopyRecord& r) override;
  void record(const MoveRecord& r) override;
  void record(const TurnRecord& r) override;
  void record(const GaugeRecord& r) override;
  bool wants_blocks() const override { return options_.level == TraceLevel::cta; }
  bool wants_gauges() const override { return options_.level != TraceLevel::request; }

  /// To be called once, after the last record: ends what is unfinished at the latest instant seen, and writes
  /// the rest.
  void finish();

 private:
  class Writer;
  PerfettoOptions options_;
  std::unique_ptr<Writer> writer_;
};

}  // namespace corun
