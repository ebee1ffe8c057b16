// What a run leaves behind besides its table: the files of --out and --block-log.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "traces/model/gpu.h"
#include "traces/model/trace.h"
#include "traces/timeline/metrics.h"
#include "traces/timeline/timeline.h"

namespace corun::sim {

struct OutputOptions {
  std::string directory;  // empty: none
  std::string level = "kernel";
  std::string window;     // "0ms-20ms"; empty: all
  std::string block_log;  // prefix; empty: none
  std::string command_line;
  bool for_page = false;  // and the data of its charts
};

class Outputs {
 public:
  /// Opens the files, so that a place that cannot be written is told before the run.  Throws InputError.
  Outputs(const OutputOptions& options, const Trace& trace, const Gpu& gpu);
  ~Outputs();

  std::vector<Sink*> sinks() const;
  /// Writes what waits for the end.  Throws InputError if a file could not be written.
  void finish(const RunResult& result);

 private:
  struct Files;
  std::unique_ptr<Files> files_;
};

}  // namespace corun::sim
