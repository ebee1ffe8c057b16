// A worker: the process that has some of a run's clients, with a context of its own.  It carries out what the
// run decided by a CudaBackend of its own, and tells what became of it.
#pragma once

#include <functional>
#include <memory>

#include "hw/driver/compiler.h"
#include "hw/driver/driver.h"
#include "hw/process/channel.h"

namespace corun::hw {

/// What a worker finds in its process.
struct WorkerTools {
  std::function<std::unique_ptr<Driver>()> driver;
  std::function<std::unique_ptr<Compiler>(const DeviceFacts&, const std::string& store)> compiler;
};

/// Serves the run at the other end until told to quit.  Returns the process's exit code.
int serve(Channel& channel, const WorkerTools& tools);

/// The whole of a worker process, whose command line is worker_command(); the channel is Child::kDescriptor.
int worker_main();
/// This program as a worker: `main` must hand over to worker_main() when is_worker().
std::vector<std::string> worker_command();
bool is_worker(int argc, char** argv);

}  // namespace corun::hw
