#include "hw/run/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <optional>
#include <set>

#include "hw/backend/cuda_backend.h"
#include "hw/driver/cuda_driver.h"
#include "hw/process/process_backend.h"
#include "hw/record/recording.h"
#include "hw/run/profile.h"
#include "policies/api/registry.h"
#include "policies/session/session.h"
#include "traces/json/output_file.h"
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

bool allocates(const Trace& trace) {
  return std::any_of(trace.programs.begin(), trace.programs.end(),
                     [](const Program& p) { return !p.buffers.empty(); });
}

/// So long a run goes before the one that counts.
constexpr Time kRehearsal = std::chrono::milliseconds(20);

}  // namespace

struct Runner::OneRun {
  std::vector<RequestRecord> requests;
  std::uint64_t blocks = 0, verified = 0;
  std::vector<std::string> wrong;
  std::uint64_t moves_verified = 0;
  SessionOutcome outcome;
};

Runner::Runner(const std::string& store) : driver_(open_cuda()) {
  const DeviceFacts facts = driver_->facts();
  compiler_ = open_nvrtc(fmt::format("sm_{}{}", facts.capability_major, facts.capability_minor), store);
  work_ = std::make_unique<Workbench>(*driver_, *compiler_);
}
Runner::~Runner() = default;

DeviceFacts Runner::facts() const { return driver_->facts(); }

void Runner::forget() {
  alone_.clear();
  work_->forget_prepared();
}

const Profile& Runner::profile_of(const Kernel& kernel, const Gpu& gpu, bool by_sm,
                                  const Profiles* profiles) {
  Profile& p = profiles_[{kernel.name, by_sm}];
  if (!p.empty()) return p;
  if (profiles != nullptr) return p = points_for(profiles->of(kernel.name), gpu.sms, by_sm);
  return p = measure_points(work_->device_kernel(kernel), kernel.solo_time.value_or(Time{}), gpu, *work_,
                            by_sm ? Points::by_sm : Points::by_total);
}

Runner::OneRun Runner::run_once(const Trace& trace, const Gpu& gpu, const std::string& policy_spec,
                                const RunOptions& options, const std::vector<Sink*>& sinks,
                                const std::string& record, const std::function<void(Time)>& progress) {
  Timeline timeline;
  std::unique_ptr<Policy> policy = make_policy(policy_spec);
  const Requirements needed = policy->requirements();
  CudaOptions cuda;
  cuda.interrupted = &interrupted;
  cuda.verify = options.verify;
  const auto profile = [&](KernelId id) {
    return profile_of(trace.kernels[id.value], gpu, needed.capabilities.has(Capability::sm_quota),
                      options.profiles);
  };
  if (needed.profiles)  // measured before the clock runs
    for (const Client& client : trace.clients)
      for (const Op& op : trace.programs[client.program.value].ops)
        if (const auto* launch = std::get_if<corun::Launch>(&op.what)) profile(launch->kernel);
  std::unique_ptr<MeasuredBackend> made;
  if (wants_processes(needed)) {
    made = std::make_unique<ProcessBackend>(trace, gpu, needed, timeline,
                                            ProcessOptions{cuda, options.store, {}});
  } else {
    auto in_process = std::make_unique<CudaBackend>(trace, gpu, needed, timeline, *work_, cuda);
    if (!allocates(trace)) {
      // What a first launch waits for (streams, partitions, code on its way to the GPU) is no policy's doing.
      Trace rehearsal = trace;
      rehearsal.run.duration = std::min(kRehearsal, trace.run.duration.value_or(kRehearsal));
      Session session(rehearsal, *policy, *in_process, timeline, profile);
      in_process->start();
      session.run();
      in_process->close();
      in_process->reset();
      policy = make_policy(policy_spec);
    }
    made = std::move(in_process);
  }
  MeasuredBackend& backend = *made;
  Requests requests;
  timeline.attach(requests);
  for (Sink* sink : sinks) timeline.attach(*sink);
  std::optional<OutputFile> out;
  std::optional<RecordingBackend> recorder;
  if (!record.empty()) {
    out.emplace(record);
    recorder.emplace(backend, policy_spec, trace, out->stream());
  }
  Backend& outermost = recorder ? static_cast<Backend&>(*recorder) : backend;
  Session session(trace, *policy, outermost, timeline, [&](KernelId kernel) {
    return recorder ? recorder->profile(kernel, profile(kernel)) : profile(kernel);
  });
  backend.start();
  const SessionOutcome outcome = session.run(progress);
  backend.close();
  timeline.flush();
  recorder.reset();
  if (out) out->close();
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
void Runner::report_memory(const Trace& trace, const OneRun& together, RunResult& result) {
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

RunResult Runner::run(const Trace& trace, const Gpu& gpu, const RunOptions& options) {
  const auto began = std::chrono::steady_clock::now();
  const SignalGuard guard;
  const DeviceFacts facts = driver_->facts();
  std::string stage = options.policy;
  const auto tell = [&](Time now) {
    if (options.progress && trace.run.duration)
      options.progress(stage.c_str(), to_seconds(now) / to_seconds(*trace.run.duration));
  };
  OneRun together = run_once(trace, gpu, options.policy, options, options.sinks, options.record, tell);
  requests_ = together.requests;
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
    std::unique_ptr<OneRun>& result =
        alone_[fmt::format("{}\n{}\n{}", trace.name, client.name, one.run.duration.value_or(kNever).count())];
    if (!result) {
      result = std::make_unique<OneRun>(run_once(one, gpu, "fcfs", options, {}, "", tell));
      verified += result->verified;
      wrong.insert(wrong.end(), result->wrong.begin(), result->wrong.end());
    }
    alone.push_back(result->requests);
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

RunResult run(const Trace& trace, const Gpu& gpu, const RunOptions& options) {
  return Runner(options.store).run(trace, gpu, options);
}

}  // namespace corun::hw
