// Block times in the JSON log of UNC's cuda_scheduling_examiner
// (github.com/yalue/cuda_scheduling_examiner_mirror), so that its plotters (view_blocksbysm.py,
// view_timelines.py) and rule checkers read simulated runs.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "traces/model/gpu.h"
#include "traces/model/trace.h"
#include "traces/timeline/timeline.h"

namespace corun {

/// Writes PREFIX1.json, PREFIX2.json, ...: one for each stream of a client that ran a block, in the order of
/// clients and their streams.  Times are seconds with twelve decimals, from the start of the run.
///
/// Where the format has no exact place for what happened: `max_resident_threads` is 2048 an SM whatever the
/// GPU holds, because the plotters divide by 2048 to get the number of SMs; the first object of `times` spans
/// the whole run, with the copies before the first and after the last kernel; of a kernel that is unfinished
/// at the end, those blocks count that have finished.
///
/// The third launch time is when the host learns of the kernel's end; 0, as the examiner has it, where the
/// host hands the stream more without waiting.  A block starts when the dispatcher gets to it: the engine
/// lets blocks of a lap start together a little before, and one that has ended by then lasts a picosecond
/// here.  The rules speak of queues that a host does not see, so a kernel has a key more than the examiner
/// gives it: `ee_queue_time`, when it came to the queue of the execution engine.
class BlockLogSink : public Sink {
 public:
  /// `prefix` is a path.  `trace` and `gpu` must outlive the sink.
  BlockLogSink(const Trace& trace, const Gpu& gpu, std::string prefix);
  ~BlockLogSink() override;

  using Sink::record;
  /// Throws InputError when a file cannot be written.
  void record(const KernelRecord& r) override;
  void record(std::span<const BlockRecord> blocks) override;
  void record(const CopyRecord& r) override;
  bool wants_blocks() const override { return true; }

  /// To be called once, after the last record: completes the files and says which they are.
  std::vector<std::filesystem::path> finish();

 private:
  class Log;
  const Trace& trace_;
  const Gpu& gpu_;
  std::string prefix_;
  std::unique_ptr<Log> log_;
};

}  // namespace corun
