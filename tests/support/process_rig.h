// Clients in processes before drivers that play a GPU in each: what tests of processes and of MPS share.
#pragma once

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "hw/process/process_backend.h"
#include "hw/process/worker.h"
#include "policies/api/registry.h"
#include "policies/session/session.h"
#include "tests/support/fake_driver.h"
#include "traces/json/trace_json.h"

namespace corun::hw {

enum class Fault : std::uint8_t { none, hangs, driver_fails };

/// A process with a fake driver in it, whose time goes with the real one closely enough for its patience.
inline Child fork_worker(const Channel& channel, Fault fault) {
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid != 0) return Child(pid);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);
  Channel mine(dup(channel.fd()), Channel::End::worker);
  const int code =
      serve(mine, {[fault]() -> std::unique_ptr<Driver> {
                     if (fault == Fault::driver_fails) throw DriverError("cuInit: CUDA_ERROR_UNKNOWN");
                     auto driver = std::make_unique<FakeDriver>();
                     if (fault == Fault::hangs) driver->sound_launches = 1;  // one as it sets up
                     return driver;
                   },
                   [](const DeviceFacts&, const std::string&) { return std::make_unique<FakeCompiler>(); }});
  _exit(code);
}

inline std::size_t children() {  // processes of ours that have not been waited for
  std::ifstream in("/proc/self/task/" + std::to_string(getpid()) + "/children");
  std::size_t n = 0;
  for (std::string pid; in >> pid;) ++n;
  return n;
}

class Records final : public Sink {
 public:
  using Sink::record;
  void record(const KernelRecord& r) override {
    kernels.push_back(r);
    if (on_kernel) on_kernel();
  }
  std::vector<KernelRecord> kernels;
  std::function<void()> on_kernel;
};

/// Clients with `launches` launches of spin10 each.
struct ProcessRig {
  ProcessRig(std::vector<std::string> names, std::uint32_t launches, std::uint32_t requests = 1) {
    Kernel kernel;
    kernel.name = "spin10";
    kernel.grid = find_kernel("spin10")->grid, kernel.block = find_kernel("spin10")->block;
    kernel.solo_time = from_ns(4e5);
    trace.name = "processes", trace.gpu = "h200";
    trace.kernels = {kernel};
    Program program{"p", Issue::eager, {{"main"}}, {}, {}};
    for (std::uint32_t i = 0; i < launches; ++i)
      program.ops.push_back(Op{corun::Launch{KernelId{0}, {}, {}}, StreamId{0}, Time{}, {}, {}, {}});
    trace.programs = {program};
    for (const std::string& name : names) {
      Client c;
      c.name = c.process = name, c.program = ProgramId{0}, c.streams.resize(1);
      c.arrivals = ExplicitTimes{std::vector<Time>(requests, Time{})};
      c.stale = Stale::queue;
      trace.clients.push_back(c);
    }
    timeline.attach(records);
    options.cuda.verify = true;
    options.start = [this](const Channel& channel, const std::vector<std::string>& environment) {
      environments.push_back(environment);
      return fork_worker(channel,
                         faults.size() < environments.size() ? Fault::none : faults[environments.size() - 1]);
    };
  }
  ProcessBackend& make(const std::string& spec) {
    policy = make_policy(spec);
    backend =
        std::make_unique<ProcessBackend>(trace, read_gpu("h200"), policy->requirements(), timeline, options);
    return *backend;
  }
  SessionOutcome run(const std::string& spec = "timeslice") {
    make(spec);
    Session session(trace, *policy, *backend, timeline, {});
    backend->start();
    const SessionOutcome outcome = session.run();
    backend->close();
    return outcome;
  }
  std::size_t kernels_of(std::uint32_t client) const {
    return static_cast<std::size_t>(
        std::count_if(records.kernels.begin(), records.kernels.end(),
                      [&](const auto& r) { return r.client.value == client && r.finished != kNever; }));
  }

  Trace trace;
  Timeline timeline;
  Records records;
  ProcessOptions options;
  std::vector<Fault> faults;  // by process
  std::vector<std::vector<std::string>> environments;
  std::unique_ptr<Policy> policy;
  std::unique_ptr<ProcessBackend> backend;
};

}  // namespace corun::hw
