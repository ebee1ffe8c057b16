// The fan-out of records to sinks.
#include "traces/timeline/timeline.h"

namespace corun {

const char* to_string(Gauge gauge) {
  switch (gauge) {
    case Gauge::pending_launches:
      return "pending launches";
    case Gauge::tmu_queue:
      return "TMU queue";
    case Gauge::task_slots:
      return "task slots";
    case Gauge::resident_blocks:
      return "resident blocks";
    case Gauge::resident_warps:
      return "resident warps";
    case Gauge::dram_bandwidth_pct:
      return "DRAM bandwidth";
    case Gauge::device_memory:
      return "device memory";
  }
  return "?";
}

void Timeline::attach(Sink& sink) {
  sinks_.push_back(&sink);
  wants_blocks_ = wants_blocks_ || sink.wants_blocks();
  wants_gauges_ = wants_gauges_ || sink.wants_gauges();
  wants_losses_ = wants_losses_ || sink.wants_losses();
}

void Timeline::flush() {
  if (blocks_.empty()) return;
  for (Sink* sink : sinks_)
    if (sink->wants_blocks()) sink->record(std::span<const BlockRecord>(blocks_));
  blocks_.clear();
}

}  // namespace corun
