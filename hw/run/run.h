// A run on a GPU: what its backends are made of (rehearsal, processes, recording, verified results), and what
// runs of one trace share.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "hw/kernels/workbench.h"
#include "policies/session/run.h"
#include "traces/model/gpu.h"
#include "traces/model/trace.h"

namespace corun::hw {

struct RunOptions : corun::RunOptions {
  std::string store{};   // folder that keeps compiled kernels; empty: none
  std::string record{};  // file for the notices and decisions; empty: none
  bool verify = false;   // fail if a result differs from the plain kernel's
};

/// Runs on the GPU of this machine.  Keeps between runs what they can share: compiled kernels, partitions,
/// profiles, and of one trace the clients' buffers and their runs alone.
class Runner {
 public:
  /// `store`: folder that keeps compiled kernels between processes; empty: none.  Throws InputError where
  /// there is no GPU.
  explicit Runner(const std::string& store);
  Runner(std::unique_ptr<Driver> driver, std::unique_ptr<Compiler> compiler);
  ~Runner();

  /// Throws InputError as sim::run does; DriverError, Stalled or Interrupted when the run fails, after
  /// everything has been taken off the GPU.  What a client did alone is known from then on.
  RunResult run(const Plan& plan, const RunOptions& options);
  RunResult run(const Trace& trace, const Gpu& gpu, const RunOptions& options) {
    return run(Plan{trace, gpu, options.policy}, options);
  }
  /// Requests of the last run, all clients together.
  const std::vector<RequestRecord>& requests() const { return requests_; }
  /// Forgets the clients' buffers and their runs alone, before another trace.
  void forget();

  Workbench& work() { return *work_; }
  DeviceFacts facts() const;

 private:
  class OnGpu;
  Profile profile_of(const Kernel& kernel, const Gpu& gpu, bool by_sm, const Profiles* profiles);

  std::unique_ptr<Driver> driver_;
  std::unique_ptr<Compiler> compiler_;
  std::unique_ptr<Workbench> work_;
  std::vector<RequestRecord> requests_;
  MadeOnce<std::pair<Kernel, bool>, Profile> profiles_;  // by SM or not
  AloneRuns alone_;
};

/// One run by a Runner of its own.
RunResult run(const Plan& plan, const RunOptions& options);

}  // namespace corun::hw
