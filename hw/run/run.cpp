#include "hw/run/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <fstream>
#include <optional>
#include <set>

#include "hw/backend/cuda_backend.h"
#include "hw/driver/cuda_driver.h"
#include "hw/process/process_backend.h"
#include "hw/record/recording.h"
#include "hw/run/profile.h"
#include "policies/api/registry.h"
#include "policies/session/session.h"
#include "traces/model/error.h"

namespace corun::hw {
namespace {

std::atomic<bool> interrupted{false};
extern "C" void on_signal(int) { interrupted.store(true); }

/// Ctrl-C ends the run in good order while this lives; the old handlers come back afterwards.
class SignalGuard {
 public:
  SignalGuard() : old_int_(std::signal(SIGINT, on_signal)), old_term_(std::signal(SIGTERM, on_signal)) {
    interrupted = false;
  }
  ~SignalGuard() {
    std::signal(SIGINT, old_int_);
    std::signal(SIGTERM, old_term_);
  }

 private:
  void (*old_int_)(int);
  void (*old_term_)(int);
};

class Requests final : public Sink {
 public:
  using Sink::record;
  void record(const RequestRecord& r) override { all.push_back(r); }
  std::vector<RequestRecord> all;
};

struct OneRun {
  std::vector<RequestRecord> requests;
  std::uint64_t blocks = 0, verified = 0;
  std::vector<std::string> wrong;
  std::uint64_t moves_verified = 0;
  SessionOutcome outcome;
};

OneRun run_once(const Trace& trace, const Gpu& gpu, const std::string& policy_spec, Workbench& work,
                const RunOptions& options, const std::vector<Sink*>& sinks, const std::string& record,
                const std::function<void(Time)>& progress) {
  Timeline timeline;
  Requests requests;
  timeline.attach(requests);
  for (Sink* sink : sinks) timeline.attach(*sink);
  const std::unique_ptr<Policy> policy = make_policy(policy_spec);
  CudaOptions cuda;
  cuda.interrupted = &interrupted;
  cuda.verify = options.verify;
  const Requirements needed = policy->requirements();
  std::unique_ptr<MeasuredBackend> made;
  if (wants_processes(needed))
    made = std::make_unique<ProcessBackend>(trace, gpu, needed, timeline,
                                            ProcessOptions{cuda, options.store, {}});
  else
    made = std::make_unique<CudaBackend>(trace, gpu, needed, timeline, work, cuda);
  MeasuredBackend& backend = *made;
  std::map<std::uint32_t, Profile> profiles;  // measured before the clock runs
  if (policy->requirements().profiles) profiles = measure_profiles(trace, gpu, work);
  std::ofstream out;
  std::optional<RecordingBackend> recorder;
  if (!record.empty()) {
    out.open(record);
    if (!out) throw InputError(record, "", "it cannot be written", "choose another place with --record");
    recorder.emplace(backend, policy_spec, trace, out);
  }
  Backend& outermost = recorder ? static_cast<Backend&>(*recorder) : backend;
  Session session(trace, *policy, outermost, timeline, [&](KernelId kernel) {
    const Profile& p = profiles.at(kernel.value);
    return recorder ? recorder->profile(kernel, p) : p;
  });
  backend.start();
  const SessionOutcome outcome = session.run(progress);
  backend.close();
  timeline.flush();
  if (!outcome.stuck.empty())
    throw InputError(trace.name, "",
                     fmt::format("the run cannot go on under {}: {}", policy_spec, outcome.stuck),
                     "a reservation or mask may leave a client without SMs; check the trace and the policy");
  OneRun one{std::move(requests.all), backend.blocks_run(), 0, {}, 0, outcome};
  for (std::uint32_t c = 0; c < trace.clients.size(); ++c)
    if (const std::string why = backend.why_lost(ClientId{c}); !why.empty())
      one.outcome.failed[c] = "its process " + why;
  if (options.verify) {
    one.wrong = backend.verify();
    one.verified = backend.kernels_verified();
    one.moves_verified = backend.moves_verified();
  }
  return one;
}

/// What did not end as its clients wished, and what became of device memory.
void report_memory(const Trace& trace, const OneRun& together, RunResult& result) {
  const SessionOutcome& o = together.outcome;
  for (std::size_t i = 0; i < trace.clients.size(); ++i) result.clients[i].failed = o.failed[i];
  result.memory_peak = o.memory_peak;
  result.checkpoints = o.checkpoints;
  result.moved_bytes = o.moved_bytes;
  if (!o.deadlock.empty()) result.notes.insert(result.notes.begin(), "deadlock: " + o.deadlock);
  if (together.moves_verified != 0)
    result.notes.push_back(fmt::format("{} buffers came back from the host as they had left, bit by bit",
                                       together.moves_verified));
}

}  // namespace

RunResult run(const Trace& trace, const Gpu& gpu, const RunOptions& options) {
  const auto began = std::chrono::steady_clock::now();
  const SignalGuard guard;
  const std::unique_ptr<Driver> driver = open_cuda();
  const DeviceFacts facts = driver->facts();
  const std::unique_ptr<Compiler> compiler =
      open_nvrtc(fmt::format("sm_{}{}", facts.capability_major, facts.capability_minor), options.store);
  Workbench work(*driver, *compiler);
  std::string stage = options.policy;
  const auto tell = [&](Time now) {
    if (options.progress && trace.run.duration)
      options.progress(stage.c_str(), to_seconds(now) / to_seconds(*trace.run.duration));
  };
  const OneRun together =
      run_once(trace, gpu, options.policy, work, options, options.sinks, options.record, tell);
  const Window window = window_of(trace, together.requests);
  std::vector<std::string> wrong = together.wrong;
  std::uint64_t verified = together.verified;
  std::vector<std::vector<RequestRecord>> alone;
  for (const Client& client : trace.clients) {
    if (!options.alone) break;
    Trace one = trace;
    one.clients = {client};
    if (!window.fixed_work) one.run.duration = window.end;
    stage = client.name + " alone";
    OneRun result = run_once(one, gpu, "fcfs", work, options, {}, "", tell);
    alone.push_back(std::move(result.requests));
    wrong.insert(wrong.end(), result.wrong.begin(), result.wrong.end());
    verified += result.verified;
  }
  RunResult result = measure(trace, window, together.requests, alone);
  report_memory(trace, together, result);
  result.gpu = gpu.name;
  result.policy = options.policy;
  result.alone =
      fmt::format("each client alone on the same {} under fcfs, with the same arrivals and seed", facts.name);
  result.notes.insert(result.notes.begin(), fmt::format("measured on {} ({})", facts.name, facts.driver));
  if (options.verify && wrong.empty())
    result.notes.push_back(fmt::format(
        "the results of {} kernels of clients are those of the plain kernels, bit by bit", verified));
  result.sm_busy = result.occupancy = std::nan("");  // not measured
  result.blocks = together.blocks;
  result.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  if (!wrong.empty())
    throw DriverError(fmt::format("{}{}", wrong.front(),
                                  wrong.size() > 1 ? fmt::format(" (and {} more)", wrong.size() - 1) : ""));
  return result;
}

}  // namespace corun::hw
