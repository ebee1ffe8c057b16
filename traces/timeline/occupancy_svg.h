// Which client's blocks sat on which SM over time, as one self-contained picture (SVG, below 300 kB).
//
// Across: time.  Down: SMs.  Colour: client; where several share an SM, its row is divided by their shares of
// the resident warps.  Depth of colour: how many of the warps that the SM can hold are there.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "traces/model/gpu.h"
#include "traces/model/trace.h"
#include "traces/timeline/timeline.h"

namespace corun {

struct OccupancyOptions {
  Time begin{}, end = kNever;  // what lies outside [begin, end) is left out
  std::string title;           // empty: the trace's name
  std::string subtitle;        // e.g. GPU and policy; empty: the GPU
};

/// Adds up warp-time per client, SM and time bucket as records come; a run of any length takes the same
/// memory.
class OccupancySink : public Sink {
 public:
  /// `trace` and `gpu` must outlive the sink.
  OccupancySink(const Trace& trace, const Gpu& gpu, OccupancyOptions options);

  using Sink::record;
  void record(std::span<const BlockRecord> blocks) override;
  bool wants_blocks() const override { return true; }

  /// The picture of all records so far; the same bytes for the same records.
  void write(std::ostream& out) const;
  /// What the picture shows, as CSV: client, SM, from and to in ns, mean resident warps.  Rows without any are left out.
  void write_csv(std::ostream& out) const;

 private:
  static constexpr std::size_t kBuckets = 640;

  void halve();

  const Trace& trace_;
  const Gpu& gpu_;
  OccupancyOptions options_;
  std::vector<std::uint32_t> warps_;  // by kernel: of one block
  Time bucket_{1000};                 // length of one, doubled whenever the run outgrows all of them
  Time last_{};                       // latest end seen, from options_.begin
  std::vector<std::vector<std::uint64_t>> warp_ps_;  // by client (empty: none yet), then SM, then bucket
};

}  // namespace corun
