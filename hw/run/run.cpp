#include "hw/run/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "hw/backend/cuda_backend.h"
#include "hw/driver/cuda_driver.h"
#include "hw/process/process_backend.h"
#include "hw/record/recording.h"
#include "hw/run/profile.h"
#include "hw/run/signal_guard.h"
#include "policies/api/registry.h"
#include "traces/json/output_file.h"

namespace corun::hw {
namespace {

bool allocates(const Trace& trace) {
  return std::any_of(trace.programs.begin(), trace.programs.end(),
                     [](const Program& p) { return !p.buffers.empty(); });
}

constexpr Time kRehearsal = std::chrono::milliseconds(20);

/// What is known of a run beside its requests.
struct Found {
  std::vector<std::string> wrong;  // results
  std::uint64_t kernels_verified = 0, moves_verified = 0, blocks = 0;
};

}  // namespace

Runner::Runner(std::unique_ptr<Driver> driver, std::unique_ptr<Compiler> compiler)
    : driver_(std::move(driver)),
      compiler_(std::move(compiler)),
      work_(std::make_unique<Workbench>(*driver_, *compiler_)) {}

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

Profile Runner::profile_of(const Kernel& kernel, const Gpu& gpu, bool by_sm, const Profiles* profiles) {
  return profiles_.of({kernel, by_sm}, [&] {
    if (profiles != nullptr) return points_for(profiles->of(kernel.name), gpu.sms, by_sm);
    return measure_points(work_->device_kernel(kernel), kernel.solo_time.value_or(Time{}), gpu, *work_,
                          by_sm ? Points::by_sm : Points::by_total);
  });
}

/// In this process or in one for each client, under a recording or not.
class Runner::OnGpu final : public Player {
 public:
  OnGpu(Runner& runner, const RunOptions& options) : runner_(runner), options_(options) {}

  SessionOutcome play(const Run& run, Timeline& timeline, const PlayOptions& how) override {
    const auto measured = [&, by_sm = run.needed.capabilities.has(Capability::sm_quota)](KernelId kernel) {
      return runner_.profile_of(run.trace.kernels[kernel.value], run.gpu, by_sm, options_.profiles);
    };
    if (run.needed.profiles)  // measured before the clock runs
      for (const Client& client : run.trace.clients)
        for (const Op& op : run.trace.programs[client.program.value].ops)
          if (const auto* launch = std::get_if<corun::Launch>(&op.what)) measured(launch->kernel);
    CudaOptions cuda;
    cuda.interrupted = &SignalGuard::flag();
    cuda.verify = options_.verify;
    std::unique_ptr<MeasuredBackend> backend;
    if (wants_processes(run.needed))
      backend = std::make_unique<ProcessBackend>(run.trace, run.gpu, run.needed, timeline,
                                                 ProcessOptions{cuda, options_.store, {}});
    else
      backend = rehearsed(run, timeline, cuda, measured);
    SessionOutcome outcome;
    if (options_.record.empty() || !run.together) {
      outcome = corun::play(run.trace, run.policy, *backend, timeline, measured, how);
    } else {
      OutputFile out(options_.record);
      {
        RecordingBackend recorder(*backend, run.named, run.trace, out.stream());
        outcome = corun::play(
            run.trace, run.policy, recorder, timeline,
            [&](KernelId kernel) { return recorder.profile(kernel, measured(kernel)); }, how);
      }
      out.close();
    }
    if (!outcome.stuck.empty()) return outcome;
    for (std::uint32_t c = 0; c < run.trace.clients.size(); ++c)
      if (const std::string why = backend->why_lost(ClientId{c}); !why.empty())
        outcome.failed[c] = "its process " + why;
    Found& found = run.together ? together : alone_.emplace_back();
    found.blocks = backend->blocks_run();
    if (!options_.verify) return outcome;
    found.wrong = backend->verify();
    found.kernels_verified = backend->kernels_verified();
    found.moves_verified = backend->moves_verified();
    return outcome;
  }

  /// Of all runs.
  std::uint64_t kernels_verified() const {
    std::uint64_t all = together.kernels_verified;
    for (const Found& one : alone_) all += one.kernels_verified;
    return all;
  }
  std::vector<std::string> wrong() const {
    std::vector<std::string> all = together.wrong;
    for (const Found& one : alone_) all.insert(all.end(), one.wrong.begin(), one.wrong.end());
    return all;
  }

  Found together;

 private:
  /// A short run goes before the one that counts: no policy causes the waits of a first launch (for streams, partitions, code on
  /// its way to the GPU).
  std::unique_ptr<MeasuredBackend> rehearsed(const Run& run, Timeline& timeline, const CudaOptions& cuda,
                                             const ProfileSource& measured) {
    Timeline nobody;
    auto backend =
        std::make_unique<CudaBackend>(run.trace, run.gpu, run.needed, nobody, *runner_.work_, cuda);
    if (!allocates(run.trace)) {
      Trace rehearsal = run.trace;
      rehearsal.run.duration = std::min(kRehearsal, run.trace.run.duration.value_or(kRehearsal));
      if (options_.verify) backend->check_each_launch();
      corun::play(rehearsal, *make_policy(run.named), *backend, nobody, measured);
      backend->reset();
    }
    backend->record_to(timeline);
    return backend;
  }

  Runner& runner_;
  const RunOptions& options_;
  std::vector<Found> alone_;  // of those that were not known
};

RunResult Runner::run(const Plan& plan, const RunOptions& options) {
  const SignalGuard guard;
  const DeviceFacts facts = driver_->facts();
  OnGpu on_gpu(*this, options);
  const auto began = std::chrono::steady_clock::now();
  if (!plan.needed.instances.empty())
    throw InputError(
        "", "--policy", "corun does not divide the GPU of a machine",
        "an administrator makes the instances (nvidia-smi mig); then run each one's clients on it");
  Ran ran = execute(plan, options, on_gpu, alone_);
  requests_ = std::move(ran.requests);
  RunResult result = std::move(ran.result);
  result.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  if (const std::uint64_t moves = on_gpu.together.moves_verified; moves != 0)
    add_note(result, NoteKind::moved, fmt::format("{} buffers came back from the host as they had left, bit by bit", moves));
  result.alone =
      fmt::format("each client alone on the same {} under fcfs, with the same arrivals and seed", facts.name);
  add_note(result, NoteKind::measured, fmt::format("measured on {} ({})", facts.name, facts.driver));
  const std::vector<std::string> wrong = on_gpu.wrong();
  if (options.verify && wrong.empty())
    add_note(result, NoteKind::verified,
             fmt::format("{} results of clients' kernels are those of the plain kernels, bit by bit",
                         on_gpu.kernels_verified()));
  result.sm_busy = result.occupancy = std::nan("");  // not measured
  result.blocks = on_gpu.together.blocks;
  if (!wrong.empty())
    throw DriverError(fmt::format("{}{}", wrong.front(),
                                  wrong.size() > 1 ? fmt::format(" (and {} more)", wrong.size() - 1) : ""));
  return result;
}

RunResult run(const Plan& plan, const RunOptions& options) {
  return Runner(options.store).run(plan, options);
}

}  // namespace corun::hw
